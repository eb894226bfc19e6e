//! Simulated years: a counter and a reference that disagree, read at irregular times.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A simulated source. The reference is the true time, in nanoseconds; the counter runs at a rate
/// of its own.
#[derive(Debug)]
struct Simulated {
    true_time: Cell<u64>,
    /// The rate by which the counter is faster than the reference, in parts per million.
    counter_ppm: Cell<i64>,
    /// The counter in millionths of a nanosecond, so that no rounding adds up.
    counter: Cell<u128>,
    /// The true time that passes before and after each read of the reference, as if the thread were
    /// preempted there.
    stalls: Cell<[u64; 2]>,
}

impl Simulated {
    fn new(counter_ppm: i64) -> Self {
        Self {
            true_time: Cell::new(1_540_629_300 * SECOND),
            counter_ppm: Cell::new(counter_ppm),
            counter: Cell::new(0),
            stalls: Cell::default(),
        }
    }

    fn jump_to(&self, counter: u64) {
        self.counter.set(u128::from(counter) * 1_000_000);
    }

    fn pass(&self, nanos: u64) {
        self.true_time.set(self.true_time.get() + nanos);
        let rate = u128::try_from(1_000_000 + self.counter_ppm.get()).unwrap();
        self.counter.set(self.counter.get() + u128::from(nanos) * rate);
    }
}

impl Source for Simulated {
    fn counter(&self) -> u64 {
        u64::try_from(self.counter.get() / 1_000_000).unwrap()
    }

    fn reference(&self) -> u64 {
        let [before, after] = self.stalls.get();
        self.pass(before);
        let reference = self.true_time.get();
        self.pass(after);
        reference
    }
}

/// Reads the clock, checks the reading against the bounds, and returns it.
fn read(steering: &Steering<Simulated>, last: u64, behind: u64, ahead: u64) -> u64 {
    let before = steering.source.true_time.get();
    let now = steering.nanos();
    let after = steering.source.true_time.get();
    assert!(now >= last, "went back from {last} to {now}");
    assert!(now.saturating_add(behind) >= before, "{} ns behind", before - now);
    assert!(now <= after.saturating_add(ahead), "{} ns ahead", now - after);
    now
}

/// Returns the time by which a steady counter may fall behind: the slowdown and the counter's own
/// error, over one `HOLD`.
fn bound(ppm: i64) -> u64 {
    let error = u64::try_from(977 - ppm).unwrap() * HOLD / 1_000_000;
    error + 2
}

#[test]
fn drift_is_bounded_for_ten_years_at_any_steady_rate() {
    for ppm in [-1_000, -500, -10, 0, 10, 500, 970] {
        let steering = Steering::new(Simulated::new(ppm));
        let mut last = 0;
        // Bursts of reads, an hour apart. With a single calibration, a counter with an error of 10
        // ppm would be off by 53 minutes in the end.
        for _ in 0..10 * 365 * 24 {
            for _ in 0..4 {
                last = read(&steering, last, bound(ppm), 0);
                steering.source.pass(HOLD / 3);
            }
            steering.source.pass(3_600 * SECOND);
        }
    }
}

#[test]
fn busy_second_makes_few_corrections() {
    let steering = Steering::new(Simulated::new(20));
    let (mut corrections, mut due) = (0, 0);
    for _ in 0..1_000_000 {
        steering.source.pass(1_000);
        steering.nanos();
        let new_due = steering.due.load(Ordering::Relaxed);
        corrections += u64::from(new_due != due);
        due = new_due;
    }
    assert!((3_000..4_000).contains(&corrections), "{corrections} corrections in a second");
}

#[test]
fn counter_that_runs_away_is_not_followed() {
    for ppm in [2_000, 50_000, 3_000_000] {
        let steering = Steering::new(Simulated::new(ppm));
        let ahead = LEAD + HOLD * u64::try_from(ppm).unwrap() / 1_000_000;
        let mut last = 0;
        for _ in 0..100_000 {
            last = read(&steering, last, HOLD, ahead);
            steering.source.pass(HOLD / 7);
        }
    }
}

