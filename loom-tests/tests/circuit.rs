//! The circuit breaker: one thread trips it, the probes are limited, an outcome of an earlier state
//! changes nothing, and readers see the transitions in order.
#![cfg(loom)]

use std::time::Duration;

use leaparray::flow::circuit::CircuitState::{Closed, HalfOpen, Open};
use leaparray::flow::circuit::{CircuitState, Transitions, Wait};
use leaparray::flow::{Ask, CircuitBreaker, CircuitConfig, FeedbackPermit, LimiterExt};
use leaparray::{ManualClock, Outcome, Timestamp, WindowConfig, shadow_all_words};
use leaparray_loom_tests::{LEN, explore};
use loom::sync::Arc;
use loom::thread;

type Breaker = CircuitBreaker<ManualClock>;

const WAIT: Duration = Duration::from_millis(5);
const START: Timestamp = Timestamp::from_secs(1);

fn config() -> CircuitConfig {
    CircuitConfig::default().wait(Wait::new(WAIT)).probes(1).unwrap()
}

/// A breaker of the last calls, which opens at the second exception in a row.
fn of_last_calls() -> CircuitConfig {
    config().last_calls(2).unwrap().no_exception_ratio().consecutive_exceptions(2)
}

/// A breaker of a window of two buckets, which opens at two exceptions.
fn of_window() -> CircuitConfig {
    let window = WindowConfig::new(2, LEN * 2).unwrap();
    config().window(window).unwrap().no_exception_ratio().exceptions(2)
}

fn breaker(config: CircuitConfig) -> Arc<Breaker> {
    Arc::new(CircuitBreaker::with_clock(config, ManualClock::new(START)))
}

fn after_wait() -> Timestamp {
    START.saturating_add(WAIT)
}

/// Makes a call that fails, if it is admitted.
fn fail(breaker: &Breaker, now: Timestamp) {
    if let Ok(permit) = breaker.try_acquire_at(now, 1).at_once() {
        permit.end_at(now, Outcome::Exception);
    }
}

fn open(breaker: &Breaker) {
    fail(breaker, START);
    fail(breaker, START);
    assert_eq!(breaker.at(START).state, Open);
}

/// Reads all transitions, and checks that each begins with the state with which the one before has
/// ended.
fn chain(transitions: &mut Transitions, mut state: CircuitState) -> Vec<CircuitState> {
    std::iter::from_fn(|| {
        let transition = transitions.next()?;
        assert_eq!(transition.from, state);
        state = transition.to;
        Some(state)
    })
    .collect()
}

#[test]
fn two_failures_beside_each_other_trip_once() {
    for config in [of_last_calls(), of_window()] {
        explore(Some(2), move || {
            let breaker = breaker(config);
            let mut transitions = breaker.transitions();
            let other = breaker.clone();
            let other = thread::spawn(move || fail(&other, START));
            fail(&breaker, START);
            other.join().unwrap();
            assert_eq!(breaker.at(START).state, Open);
            assert_eq!(chain(&mut transitions, Closed), [Open]);
        });
    }
}

#[test]
fn one_probe_is_admitted() {
    explore(Some(3), || {
        shadow_all_words();
        let breaker = breaker(of_last_calls());
        open(&breaker);
        let mut transitions = breaker.transitions();
        let ask = |breaker: &Breaker| match breaker.try_acquire_at(after_wait(), 1).at_once() {
            Ok(permit) => {
                std::mem::forget(permit);
                1
            }
            Err(_) => 0,
        };
        let other = breaker.clone();
        let other = thread::spawn(move || ask(&other));
        assert_eq!(ask(&breaker) + other.join().unwrap(), 1);
        assert_eq!(breaker.at(after_wait()).state, HalfOpen);
        assert_eq!(chain(&mut transitions, Open), [HalfOpen]);
    });
}

/// A thread that finds the half-open state finds the time of its probe.
#[test]
fn half_open_state_is_found_with_its_time() {
    explore(Some(3), || {
        shadow_all_words();
        let config = of_last_calls().half_open_timeout(Some(WAIT)).unwrap();
        let breaker = breaker(config);
        open(&breaker);
        let other = breaker.clone();
        let other = thread::spawn(move || {
            other.try_acquire_at(after_wait(), 1).at_once().map(std::mem::forget).unwrap();
        });
        // Open still, or half-open with its time over.
        assert_eq!(breaker.at(after_wait().saturating_add(WAIT)).state, Open);
        other.join().unwrap();
    });
}

/// A thread that finds a further probe finds its time, so the probe is not over with the one before
/// it.
#[test]
fn admitted_probe_is_found_with_its_time() {
    explore(Some(3), || {
        shadow_all_words();
        let config = of_last_calls().probes(2).unwrap().half_open_timeout(Some(WAIT)).unwrap();
        let breaker = breaker(config);
        open(&breaker);
        std::mem::forget(breaker.try_acquire_at(after_wait(), 1).at_once().unwrap());
        let other = breaker.clone();
        let other = thread::spawn(move || {
            let before = after_wait().saturating_add(WAIT / 2);
            other.try_acquire_at(before, 1).at_once().map(std::mem::forget).is_ok()
        });
        let over = after_wait().saturating_add(WAIT);
        let _ = breaker.try_acquire_at(over, 1).at_once().map(std::mem::forget);
        if other.join().unwrap() {
            assert_eq!(breaker.at(over).state, HalfOpen);
        }
    });
}

