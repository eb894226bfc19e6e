//! The state that a request would find. Reading it takes no permits and closes no bucket.

use super::ration::{CurveRation, threshold};
use super::warmth::Warmth;
use crate::flow::contract::{Decision, Refusal};
use crate::flow::permits::PackedBucket;
use crate::flow::permits::PermitWindow;
use crate::node::Reason;

/// The state in which a request in a bucket is decided, if no other request asks before. All of one
/// moment.
pub(super) struct View {
    number: u64,
    /// The permits of the window.
    taken: u64,
    /// The permits of the bucket itself.
    of_bucket: u64,
    /// The permits of the window up to which a single permit is admitted.
    threshold: u64,
    /// The state at the start of the bucket.
    state: Warmth,
}

impl View {
    /// Reads what a request in bucket `number` would find, or in the newest bucket if that is
    /// later.
    pub(super) fn read(ration: &CurveRation, window: &PermitWindow, number: u64) -> Self {
        window.view(|newest| Self::of(ration, window, newest, number))
    }

    /// Returns the decision that a request for `permits` permits would get.
    pub(super) fn peek(
        ration: &CurveRation,
        window: &PermitWindow,
        number: u64,
        permits: u64,
    ) -> Decision {
        window
            .view(|newest| Self::of(ration, window, newest, number).decide(window, newest, permits))
    }

    fn of(ration: &CurveRation, window: &PermitWindow, newest: &PackedBucket, number: u64) -> Self {
        // No permits of a closed bucket are taken.
        let number = number.max(newest.number + u64::from(newest.flag));
        let state = ration.state_at(window, newest, number);
        let (taken, of_bucket) = if number == newest.number {
            (newest.count, window.permits_of(number, newest))
        } else {
            (window.buckets_of(number, newest).map(|(_, permits)| permits).sum(), 0)
        };
        let threshold = threshold(&state, number, taken - of_bucket);
        Self { number, taken, of_bucket, threshold, state }
    }

    fn decide(&self, window: &PermitWindow, newest: &PackedBucket, permits: u64) -> Decision {
        let limit = self.state.curve().limit();
        if permits == 0 {
            return Decision::Admitted(());
        }
        if permits > limit {
            return Decision::Refused(Refusal::never());
        }
        let excess = self.taken.saturating_add(permits).saturating_sub(limit);
        if self.taken < self.threshold && excess == 0 {
            return Decision::Admitted(());
        }
        let paid = self.state.opens_after(self.number, self.of_bucket);
        let retry = match self.last_of(window, newest, excess) {
            Some(last) => paid.max(last + window.config().sample_count() as u64),
            None => paid,
        };
        Decision::Refused(Refusal::until(Reason::LimitReached, window.begins(retry)))
    }

    /// Returns the bucket with the last of the oldest `permits` permits of the window; `None` for
    /// no permits.
    fn last_of(&self, window: &PermitWindow, newest: &PackedBucket, permits: u64) -> Option<u64> {
        let mut left = 0;
        let mut buckets = window.buckets_of(self.number, newest).filter(|_| permits > 0);
        let last = buckets.find(|&(_, of_bucket)| {
            left += of_bucket;
            left >= permits
        });
        last.map(|(last, _)| last)
    }

    /// Returns the permits of a window at the present rate.
    pub(super) fn limit(&self) -> u64 {
        self.state.limit()
    }

    /// Returns whether the service is as cold as a new one, and has no debt.
    pub(super) fn is_cold(&self) -> bool {
        self.state.is_cold()
    }

    /// Returns the single permits that can be taken at once with all credit.
    pub(super) fn burst(&self) -> u64 {
        self.state.burst()
    }

    /// Returns the single permits that can be taken.
    pub(super) fn available(&self) -> u64 {
        self.threshold.saturating_sub(self.taken)
    }
}