#[test]
fn counter_that_jumps_is_left_until_the_reference_has_caught_up() {
    let steering = Steering::new(Simulated::new(0));
    let last = read(&steering, 0, 0, 0);
    // A suspend of an hour, which the reference does not count.
    steering.source.jump_to(3_600 * SECOND);
    let last = read(&steering, last, 0, HOLD);
    steering.source.pass(HOLD);
    read(&steering, last, 0, 0);
}

#[test]
fn no_reading_goes_back_behind_one_that_stalled_in_a_correction_a_little_ahead() {
    // The counter is so fast that the slowdown makes it even: its lead stays the same.
    let steering = Steering::new(Simulated::new(977));
    let last = read(&steering, 0, 0, 0);
    let jump = |nanos| steering.source.jump_to(steering.source.counter() + nanos);
    jump(LEAD * 9 / 10);
    steering.source.stalls.set([2 * HOLD, 0]);
    steering.source.pass(HOLD);
    let last = read(&steering, last, 0, LEAD);
    steering.source.stalls.set([0, 0]);
    jump(LEAD * 9 / 10);
    read(&steering, last, 0, 2 * LEAD);
}

#[test]
fn counter_that_falls_back_is_left_for_good() {
    let steering = Steering::new(Simulated::new(0));
    let mut last = read(&steering, 0, 0, 0);
    steering.source.pass(3_600 * SECOND);
    last = read(&steering, last, 0, 0);
    steering.source.pass(HOLD / 2);
    last = read(&steering, last, bound(0), 0);
    steering.source.jump_to(0);
    // The counter reaches its former value again after an hour, and goes on for another hour.
    for _ in 0..40 * 3_600 {
        last = read(&steering, last, 0, LEAD);
        steering.source.pass(SECOND / 20);
    }
}

proptest! {
    #[test]
    fn never_back_and_never_far_off(
        rates in prop::collection::vec(-900_i64..970, 1..8),
        steps in prop::collection::vec((0..2 * SECOND, stalls(), any::<bool>()), 1..200),
    ) {
        let steering = Steering::new(Simulated::new(0));
        let mut last = 0;
        for (i, (step, stalls, in_a_hold)) in steps.into_iter().enumerate() {
            steering.source.counter_ppm.set(rates[i % rates.len()]);
            steering.source.stalls.set(stalls);
            // A reader that is preempted in the middle of a correction makes the clock fall behind
            // by the length of the stall until the next correction. That is at most `HOLD`, since
            // after a longer stall the next reading makes a correction.
            last = read(&steering, last, HOLD + bound(-900), 1);
            steering.source.pass(if in_a_hold { step % HOLD } else { step });
        }
    }

    #[test]
    fn never_back_however_far_the_counter_runs_ahead(
        steps in prop::collection::vec((0..3 * HOLD, stalls(), -900_i64..5_000, jump()), 1..300),
    ) {
        let steering = Steering::new(Simulated::new(0));
        let mut last = 0;
        for (step, stalls, ppm, jump) in steps {
            steering.source.counter_ppm.set(ppm);
            steering.source.stalls.set(stalls);
            steering.source.jump_to(steering.source.counter() + jump);
            last = read(&steering, last, u64::MAX, u64::MAX / 2);
            steering.source.pass(step);
        }
    }
}

fn stalls() -> impl Strategy<Value = [u64; 2]> {
    prop_oneof![
        4 => Just([0, 0]),
        1 => [0..2 * HOLD, 0..2 * HOLD],
        1 => [0..2 * LEAD, 0..2 * LEAD],
    ]
}

fn jump() -> impl Strategy<Value = u64> {
    prop_oneof![20 => Just(0), 1 => 0..20 * HOLD]
}
