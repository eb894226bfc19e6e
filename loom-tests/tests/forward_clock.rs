//! The forward clock: when its source goes back, no reading is more than the tolerance below an
//! earlier one, and the clock is ahead of its source by the step and no more, whichever threads
//! find the step.
#![cfg(loom)]

use std::time::Duration;

use leaparray::time::ForwardClock;
use leaparray::{Clock, ManualClock, Timestamp};
use leaparray_loom_tests::explore;
use loom::thread;

const BEGIN: Timestamp = Timestamp::from_secs(100);
const STEP: Duration = Duration::from_secs(5);
const TOLERANCE: Duration = Duration::from_millis(1);

/// A clock that has shown [`BEGIN`], and its source.
fn clock() -> (ForwardClock<ManualClock>, ManualClock) {
    let source = ManualClock::new(BEGIN);
    let clock = ForwardClock::new(source.clone());
    assert_eq!(clock.now(), BEGIN);
    (clock, source)
}

fn assert_forward(readings: &[Timestamp], until: Timestamp) {
    let not_back = readings.is_sorted_by(|a, b| *a <= b.saturating_add(TOLERANCE));
    assert!(not_back && readings.iter().all(|now| (BEGIN..=until).contains(now)), "{readings:?}");
}

/// Reads the clock twice on a thread of its own.
fn reader(clock: &ForwardClock<ManualClock>, until: Timestamp) -> thread::JoinHandle<()> {
    let clock = clock.clone();
    thread::spawn(move || assert_forward(&[clock.now(), clock.now()], until))
}

#[test]
fn step_back_is_found_once() {
    explore(None, || {
        let (clock, source) = clock();
        let other = reader(&clock, BEGIN);
        source.set(BEGIN.saturating_sub(STEP));
        assert_forward(&[clock.now(), clock.now()], BEGIN);
        other.join().unwrap();
        assert_eq!((clock.now(), clock.ahead()), (BEGIN, STEP));
    });
}

/// The source goes on. A thread that reads an older time, or that has stalled, takes it for no
/// step.
#[test]
fn source_that_goes_on_is_not_taken_for_a_step() {
    explore(None, || {
        let (clock, source) = clock();
        let later = BEGIN.saturating_add(TOLERANCE * 3);
        let other = reader(&clock, later);
        source.set(later);
        assert_forward(&[clock.now()], later);
        other.join().unwrap();
        assert_eq!((clock.now(), clock.ahead()), (later, Duration::ZERO));
    });
}

/// The source goes back, and goes on before the other thread has found the step.
#[test]
fn source_that_goes_on_after_a_step_is_not_taken_for_another_step() {
    explore(Some(3), || {
        let (clock, source) = clock();
        let later = BEGIN.saturating_add(TOLERANCE * 3);
        let other = reader(&clock, later);
        source.set(BEGIN.saturating_sub(STEP));
        let first = clock.now();
        source.advance(TOLERANCE * 3);
        assert_forward(&[first, clock.now()], later);
        other.join().unwrap();
        assert_eq!((clock.now(), clock.ahead()), (later, STEP));
    });
}
