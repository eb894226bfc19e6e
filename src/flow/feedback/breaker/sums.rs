//! The probability from the sums of the window.

use super::AdaptiveBreaker;
use super::chance::Threshold;
use super::evidence::{Buckets, Counts, Geometry};
use crate::time::{Clock, Timestamp, saturating_nanos};
use crate::window::SlidingWindow;

impl<C: Clock, R> AdaptiveBreaker<C, R> {
    pub(super) fn threshold(&self, now: Timestamp) -> Threshold {
        Threshold::of(self.drop_probability_at(now))
    }

    /// Returns the probability with which a request is dropped now; see
    /// [`drop_probability_at`](Self::drop_probability_at).
    #[must_use]
    pub fn drop_probability(&self) -> f64 {
        self.drop_probability_at(self.clock().now())
    }

    /// Returns the probability with which a request is dropped at `now`, from 0 to 1. This call
    /// adds up the window; a decision may use an earlier sum.
    #[must_use]
    pub fn drop_probability_at(&self, now: Timestamp) -> f64 {
        let config = self.window.config();
        let geometry = Geometry {
            buckets: config.sample_count() as u64,
            bucket_nanos: config.bucket_nanos(),
            age_nanos: config.bucket_and_age(now).1,
        };
        self.settings.rule().drop_probability(geometry, &At { window: &self.window, now })
    }
}

/// The counts of a window at one time.
struct At<'a, C> {
    window: &'a SlidingWindow<C>,
    now: Timestamp,
}

impl<C: Clock> Buckets for At<'_, C> {
    fn newest(&self, len: u64) -> Counts {
        Counts::of(self.window.as_view().sums_of_newest(self.now, len, Counts::EVENTS))
    }

    fn bucket(&self, age: u64) -> Option<Counts> {
        self.window.as_view().sums_of_sample(self.now, age, Counts::EVENTS).map(Counts::of)
    }

    fn mean_rt(&self, len: u64) -> Option<u64> {
        self.window.as_view().totals_of_newest(self.now, len).avg_rt().map(saturating_nanos)
    }
}
