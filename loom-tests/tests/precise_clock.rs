//! The precise clock: no reading goes behind one that happened before it, on the same thread or
//! another, whoever corrects the offset meanwhile.
#![cfg(loom)]

use leaparray::{Source, Steering};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Time that moves on with every look at it, so far that a correction is soon due again.
#[derive(Debug)]
struct Ticking {
    now: AtomicU64,
    step: u64,
    /// How many times as fast as the reference the counter runs.
    counter_rate: u64,
}

impl Ticking {
    fn look(&self) -> u64 {
        // Relaxed: like a hardware counter, it tells everybody the time and orders nothing.
        self.now.fetch_add(self.step, Ordering::Relaxed)
    }
}

impl Source for Ticking {
    fn counter(&self) -> u64 {
        self.look() * self.counter_rate
    }

    fn reference(&self) -> u64 {
        1_000_000_000 + self.look()
    }
}

fn clock(step: u64, counter_rate: u64) -> Arc<Steering<Ticking>> {
    Arc::new(Steering::new(Ticking { now: AtomicU64::new(0), step, counter_rate }))
}

fn no_reading_goes_back(step: u64, counter_rate: u64) {
    explore(Some(3), move || {
        let clock = clock(step, counter_rate);
        let first = clock.nanos();
        let other = {
            let clock = clock.clone();
            thread::spawn(move || [clock.nanos(), clock.nanos()])
        };
        let mine = [clock.nanos(), clock.nanos()];
        let theirs = other.join().unwrap();
        let last = clock.nanos();
        for readings in [mine, theirs] {
            let [a, b] = readings;
            assert!(first <= a && a <= b && b <= last, "{first}, then {readings:?}, then {last}");
        }
    });
}

#[test]
fn with_a_steady_counter() {
    no_reading_goes_back(100_000, 1);
}

#[test]
fn with_a_counter_that_runs_ahead() {
    no_reading_goes_back(50_000, 2);
}
