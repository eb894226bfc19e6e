//! A forked child: the thread that has called `fork` goes on there, with a copy of all memory, and
//! without the other threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use std::{process, thread};

use fork::Fork;
use leaparray::MetricEvent::Pass;
use leaparray::flow::breaker::{RandomSource, ThreadRandom};
use leaparray::flow::{ConcurrencyLimiter, WaitQueue};
use leaparray::time::CachedClock;
use leaparray::{Clock, ManualClock, SlidingWindow, Timestamp, WindowConfig};

use crate::operations::OPERATIONS;
use crate::own_process;

/// Forks, and returns whether the child succeeds with `run`.
fn succeeds_in_a_child(run: impl FnOnce()) -> bool {
    match fork::fork().unwrap() {
        Fork::Child => process::exit(i32::from(catch_unwind(AssertUnwindSafe(run)).is_err())),
        Fork::Parent(child) => fork::waitpid(child).unwrap() == 0,
    }
}

/// The cases, each of which forks in a process of its own: no other test has a lock then.
const CASES: [(&str, fn()); 5] = [
    ("operations", each_operation_works),
    ("counts", child_has_a_copy_of_all_counts),
    ("clock", started_clock_stands_still_and_is_dropped),
    ("chances", child_repeats_the_chances_until_it_is_seeded),
    ("queue", places_of_other_threads_stay_taken),
];

fn each_operation_works() {
    for used in [false, true] {
        if used {
            for (_, operation) in OPERATIONS {
                operation();
            }
        }
        assert!(succeeds_in_a_child(|| {
            for (name, operation) in OPERATIONS {
                eprintln!("{name}");
                operation();
            }
        }));
    }
}

fn child_has_a_copy_of_all_counts() {
    let config = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    let window = SlidingWindow::with_clock(config, ManualClock::new(Timestamp::from_secs(60)));
    let add = || window.add(Pass, 1);
    add();
    thread::scope(|scope| scope.spawn(add).join().unwrap());
    assert!(succeeds_in_a_child(|| {
        add();
        assert_eq!(window.now().sum(Pass), 3);
    }));
    assert_eq!(window.now().sum(Pass), 2);
}

fn started_clock_stands_still_and_is_dropped() {
    let source = ManualClock::new(Timestamp::from_secs(1));
    let clock = CachedClock::start(source.clone(), Duration::ZERO).unwrap();
    let in_child = clock.clone();
    assert!(succeeds_in_a_child(move || {
        source.set(Timestamp::from_secs(2));
        assert_eq!(in_child.now(), Timestamp::from_secs(1), "no thread refreshes it");
        in_child.refresh();
        assert_eq!(in_child.now(), Timestamp::from_secs(2));
        drop(clock);
        drop(in_child);
    }));
}

fn child_repeats_the_chances_until_it_is_seeded() {
    let draw = || [(); 4].map(|()| ThreadRandom.next_u32());
    // The state of a generator that has drawn nothing is not copied: the child makes its own.
    let _ = draw();
    let seed = fastrand::get_seed();
    let next = draw();
    fastrand::seed(seed);
    assert!(succeeds_in_a_child(move || assert_eq!(draw(), next)));
    assert!(succeeds_in_a_child(move || {
        fastrand::seed(process::id().into());
        assert_ne!(draw(), next);
    }));
}

fn places_of_other_threads_stay_taken() {
    let queue = &WaitQueue::new(Arc::new(ConcurrencyLimiter::new(1)));
    let acquire = |timeout| queue.acquire_blocking(1, timeout);
    let permit = acquire(Duration::ZERO).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(acquire(Duration::MAX).unwrap()));
        while queue.waiting() == 0 {
            thread::yield_now();
        }
        assert!(succeeds_in_a_child(move || {
            drop(permit);
            assert_eq!(queue.waiting(), 1, "the thread that waits does not exist here");
            assert!(acquire(Duration::ZERO).is_err(), "it is ahead");
        }));
        // In the parent, the permit was dropped with the closure, unused.
        waiting.join().unwrap();
    });
}

#[test]
fn cases() {
    for (case, _) in CASES {
        let output = own_process::run("forked::case", case);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{case}: {errors}");
    }
}

#[test]
#[ignore = "the process that the other test starts"]
fn case() {
    let Some(argument) = own_process::argument() else { return };
    let (_, run) = CASES.iter().find(|(case, _)| *case == argument).unwrap();
    run();
}
