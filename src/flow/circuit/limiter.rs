//! The circuit breaker as a limiter, for entries and combinations.

use std::sync::Arc;

use super::CircuitBreaker;
use crate::flow::breaker::RandomSource;
use crate::flow::{Decision, FeedbackPermit, Limiter, WatchedState};
use crate::time::{Clock, Timestamp};

impl<'a, C: Clock, R: RandomSource> Limiter for &'a CircuitBreaker<C, R> {
    type Permit = FeedbackPermit<&'a CircuitBreaker<C, R>>;

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        CircuitBreaker::watched_at(self, now)
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

    fn peek_at(&self, now: Timestamp, _permits: u64) -> Option<Decision> {
        CircuitBreaker::peek_at(self, now)
    }
}

impl<C: Clock, R: RandomSource> Limiter for Arc<CircuitBreaker<C, R>> {
    type Permit = FeedbackPermit<Self>;

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        CircuitBreaker::watched_at(self, now)
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

    fn peek_at(&self, now: Timestamp, _permits: u64) -> Option<Decision> {
        CircuitBreaker::peek_at(self, now)
    }
}
