//! Limiters behind references, and in boxes with a permit of one type.

use std::task::Waker;
use std::time::Duration;

use super::{BoxPermit, Limiter, Passed};
use crate::flow::{Decision, Quota, WatchedState};
use crate::time::Timestamp;

/// A limiter whose permits are boxed.
pub(super) struct Boxed<L>(pub(super) L);

impl<L: Limiter> Limiter for Boxed<L>
where
    L::Permit: Send + 'static,
{
    type Permit = BoxPermit;

    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision<BoxPermit> {
        self.0.try_acquire_at(now, permits).map(|permit| Box::new(permit) as BoxPermit)
    }

    fn try_acquire_for(
        &self,
        node: &dyn Passed,
        now: Timestamp,
        permits: u64,
    ) -> Decision<BoxPermit> {
        self.0.try_acquire_for(node, now, permits).map(|permit| Box::new(permit) as BoxPermit)
    }

    fn try_acquire_at_once(
        &self,
        node: Option<&dyn Passed>,
        now: Timestamp,
        permits: u64,
    ) -> Decision<BoxPermit> {
        self.0.try_acquire_at_once(node, now, permits).map(|permit| Box::new(permit) as BoxPermit)
    }

    fn peek_at(&self, now: Timestamp, permits: u64) -> Option<Decision> {
        self.0.peek_at(now, permits)
    }

    fn refund_at(&self, now: Timestamp, permits: u64, wait: Duration) -> bool {
        self.0.refund_at(now, permits, wait)
    }

    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        self.0.quota_at(now)
    }

    fn each_quota_at(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.0.each_quota_at(now, visit);
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        self.0.watched_at(now)
    }

    fn is_as_new_at(&self, now: Timestamp) -> bool {
        self.0.is_as_new_at(now)
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.0.wake_on_answer(waker)
    }
}

macro_rules! forward {
    ($($reference:ty),*) => {$(
        impl<L: Limiter + ?Sized> Limiter for $reference {
            type Permit = L::Permit;

            #[inline]
            fn now(&self) -> Timestamp {
                (**self).now()
            }

            #[inline]
            fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision<L::Permit> {
                (**self).try_acquire_at(now, permits)
            }

            #[inline]
            fn try_acquire_for(
                &self,
                node: &dyn Passed,
                now: Timestamp,
                permits: u64,
            ) -> Decision<L::Permit> {
                (**self).try_acquire_for(node, now, permits)
            }

            #[inline]
            fn try_acquire_at_once(
                &self,
                node: Option<&dyn Passed>,
                now: Timestamp,
                permits: u64,
            ) -> Decision<L::Permit> {
                (**self).try_acquire_at_once(node, now, permits)
            }

            #[inline]
            fn peek_at(&self, now: Timestamp, permits: u64) -> Option<Decision> {
                (**self).peek_at(now, permits)
            }

            #[inline]
            fn refund_at(&self, now: Timestamp, permits: u64, wait: Duration) -> bool {
                (**self).refund_at(now, permits, wait)
            }

            #[inline]
            fn quota_at(&self, now: Timestamp) -> Option<Quota> {
                (**self).quota_at(now)
            }

            #[inline]
            fn each_quota_at(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
                (**self).each_quota_at(now, visit);
            }

            fn watched_at(&self, now: Timestamp) -> WatchedState {
                (**self).watched_at(now)
            }

            #[inline]
            fn is_as_new_at(&self, now: Timestamp) -> bool {
                (**self).is_as_new_at(now)
            }

            #[inline]
            fn wake_on_answer(&self, waker: &Waker) -> bool {
                (**self).wake_on_answer(waker)
            }
        }
    )*};
}

forward!(&L, Box<L>, std::sync::Arc<L>);
