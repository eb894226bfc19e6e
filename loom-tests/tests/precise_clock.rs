//! The precise clock: no reading is less than a reading that happened before it, on the same thread
//! or another, whichever thread corrects the offset in between.
#![cfg(loom)]

use leaparray::{Source, Steering};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// A source whose time advances with each read.
#[derive(Debug)]
struct Ticking {
    now: AtomicU64,
    hardware: Hardware,
}

#[derive(Clone, Copy, Debug)]
struct Hardware {
    /// The time that a read takes, in nanoseconds.
    step: u64,
    /// The rate of the counter, as a multiple of the rate of the reference.
    counter_rate: u64,
    /// The lead of the counter until it falls back, in nanoseconds.
    head_start: u64,
    falls_back_at: u64,
}

/// A counter whose reads take so long that a correction is soon due again.
const STEADY: Hardware =
    Hardware { step: 100_000, counter_rate: 1, head_start: 0, falls_back_at: 0 };

impl Ticking {
    fn look(&self) -> u64 {
        // Relaxed: like a hardware counter, this orders nothing.
        self.now.fetch_add(self.hardware.step, Ordering::Relaxed)
    }
}

impl Source for Ticking {
    fn counter(&self) -> u64 {
        let Hardware { counter_rate, head_start, falls_back_at, .. } = self.hardware;
        let now = self.look();
        if now >= falls_back_at {
            return now * counter_rate;
        }
        // Lets the other threads go on first: loom remembers only the last load of the offset, and
        // would not explore a correction before an earlier load.
        thread::yield_now();
        now * counter_rate + head_start
    }

    fn reference(&self) -> u64 {
        1_000_000_000 + self.look()
    }
}

fn clock(hardware: Hardware) -> Arc<Steering<Ticking>> {
    Arc::new(Steering::new(Ticking { now: AtomicU64::new(0), hardware }))
}

/// Two threads read the clock twice at the same time, and one of them reads it once more. Asserts
/// that no reading goes back, and returns the earliest one.
fn race(clock: &Arc<Steering<Ticking>>) -> u64 {
    let other = {
        let clock = clock.clone();
        thread::spawn(move || [clock.nanos(), clock.nanos()])
    };
    let mine = [clock.nanos(), clock.nanos()];
    let theirs = other.join().unwrap();
    let last = clock.nanos();
    for readings in [mine, theirs] {
        let [a, b] = readings;
        assert!(a <= b && b <= last, "{readings:?}, then {last}");
    }
    mine[0].min(theirs[0])
}

/// One thread reads the clock before the [`race`]. No reading goes back.
fn no_reading_goes_back(hardware: Hardware) {
    explore(Some(3), move || {
        let clock = clock(hardware);
        let first = clock.nanos();
        let next = race(&clock);
        assert!(first <= next, "{first}, then {next}");
    });
}

#[test]
fn time_never_goes_back_with_a_steady_counter() {
    no_reading_goes_back(STEADY);
}

#[test]
fn time_never_goes_back_with_a_counter_that_runs_ahead() {
    no_reading_goes_back(Hardware { step: 50_000, counter_rate: 2, ..STEADY });
}

/// The counter falls back between two corrections.
fn no_reading_goes_back_with_a_counter_that_does(head_start: u64) {
    let falls_back_at = 50_000;
    no_reading_goes_back(Hardware { step: 10_000, head_start, falls_back_at, ..STEADY });
}

#[test]
fn time_never_goes_back_with_a_counter_that_falls_back() {
    no_reading_goes_back_with_a_counter_that_does(500_000_000);
}

#[test]
fn time_never_goes_back_with_a_counter_that_falls_back_a_little() {
    no_reading_goes_back_with_a_counter_that_does(2_000_000);
}

#[test]
fn time_never_goes_back_with_a_counter_that_falls_back_in_a_correction() {
    no_reading_goes_back(Hardware { head_start: 500_000_000, falls_back_at: 900_000, ..STEADY });
}

#[test]
fn time_never_goes_back_when_the_first_readings_race() {
    // A read takes so little time that a correction holds for several readings.
    explore(Some(3), || {
        race(&clock(Hardware { step: 10_000, ..STEADY }));
    });
}
