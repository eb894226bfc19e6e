//! The precise clock, on threads that compare their readings.

use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::{Clock, MonotonicClock};
use leaparray_stress_tests::{Real, rounds, work};

#[test]
fn precise_clock_never_goes_back_between_threads() {
    for round in rounds() {
        let (clock, latest) = (MonotonicClock::new(), AtomicU64::new(0));
        let write = |_| {
            for _ in 0..20_000 {
                let seen = latest.load(Ordering::Acquire);
                let now = clock.now();
                let skewed = now.saturating_add(Real::SKEW).as_nanos();
                assert!(skewed >= seen, "the clock went back from {seen} to {now:?}");
                latest.fetch_max(now.as_nanos(), Ordering::AcqRel);
            }
        };
        work(round.writers, write, vec![]);
    }
}
