//! A limiter with a name.

use std::task::Waker;
use std::time::Duration;

use super::{Limiter, Passed};
use crate::flow::{Decision, Quota, WatchedState};
use crate::time::Timestamp;

/// A limiter whose [quotas](Quota::name) have a name: see [`Limiter::named`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<L> {
    name: &'static str,
    limiter: L,
}

impl<L> Named<L> {
    pub(super) const fn new(name: &'static str, limiter: L) -> Self {
        Self { name, limiter }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the limiter.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    fn name_of(&self, quota: Quota) -> Quota {
        Quota { name: quota.name.or(Some(self.name)), ..quota }
    }
}

impl<L: Limiter> Limiter for Named<L> {
    type Permit = L::Permit;

    #[inline]
    fn now(&self) -> Timestamp {
        self.limiter.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision<L::Permit> {
        self.limiter.try_acquire_at(now, permits)
    }

    #[inline]
    fn try_acquire_for(
        &self,
        node: &dyn Passed,
        now: Timestamp,
        permits: u64,
    ) -> Decision<L::Permit> {
        self.limiter.try_acquire_for(node, now, permits)
    }

    #[inline]
    fn try_acquire_at_once(
        &self,
        node: Option<&dyn Passed>,
        now: Timestamp,
        permits: u64,
    ) -> Decision<L::Permit> {
        self.limiter.try_acquire_at_once(node, now, permits)
    }

    fn peek_at(&self, now: Timestamp, permits: u64) -> Option<Decision> {
        self.limiter.peek_at(now, permits)
    }

    fn refund_at(&self, now: Timestamp, permits: u64, wait: Duration) -> bool {
        self.limiter.refund_at(now, permits, wait)
    }

    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        self.limiter.quota_at(now).map(|quota| self.name_of(quota))
    }

    fn each_quota_at(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.limiter.each_quota_at(now, &mut |quota| visit(self.name_of(quota)));
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        match self.limiter.watched_at(now) {
            WatchedState::Quota(quota) => WatchedState::Quota(self.name_of(quota)),
            state => state,
        }
    }

    fn is_as_new_at(&self, now: Timestamp) -> bool {
        self.limiter.is_as_new_at(now)
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.limiter.wake_on_answer(waker)
    }
}
