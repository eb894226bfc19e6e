//! The precise clock: no reading goes behind one that happened before it, on the same thread or
//! another, whoever corrects the offset meanwhile.
#![cfg(loom)]

use leaparray::{Source, Steering};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Time that moves on with every look at it.
#[derive(Debug)]
struct Ticking {
    now: AtomicU64,
    hardware: Hardware,
}

#[derive(Clone, Copy, Debug)]
struct Hardware {
    /// What a look takes.
    step: u64,
    /// How many times as fast as the reference the counter runs.
    counter_rate: u64,
    /// What the counter is ahead by, until it falls back.
    head_start: u64,
    falls_back_at: u64,
}

/// So slow to look at that a correction is soon due again.
const STEADY: Hardware =
    Hardware { step: 100_000, counter_rate: 1, head_start: 0, falls_back_at: 0 };

impl Ticking {
    fn look(&self) -> u64 {
        // Relaxed: like a hardware counter, it tells everybody the time and orders nothing.
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
        // So that the others go on first: loom remembers only the last look at the offset, and does
        // not see that a correction could come before an earlier one.
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

/// Two threads read at once, and then one of them. Returns the earliest reading.
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

fn no_reading_goes_back(hardware: Hardware) {
    explore(Some(3), move || {
        let clock = clock(hardware);
        let first = clock.nanos();
        let next = race(&clock);
        assert!(first <= next, "{first}, then {next}");
    });
}

#[test]
fn with_a_steady_counter() {
    no_reading_goes_back(STEADY);
}

#[test]
fn with_a_counter_that_runs_ahead() {
    no_reading_goes_back(Hardware { step: 50_000, counter_rate: 2, ..STEADY });
}

/// Between two corrections.
fn no_reading_goes_back_with_a_counter_that_does(head_start: u64) {
    let falls_back_at = 50_000;
    no_reading_goes_back(Hardware { step: 10_000, head_start, falls_back_at, ..STEADY });
}

#[test]
fn with_a_counter_that_falls_back() {
    no_reading_goes_back_with_a_counter_that_does(500_000_000);
}

#[test]
fn with_a_counter_that_falls_back_a_little() {
    no_reading_goes_back_with_a_counter_that_does(2_000_000);
}

#[test]
fn with_a_counter_that_falls_back_in_a_correction() {
    no_reading_goes_back(Hardware { head_start: 500_000_000, falls_back_at: 900_000, ..STEADY });
}

#[test]
fn when_the_first_readings_race() {
    // So fast to look at that what one of them corrects holds for some more.
    explore(Some(3), || {
        race(&clock(Hardware { step: 10_000, ..STEADY }));
    });
}
