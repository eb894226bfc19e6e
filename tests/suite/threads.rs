//! Each add is counted, with more threads than cores, with threads that end, and with more windows
//! than a thread cache has places for.

use std::cell::RefCell;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};

const PASS: MetricEvent = MetricEvent::Pass;

fn window() -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    SlidingWindow::with_clock(config, ManualClock::new(Timestamp::from_secs(10)))
}

#[test]
fn adds_of_more_threads_than_cores_are_counted() {
    // Also more than 32, so that a read finds cells in more than one group.
    let threads = (4 * thread::available_parallelism().unwrap().get() + 3).max(40);
    let adds = 2_000;
    let (window, start) = (window(), Barrier::new(threads));
    thread::scope(|scope| {
        for number in 0..threads {
            let (window, start) = (&window, &start);
            scope.spawn(move || {
                let record = || window.record_success(Duration::from_nanos(number as u64));
                record();
                // After this, each thread has a cell.
                start.wait();
                for _ in 1..adds {
                    record();
                }
            });
        }
    });
    let count = threads as u64;
    assert_eq!(window.now().sum(MetricEvent::Success), count * adds);
    assert_eq!(window.now().sum(MetricEvent::Rt), adds * count * (count - 1) / 2);
    assert_eq!(window.now().totals().min_rt(), Some(Duration::ZERO));
    assert_eq!(window.now().totals().max_rt(), Some(Duration::from_nanos(count - 1)));
}

#[test]
fn adds_of_ended_threads_are_counted() {
    let window = window();
    for number in 1..=100 {
        thread::scope(|scope| {
            scope.spawn(|| window.add(PASS, 1));
        });
        assert_eq!(window.now().sum(PASS), number);
        if number % 10 == 0 {
            window.clock().advance(Duration::from_nanos(1));
        }
    }
}

#[test]
fn adds_to_more_windows_than_the_thread_cache_holds_are_counted() {
    let windows: Vec<_> = (0..24_000).map(|_| window()).collect();
    for round in 1..=3 {
        for window in &windows {
            window.add(PASS, 1);
            assert_eq!(window.now().sum(PASS), round);
        }
    }
    for window in &windows {
        window.clock().advance(Duration::from_secs(1));
        window.add(PASS, 10);
        let ledger = window.now().ledger().map(|totals| totals.sum(PASS));
        assert_eq!((ledger.in_window, ledger.expired), (10, 3));
    }
}

#[test]
fn dropped_window_leaves_no_count_to_the_next_one() {
    for round in 0..3_000 {
        let window = window();
        window.add(PASS, round);
        assert_eq!(window.now().sum(PASS), round);
    }
}

/// Records when it is dropped, at the end of its thread.
struct RecordsAtTheEnd(SlidingWindow<ManualClock>);

impl Drop for RecordsAtTheEnd {
    fn drop(&mut self) {
        self.0.add(PASS, 100);
    }
}

#[test]
fn add_of_a_thread_that_is_ending_is_counted() {
    thread_local! {
        static AT_THE_END: RefCell<Option<RecordsAtTheEnd>> = const { RefCell::new(None) };
    }
    let keep = |window: &SlidingWindow<_>| {
        AT_THE_END.with(|it| *it.borrow_mut() = Some(RecordsAtTheEnd(window.clone())));
    };
    // Thread-locals are dropped in the order of their initialization or in reverse, so both orders
    // are tested.
    for cache_first in [false, true] {
        let window = window();
        let recorder = window.clone();
        let ending = thread::spawn(move || {
            if cache_first {
                recorder.add(PASS, 1);
                keep(&recorder);
            } else {
                keep(&recorder);
                recorder.add(PASS, 1);
            }
        });
        ending.join().unwrap();
        assert_eq!(window.now().sum(PASS), 101, "cache first: {cache_first}");
    }
}
