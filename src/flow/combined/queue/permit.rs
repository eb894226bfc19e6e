//! The permit of a request that was admitted through a queue.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::waiters::Waiters;
use crate::flow::combined::settle::Settle;
use crate::node::{Outcome, Permit};
use crate::sync::Arc;
use crate::time::Timestamp;

/// The permit of a limiter, from a [`WaitQueue`](super::WaitQueue). When it is dropped, it first
/// drops the permit of the limiter, and then lets the first waiting request ask the limiter again.
/// Its end alone does not: an [entry](crate::Entry) drops its permit right after it has ended it. A
/// permit that is ended by hand, and whose end already gives permits back, has to be dropped as
/// well.
///
/// While no request waits for a permit to be given back, that takes no lock. A permit that gives
/// nothing back, such as `()`, can be dropped at any time.
///
/// ```
/// use leaparray::flow::{ConcurrencyLimiter, WaitQueue};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let queue = WaitQueue::new(Arc::new(ConcurrencyLimiter::new(2)));
/// let permit = queue.acquire_blocking(2, Duration::ZERO)?;
/// assert_eq!((permit.permits(), queue.limiter().in_use()), (2, 2));
/// drop(permit);
/// assert_eq!(queue.limiter().in_use(), 0);
/// # Ok::<_, leaparray::flow::Refusal>(())
/// ```
pub struct QueuePermit<P> {
    /// Dropped before `_release`.
    permit: P,
    _release: Release,
}

/// Notifies the head of the queue when it is dropped.
struct Release(Arc<Waiters>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.released();
    }
}

impl<P> QueuePermit<P> {
    pub(super) fn new(permit: P, waiters: &Arc<Waiters>) -> Self {
        Self { permit, _release: Release(Arc::clone(waiters)) }
    }

    /// Returns the permit of the limiter, for a call that takes it by value. Its end wakes no
    /// waiting request: call [`WaitQueue::recheck`](super::WaitQueue::recheck) after it, if the
    /// limiter waits for permits that are given back.
    ///
    /// ```
    /// use leaparray::flow::{AdaptiveBreaker, WaitQueue};
    /// use leaparray::flow::breaker::AdaptiveBreakerConfig;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// let breaker = AdaptiveBreaker::new(AdaptiveBreakerConfig::default());
    /// let queue = WaitQueue::new(Arc::new(breaker));
    /// queue.acquire_blocking(1, Duration::ZERO)?.into_inner().accept();
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    pub fn into_inner(self) -> P {
        self.permit
    }
}

impl<P: Permit> Permit for QueuePermit<P> {
    /// Ends the permit of the limiter.
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permit.end_at(now, outcome);
    }

    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permit.drop_at(now, outcome);
    }

    fn withdraw_at(&mut self, now: Timestamp) {
        self.permit.withdraw_at(now);
    }
}

impl<P: Settle> Settle for QueuePermit<P> {
    type Settled = P::Settled;

    /// Settles the permit of the limiter, and then lets the first waiting request ask again.
    fn settle_at(self, now: Timestamp, cost: u64) -> P::Settled {
        let Self { permit, _release } = self;
        permit.settle_at(now, cost)
    }
}

impl<P> Deref for QueuePermit<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.permit
    }
}

impl<P> DerefMut for QueuePermit<P> {
    fn deref_mut(&mut self) -> &mut P {
        &mut self.permit
    }
}

impl<P: fmt::Debug> fmt::Debug for QueuePermit<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueuePermit").field(&self.permit).finish()
    }
}
