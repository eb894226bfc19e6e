//! The breaker as a limiter, for entries and combinations.

use std::sync::Arc;

use super::{AdaptiveBreaker, RandomSource};
use crate::flow::{Decision, FeedbackPermit, Limiter, WatchedState};
use crate::time::{Clock, Timestamp};

impl<'a, C: Clock, R: RandomSource> Limiter for &'a AdaptiveBreaker<C, R> {
    type Permit = FeedbackPermit<&'a AdaptiveBreaker<C, R>>;

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        WatchedState::Breaker { drop_probability: self.drop_probability_at(now) }
    }

    #[inline]
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Asks for one request, whatever the number of permits, also if that is 0.
    #[inline]
    fn try_acquire_at(&self, now: Timestamp, _permits: u64) -> Decision<Self::Permit> {
        FeedbackPermit::try_acquire_at(self, now)
    }
}

impl<C: Clock, R: RandomSource> Limiter for Arc<AdaptiveBreaker<C, R>> {
    type Permit = FeedbackPermit<Self>;

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        WatchedState::Breaker { drop_probability: self.drop_probability_at(now) }
    }

    #[inline]
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Asks for one request, whatever the number of permits, also if that is 0.
    #[inline]
    fn try_acquire_at(&self, now: Timestamp, _permits: u64) -> Decision<Self::Permit> {
        self.try_acquire_owned_at(now)
    }
}
