//! The adaptive limiter as a limiter, for entries and combinations.

use std::sync::Arc;

use super::{AdaptiveLimiter, LimitAlgorithm};
use crate::flow::{Decision, FeedbackPermit, Limiter, Quota};
use crate::time::{Clock, Timestamp};

impl<'a, A: LimitAlgorithm, C: Clock> Limiter for &'a AdaptiveLimiter<A, C> {
    type Permit = FeedbackPermit<&'a AdaptiveLimiter<A, C>>;

    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision<Self::Permit> {
        self.try_acquire_many_at(now, permits)
    }

    fn peek_at(&self, _now: Timestamp, permits: u64) -> Option<Decision> {
        Some(self.permits.peek(permits))
    }

    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        Some(AdaptiveLimiter::quota_at(self, now))
    }

    /// Returns `false`: a new limiter has not learned what this one has.
    fn is_as_new_at(&self, _now: Timestamp) -> bool {
        false
    }
}

impl<A: LimitAlgorithm, C: Clock> Limiter for Arc<AdaptiveLimiter<A, C>> {
    type Permit = FeedbackPermit<Self>;

    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision<Self::Permit> {
        self.try_acquire_many_owned_at(now, permits)
    }

    fn peek_at(&self, _now: Timestamp, permits: u64) -> Option<Decision> {
        Some(self.permits.peek(permits))
    }

    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        Some(AdaptiveLimiter::quota_at(self, now))
    }

    /// Returns `false`: a new limiter has not learned what this one has.
    fn is_as_new_at(&self, _now: Timestamp) -> bool {
        false
    }
}
