//! A limiter of the requests in flight.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Decision, Limiter, Quota, Reason, Refusal, Retry};
use crate::node::{Entry, Outcome, Permit, ResourceNode};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, Timestamp};

/// A limiter of the requests in flight. An admitted request holds a permit. Dropping the permit makes room for another
/// request.
///
/// The permits in use are one atomic, which a refused request does not write. The limiter has no clock: the time at
/// which a request will end is not known, so a refusal has no time to ask again. To wait for a permit, in turn with other
/// requests, put the limiter into a [`WaitQueue`](super::WaitQueue).
///
/// ```
/// use leaparray::flow::ConcurrencyLimiter;
///
/// let limit = ConcurrencyLimiter::new(2);
/// let (first, second) = (limit.try_acquire(), limit.try_acquire());
/// assert!(first.is_admitted() && second.is_admitted());
/// assert!(limit.try_acquire().is_refused());
/// drop(first);
/// assert!(limit.try_acquire().is_admitted());
/// assert_eq!(limit.in_use(), 1);
/// ```
#[derive(Debug)]
pub struct ConcurrencyLimiter {
    limit: AtomicU64,
    in_use: AtomicU64,
}

impl ConcurrencyLimiter {
    /// Creates a limiter of at most `limit` permits at once. With a limit of zero, every request for
    /// at least one permit is refused.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), in_use: AtomicU64::new(0) }
    }

    /// Returns the maximum number of permits at once.
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Other threads may ask for permits at the same time. Permits that are held stay valid, even if
    /// their number exceeds the new limit.
    ///
    /// ```
    /// use leaparray::flow::ConcurrencyLimiter;
    ///
    /// let limit = ConcurrencyLimiter::new(2);
    /// let both = [limit.try_acquire(), limit.try_acquire()];
    /// limit.set_limit(1);
    /// let [first, second] = both;
    /// drop(first);
    /// assert!(limit.try_acquire().is_refused());
    /// drop(second);
    /// assert!(limit.try_acquire().is_admitted());
    /// ```
    pub fn set_limit(&self, limit: u64) {
        // Relaxed: the limit orders nothing. A decision uses the value that it finds.
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the number of permits that are held.
    #[must_use]
    #[inline]
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Asks for one permit.
    #[inline]
    pub fn try_acquire(&self) -> Decision<ConcurrencyPermit<&Self>> {
        self.try_acquire_many(1)
    }

    /// Asks for `permits` permits: all of them or none. The refusal of a request for more permits than the limit has
    /// the reason [`Reason::MoreThanLimit`].
    #[inline]
    pub fn try_acquire_many(&self, permits: u64) -> Decision<ConcurrencyPermit<&Self>> {
        ConcurrencyPermit::try_acquire(self, permits)
    }

    /// Asks for one permit that does not borrow the limiter.
    ///
    /// ```
    /// use leaparray::flow::ConcurrencyLimiter;
    /// use std::sync::Arc;
    ///
    /// let limit = Arc::new(ConcurrencyLimiter::new(1));
    /// let permit = limit.try_acquire_owned().at_once()?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(limit.in_use(), 0);
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    pub fn try_acquire_owned(self: &Arc<Self>) -> Decision<ConcurrencyPermit<Arc<Self>>> {
        self.try_acquire_many_owned(1)
    }

    /// Like [`try_acquire_owned`](Self::try_acquire_owned), for `permits` permits: all of them or none.
    pub fn try_acquire_many_owned(
        self: &Arc<Self>,
        permits: u64,
    ) -> Decision<ConcurrencyPermit<Arc<Self>>> {
        match self.take(permits) {
            // Cloned only after the decision: a refused request does not write the shared reference count.
            Ok(_) => Decision::Admitted(ConcurrencyPermit { limit: Arc::clone(self), permits }),
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    /// Enters a request into a node, or refuses it and counts it there as blocked; see [`Limiter::enter`]. The entry
    /// borrows this value: enter through an [`Arc`] for one that does not.
    pub fn enter<N, D>(&self, node: N) -> Decision<Entry<N, D, ConcurrencyPermit<&Self>>>
    where
        N: Deref<Target = ResourceNode<D>>,
        D: Clock + Clone,
    {
        Limiter::enter(&self, node)
    }

    /// Enters a request into a node, for a caller that cannot wait; see [`Limiter::try_enter`].
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    pub fn try_enter<N, D>(&self, node: N) -> Result<Entry<N, D, ConcurrencyPermit<&Self>>, Refusal>
    where
        N: Deref<Target = ResourceNode<D>>,
        D: Clock + Clone,
    {
        Limiter::try_enter(&self, node)
    }

    /// Returns the limit and the permits that are left. The time at which the permits in use are free again is not known.
    #[must_use]
    pub fn quota_at(&self, now: Timestamp) -> Quota {
        let (limit, in_use) = (self.limit(), self.in_use());
        Quota::new(limit, limit.saturating_sub(in_use), (in_use == 0).then_some(now))
    }

    /// Returns the decision that a request for `permits` permits would get now, and takes none.
    pub(super) fn peek(&self, permits: u64) -> Decision {
        let refusal = Self::refuse(self.limit(), self.in_use(), permits);
        refusal.map_or(Decision::Admitted(()), Decision::Refused)
    }

    /// Returns the refusal of a request for `permits` permits, if fewer are left of `limit`.
    #[inline]
    fn refuse(limit: u64, in_use: u64, permits: u64) -> Option<Refusal> {
        if permits <= limit.saturating_sub(in_use) {
            return None;
        }
        let never = permits > limit;
        let refusal = Refusal::new(Reason::LimitReached, Retry::Unknown);
        Some(if never { Refusal::never() } else { refusal })
    }

    /// Takes `permits` permits, and returns the number of permits in use with them.
    #[inline]
    pub(super) fn take(&self, permits: u64) -> Result<u64, Refusal> {
        let mut in_use = self.in_use.load(Ordering::Relaxed);
        loop {
            if let Some(refusal) = Self::refuse(self.limit(), in_use, permits) {
                return Err(refusal);
            }
            // Acquire: pairs with the Release in `give_back`. A request that gets the permit of an earlier request
            // happens after everything that was done under that permit.
            match self.in_use.compare_exchange_weak(
                in_use,
                in_use + permits,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(in_use + permits),
                Err(found) => in_use = found,
            }
        }
    }

    #[inline]
    pub(super) fn give_back(&self, permits: u64) {
        // Release: pairs with the Acquire in `take`.
        self.in_use.fetch_sub(permits, Ordering::Release);
    }
}

/// The permits of a request. Dropping this value gives them back.
///
/// It can be sent to another thread. `L` is the type of the reference to the limiter: `&ConcurrencyLimiter` or [`Arc`].
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct ConcurrencyPermit<L: Deref<Target = ConcurrencyLimiter>> {
    limit: L,
    permits: u64,
}

impl<L: Deref<Target = ConcurrencyLimiter>> ConcurrencyPermit<L> {
    /// Asks for `permits` permits, through any reference to the limiter: all of them or none.
    #[inline]
    pub fn try_acquire(limit: L, permits: u64) -> Decision<Self> {
        match limit.take(permits) {
            Ok(_) => Decision::Admitted(Self { limit, permits }),
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    /// Returns the number of permits.
    pub const fn permits(&self) -> u64 {
        self.permits
    }
}

impl<L: Deref<Target = ConcurrencyLimiter>> Permit for ConcurrencyPermit<L> {
    /// Does nothing: the permit is given back when it is dropped, whatever the outcome.
    #[inline]
    fn end_at(&mut self, _now: Timestamp, _outcome: Outcome) {}
}

impl<'a> Limiter for &'a ConcurrencyLimiter {
    type Permit = ConcurrencyPermit<&'a ConcurrencyLimiter>;

    /// Returns [`Timestamp::MIN`]: the limiter has no clock.
    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }

    #[inline]
    fn try_acquire_at(&self, _now: Timestamp, permits: u64) -> Decision<Self::Permit> {
        ConcurrencyLimiter::try_acquire_many(self, permits)
    }

    fn peek_at(&self, _now: Timestamp, permits: u64) -> Option<Decision> {
        Some(self.peek(permits))
    }

    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        Some(ConcurrencyLimiter::quota_at(self, now))
    }
}

impl Limiter for Arc<ConcurrencyLimiter> {
    type Permit = ConcurrencyPermit<Self>;

    /// Returns [`Timestamp::MIN`]: the limiter has no clock.
    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }

    #[inline]
    fn try_acquire_at(&self, _now: Timestamp, permits: u64) -> Decision<Self::Permit> {
        self.try_acquire_many_owned(permits)
    }

    fn peek_at(&self, _now: Timestamp, permits: u64) -> Option<Decision> {
        Some(self.peek(permits))
    }

    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        Some(ConcurrencyLimiter::quota_at(self, now))
    }
}

impl<L: Deref<Target = ConcurrencyLimiter>> Drop for ConcurrencyPermit<L> {
    #[inline]
    fn drop(&mut self) {
        self.limit.give_back(self.permits);
    }
}

impl<L: Deref<Target = ConcurrencyLimiter>> fmt::Debug for ConcurrencyPermit<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrencyPermit").field("permits", &self.permits).finish_non_exhaustive()
    }
}
