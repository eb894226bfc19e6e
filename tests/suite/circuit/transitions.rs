//! The transitions, each once and in order, beside threads that make them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::flow::circuit::CircuitState::{Closed, ForcedOpen, HalfOpen, Open};
use leaparray::flow::circuit::{Cause, CircuitState, Transition, Transitions, Wait};
use leaparray::flow::{CircuitBreaker, CircuitConfig, LimiterExt};
use leaparray::{ManualClock, Outcome, Timestamp};

use crate::circuit::{NOON, SECOND, Scene};

fn parts(transition: Transition) -> (CircuitState, CircuitState, Cause) {
    (transition.from, transition.to, transition.cause)
}

#[test]
fn transitions_have_their_causes_and_times() {
    let scene = Scene::new(Scene::base());
    let mut transitions = scene.breaker.transitions();
    assert_eq!(transitions.next(), None);
    scene.calls("FFFFF").after(6 * SECOND).calls("?").after(3 * SECOND);
    assert!(!scene.admits());
    scene.after(6 * SECOND).calls("SSSS").calls("sssss").set(ForcedOpen);
    let all: Vec<_> = std::iter::from_fn(|| transitions.next()).collect();
    let expected = [
        (Closed, Open, Cause::ExceptionRatio),
        (Open, HalfOpen, Cause::WaitOver),
        (HalfOpen, Open, Cause::Timeout),
        (Open, HalfOpen, Cause::WaitOver),
        (HalfOpen, Closed, Cause::Probes),
        (Closed, Open, Cause::SlowRatio),
        (Open, ForcedOpen, Cause::Set),
    ];
    assert_eq!(all.iter().map(|&it| parts(it)).collect::<Vec<_>>(), expected);
    let seconds: Vec<_> = all.iter().map(|it| it.at.saturating_since(NOON).as_secs()).collect();
    assert_eq!(seconds, [0, 6, 7, 15, 15, 15, 15]);
}

#[test]
fn time_out_is_not_before_its_half_open_state() {
    let timeout = Some(Duration::from_micros(500));
    let config = Scene::base().probes(1).unwrap().half_open_timeout(timeout).unwrap();
    let scene = Scene::new(config);
    let mut transitions = scene.breaker.transitions();
    scene.calls("FFFFF").after(6 * SECOND + Duration::from_micros(900));
    let probe = scene.ask().unwrap();
    scene.after(SECOND);
    probe.accept();
    let times: Vec<_> = std::iter::from_fn(|| transitions.next()).map(|it| it.at).collect();
    assert!(times.len() == 3 && times.is_sorted(), "{times:?}");
}

#[test]
fn reader_begins_with_the_next_transition() {
    let scene = Scene::new(Scene::base());
    scene.set(ForcedOpen);
    let mut transitions = scene.breaker.transitions();
    let mut same = transitions.clone();
    scene.set(Closed);
    for reader in [&mut transitions, &mut same] {
        assert_eq!(reader.next().map(parts), Some((ForcedOpen, Closed, Cause::Set)));
        assert_eq!(reader.next(), None);
    }
}

#[test]
fn many_unread_transitions_are_dropped_on_a_small_stack() {
    let scene = Scene::new(Scene::base());
    let transitions = scene.breaker.transitions();
    for _ in 0..100_000 {
        scene.set(ForcedOpen).set(Closed);
    }
    let drops = move || drop(transitions);
    thread::Builder::new().stack_size(64 << 10).spawn(drops).unwrap().join().unwrap();
}

/// Threads ask and report at random, and set the state now and then. Each reader sees every
/// transition: each begins with the state with which the one before has ended.
#[test]
fn readers_see_an_unbroken_chain() {
    const THREADS: u64 = 4;
    let config = CircuitConfig::default()
        .min_calls(3)
        .consecutive_exceptions(3)
        .wait(Wait::new(Duration::from_millis(1)))
        .probes(2)
        .unwrap();
    let breaker = CircuitBreaker::with_clock(config, ManualClock::new(NOON));
    let done = AtomicBool::new(false);
    let reader = |mut transitions: Transitions| {
        let (mut state, mut seen) = (Closed, 0_u64);
        loop {
            let is_done = done.load(Ordering::Acquire);
            while let Some(transition) = transitions.next() {
                assert_eq!(transition.from, state, "after {seen} transitions");
                state = transition.to;
                seen += 1;
            }
            if is_done {
                return (state, seen);
            }
        }
    };
    thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            let transitions = breaker.transitions();
            scope.spawn(|| reader(transitions))
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let breaker = &breaker;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for millis in 0..20_000 {
                        let now = NOON.saturating_add(Duration::from_millis(millis));
                        if let Ok(permit) = breaker.try_acquire_at(now, 1).at_once() {
                            match random.u32(0..3) {
                                0 => permit.end_at(now, Outcome::Success),
                                1 => permit.end_at(now, Outcome::Exception),
                                _ => permit.end_at(now, Outcome::Cancelled),
                            }
                        }
                        if random.u32(0..100) == 0 {
                            breaker.set_state_at(now, Closed).unwrap();
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        done.store(true, Ordering::Release);
        let [one, other] = readers.map(|reader| reader.join().unwrap());
        assert_eq!(one, other);
        assert!(one.1 > 1_000, "{one:?}");
        assert_eq!(breaker.at(Timestamp::MIN).state, one.0);
    });
}

/// A half-open breaker whose time is over is shown as open, and is set from open.
#[test]
fn state_is_set_from_the_state_that_is_shown() {
    for (to, causes) in [
        (HalfOpen, [Cause::Timeout, Cause::Set]),
        (Closed, [Cause::Timeout, Cause::Set]),
        (Open, [Cause::Timeout, Cause::Set]),
    ] {
        let scene = Scene::new(Scene::base());
        scene.set(Open).after(6 * SECOND).calls("?").is(HalfOpen);
        let mut transitions = scene.breaker.transitions();
        scene.after(2 * SECOND).is(Open).set(to).is(to);
        let found: Vec<_> = std::iter::from_fn(|| transitions.next()).collect();
        assert_eq!(found.iter().map(|it| it.cause).collect::<Vec<_>>(), causes);
        assert!(found.windows(2).all(|pair| pair[0].to == pair[1].from));
    }
}
