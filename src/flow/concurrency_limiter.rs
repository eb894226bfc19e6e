//! At most so many at once.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Decision, Reason, Refusal};
use crate::sync::{AtomicU64, Ordering};

/// Admits at most so many at once; who is admitted holds a permit, and who lets go of it makes room.
///
/// One atomic, which who is refused does not write. There is no time in it: when somebody will leave is
/// not known, and a refusal names no time to ask again.
///
/// ```
/// use leaparray::flow::ConcurrencyLimiter;
///
/// let limit = ConcurrencyLimiter::new(2);
/// let (first, second) = (limit.try_acquire(), limit.try_acquire());
/// assert!(first.is_admitted() && second.is_admitted());
/// assert!(!limit.try_acquire().is_admitted());
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
    /// At most `limit` at once. With a limit of zero all are refused.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), in_use: AtomicU64::new(0) }
    }

    /// How many there may be at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit, while others ask. Who is there stays, be it more than a lower limit.
    ///
    /// ```
    /// use leaparray::flow::ConcurrencyLimiter;
    ///
    /// let limit = ConcurrencyLimiter::new(2);
    /// let both = [limit.try_acquire(), limit.try_acquire()];
    /// limit.set_limit(1);
    /// let [first, second] = both;
    /// drop(first);
    /// assert!(!limit.try_acquire().is_admitted());
    /// drop(second);
    /// assert!(limit.try_acquire().is_admitted());
    /// ```
    pub fn set_limit(&self, limit: u64) {
        // Relaxed: the value is all there is. A decision goes by the one that it finds.
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many permits are held.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Asks for one permit.
    #[inline]
    pub fn try_acquire(&self) -> Decision<ConcurrencyPermit<&Self>> {
        self.try_acquire_many(1)
    }

    /// Asks for so many: all of them or none.
    #[inline]
    pub fn try_acquire_many(&self, permits: u64) -> Decision<ConcurrencyPermit<&Self>> {
        ConcurrencyPermit::try_acquire(self, permits)
    }

    /// Asks for one permit that is to live as long as it likes.
    ///
    /// ```
    /// use leaparray::flow::ConcurrencyLimiter;
    /// use std::sync::Arc;
    ///
    /// let limit = Arc::new(ConcurrencyLimiter::new(1));
    /// let (permit, _) = limit.try_acquire_owned().into_result()?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(limit.in_use(), 0);
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    pub fn try_acquire_owned(self: &Arc<Self>) -> Decision<ConcurrencyPermit<Arc<Self>>> {
        match self.take(1) {
            // Only now: who is refused need not write what all of them share.
            None => Decision::Admitted(ConcurrencyPermit { limit: Arc::clone(self), permits: 1 }),
            Some(refusal) => Decision::Refused(refusal),
        }
    }

    /// Why `permits` may not be had now; `None` if they were taken.
    #[inline]
    fn take(&self, permits: u64) -> Option<Refusal> {
        let limit = self.limit();
        let mut in_use = self.in_use.load(Ordering::Relaxed);
        loop {
            if permits > limit.saturating_sub(in_use) {
                let never = permits > limit;
                let reason = if never { Reason::MoreThanLimit } else { Reason::LimitReached };
                return Some(Refusal::new(reason, None));
            }
            // Acquire: pairs with the Release in `give_back`. Who takes the place of somebody comes after
            // all that was done there.
            match self.in_use.compare_exchange_weak(
                in_use,
                in_use + permits,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return None,
                Err(found) => in_use = found,
            }
        }
    }

    #[inline]
    fn give_back(&self, permits: u64) {
        // Release: pairs with the Acquire in `take`.
        self.in_use.fetch_sub(permits, Ordering::Release);
    }
}

/// Room for one request, or for as many as were asked for, until it is dropped.
///
/// It can be sent to another thread. `L` is how it holds its limit: a reference, or for one that is not to
/// borrow it, an [`Arc`].
#[must_use = "what is dropped at once holds nothing"]
pub struct ConcurrencyPermit<L: Deref<Target = ConcurrencyLimiter>> {
    limit: L,
    permits: u64,
}

impl<L: Deref<Target = ConcurrencyLimiter>> ConcurrencyPermit<L> {
    /// Asks for so many permits, by whatever leads to their limit: all of them or none.
    #[inline]
    pub fn try_acquire(limit: L, permits: u64) -> Decision<Self> {
        match limit.take(permits) {
            None => Decision::Admitted(Self { limit, permits }),
            Some(refusal) => Decision::Refused(refusal),
        }
    }

    /// How many permits it is.
    pub const fn permits(&self) -> u64 {
        self.permits
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
