//! Rotating: every operation is the first in its bucket.

use std::hint::black_box;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use leaparray::MetricEvent::Pass;
use leaparray::{MetricBucket, MonotonicClock, Timestamp};

use super::window;
use crate::harness::Suite;

/// What a rotation would do at least, if it allocated.
pub(crate) const STORE: &str = "a fresh bucket, allocated and stored in an `ArcSwapOption`";
pub(crate) const SECOND: &str = "rotate and record one event, 2 buckets";
pub(crate) const MINUTE: &str = "rotate and record one event, 120 buckets";

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    let slot = ArcSwapOption::empty();
    suite.add(STORE, 1, move |_| slot.store(Some(Arc::new(MetricBucket::default()))));
    for (name, samples) in [(SECOND, 2), (MINUTE, 120)] {
        let window = window(samples, clock);
        suite.add(name, 1, move |number| {
            // The end of time is 3.7 · 10¹⁰ buckets away: hours of measuring.
            window.add_at(Timestamp::from_millis(number * 500), Pass, black_box(1));
        });
    }
}