/// A call of the closed breaker ends while another thread opens the breaker, half-opens it and
/// closes it again.
fn late_outcome(preemptions: usize, config: CircuitConfig) {
    explore(Some(preemptions), move || {
        let breaker = breaker(config);
        fail(&breaker, START);
        let late = FeedbackPermit::ask(breaker.clone(), &Ask::at(START)).at_once().unwrap();
        let late = thread::spawn(move || late.end_at(START, Outcome::Exception));
        fail(&breaker, START);
        let now = after_wait();
        if let Ok(probe) = breaker.try_acquire_at(now, 1).at_once() {
            probe.end_at(now, Outcome::Success);
        }
        late.join().unwrap();
        assert_eq!(breaker.at(now).state, Closed);
        assert_eq!(breaker.at(now).calls.calls, 0);
        fail(&breaker, now);
        assert_eq!(breaker.at(now).state, Closed, "one exception of two");
    });
}

/// With shadows, two preemptions are 226,000 executions. For the call to end in a later state, one
/// is enough.
#[test]
fn late_outcome_counts_in_no_later_state() {
    late_outcome(2, of_last_calls());
    shadow_all_words();
    for config in [of_last_calls(), of_window()] {
        late_outcome(1, config);
    }
}

/// A probe is cancelled while another thread asks for its place.
#[test]
fn cancelled_probe_gives_its_place_back_once() {
    explore(Some(3), || {
        shadow_all_words();
        let breaker = breaker(of_last_calls());
        open(&breaker);
        let now = after_wait();
        let probe = breaker.try_acquire_at(now, 1).at_once().unwrap();
        let other = breaker.clone();
        let other = thread::spawn(move || {
            let permit = other.try_acquire_at(now, 1).at_once();
            permit.map(std::mem::forget).is_ok()
        });
        probe.end_at(now, Outcome::Cancelled);
        let is_admitted = other.join().unwrap();
        assert_eq!(breaker.try_acquire_at(now, 1).at_once().is_ok(), !is_admitted);
    });
}

/// The configuration changes to another window while a call fails. The exception is in the sum
/// under the new one, whichever of the two it was counted in.
#[test]
fn exception_beside_a_change_of_the_window_stays() {
    explore(Some(2), || {
        let breaker = breaker(of_window());
        let other = breaker.clone();
        let other = thread::spawn(move || fail(&other, START));
        let window = WindowConfig::new(4, LEN * 4).unwrap();
        breaker.reconfigure(of_window().window(window).unwrap());
        other.join().unwrap();
        fail(&breaker, START);
        assert_eq!(breaker.at(START).state, Open);
    });
}

/// The number of probes falls to one while the first of two succeeds. The breaker does not stay
/// half-open without a place for a probe.
#[test]
fn probe_beside_a_change_of_their_number_leaves_half_open() {
    explore(Some(3), || {
        let config = of_last_calls().probes(2).unwrap();
        let breaker = breaker(config);
        open(&breaker);
        let now = after_wait();
        let ask = Ask::at(now);
        let probe = FeedbackPermit::ask(breaker.clone(), &ask).at_once().unwrap();
        let other = thread::spawn(move || probe.end_at(now, Outcome::Success));
        breaker.reconfigure(config.probes(1).unwrap());
        other.join().unwrap();
        assert!(breaker.try_acquire_at(now, 1).is_admitted());
        assert_eq!(breaker.at(now).state, Closed);
    });
}

/// One thread changes the state twice, and another one reads the transitions.
#[test]
fn reader_sees_each_transition_once() {
    explore(Some(3), || {
        shadow_all_words();
        let breaker = breaker(of_last_calls());
        let mut transitions = breaker.transitions();
        let reader = thread::spawn(move || {
            let seen = chain(&mut transitions, Closed);
            (transitions, seen)
        });
        breaker.set_state_at(START, CircuitState::ForcedOpen).unwrap();
        breaker.set_state_at(START, CircuitState::Disabled).unwrap();
        let (mut transitions, seen) = reader.join().unwrap();
        let last = seen.last().copied().unwrap_or(Closed);
        let rest = chain(&mut transitions, last);
        assert_eq!([seen, rest].concat(), [CircuitState::ForcedOpen, CircuitState::Disabled],);
    });
}

/// Two threads change the state. The transition of the one that was first may be set last.
#[test]
fn transitions_are_in_the_order_of_their_changes() {
    explore(Some(3), || {
        shadow_all_words();
        let breaker = breaker(of_last_calls());
        let mut transitions = breaker.transitions();
        let other = breaker.clone();
        let other =
            thread::spawn(move || other.set_state_at(START, CircuitState::ForcedOpen).unwrap());
        breaker.set_state_at(START, CircuitState::Disabled).unwrap();
        other.join().unwrap();
        assert_eq!(chain(&mut transitions, Closed).len(), 2);
        assert_eq!(breaker.transitions().next(), None);
    });
}
