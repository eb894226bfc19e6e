//! Permits in use that each admission counts.

use crossbeam_utils::CachePadded;

use super::quota;
use crate::flow::contract::{Decision, Quota, Refusal, Retry};
use crate::node::Reason;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// A limit of the permits in use, of which each admission learns the number.
///
/// The limit moves, up to `most` permits. A request for more permits than the limit, and for at
/// most that many, is admitted while no permit is in use: alone, as in the API priority and
/// fairness of Kubernetes. Otherwise a limit below all requests would admit none, and learn
/// nothing.
///
/// The number is in one word, so threads compete for its cache line, which has nothing else.
/// Permits in stripes would have no number at the time of an admission.
#[derive(Debug)]
pub(in crate::flow) struct CountedPermits {
    limit: AtomicU64,
    /// Changes only with the algorithm of the limit. A decision that finds an old `limit` beside a
    /// new `most`, or the reverse, is one of the two that it could have been.
    most: AtomicU64,
    /// A [`PermitCount`].
    count: CachePadded<AtomicU64>,
}

/// The permits taken so far, and those in use of them, at one moment.
///
/// `{ taken, modulo 2⁴⁰: 40, in use: 24 }`. The permits taken are in the upper bits, where the
/// wrap carries into nothing. An admission adds to both parts by the one compare-exchange that it
/// needs anyway.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::flow) struct PermitCount(u64);

impl PermitCount {
    const IN_USE_BITS: u32 = 24;
    /// The highest limit.
    pub(in crate::flow) const MOST: u64 = (1 << Self::IN_USE_BITS) - 1;

    /// A count of which only the permits taken are known.
    #[cfg(all(test, not(loom)))]
    pub(in crate::flow) const fn of_taken(taken: u64) -> Self {
        Self(taken << Self::IN_USE_BITS)
    }

    const fn with(self, permits: u64) -> Self {
        Self(self.0.wrapping_add(permits << Self::IN_USE_BITS | permits))
    }

    #[inline]
    pub(in crate::flow) const fn in_use(self) -> u64 {
        self.0 & Self::MOST
    }

    /// Returns the number of permits that were taken so far, modulo 2⁴⁰.
    #[inline]
    pub(in crate::flow) const fn taken(self) -> u64 {
        self.0 >> Self::IN_USE_BITS
    }

    /// Returns the number of permits that were taken after an earlier count, if they are less than
    /// 2⁴⁰.
    pub(in crate::flow) const fn taken_since(self, earlier: Self) -> u64 {
        // Subtracted from the word itself, which wraps around.
        (self.0 & !Self::MOST).wrapping_sub(earlier.0 & !Self::MOST) >> Self::IN_USE_BITS
    }

    /// Returns the number of permits that were given back after an earlier count.
    pub(in crate::flow) const fn returned_since(self, earlier: Self) -> u64 {
        self.taken_since(earlier) + earlier.in_use() - self.in_use()
    }
}

impl CountedPermits {
    /// Permits with a limit, which moves up to `most`, at most [`PermitCount::MOST`].
    pub(in crate::flow) fn new(limit: u64, most: u64) -> Self {
        let count = CachePadded::new(AtomicU64::new(0));
        Self { limit: AtomicU64::new(limit), most: AtomicU64::new(most), count }
    }

    #[inline]
    pub(in crate::flow) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(in crate::flow) fn set_limit(&self, limit: u64) {
        // Relaxed: the limit orders nothing. A decision uses the value that it finds.
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(in crate::flow) fn set_most(&self, most: u64) {
        // Relaxed: as the limit.
        self.most.store(most, Ordering::Relaxed);
    }

    #[inline]
    pub(in crate::flow) fn count(&self) -> PermitCount {
        PermitCount(self.count.load(Ordering::Relaxed))
    }

    pub(in crate::flow) fn in_use(&self) -> u64 {
        self.count().in_use()
    }

    pub(in crate::flow) fn quota_at(&self, now: Timestamp) -> Quota {
        quota(self.limit(), self.in_use(), now)
    }

    /// Returns the decision that a request for `permits` permits would get now, and takes none.
    pub(in crate::flow) fn peek(&self, permits: u64) -> Decision {
        let refusal = self.refuse(self.in_use(), permits);
        refusal.map_or(Decision::Admitted(()), Decision::Refused)
    }

    /// Takes `permits` permits, and returns the count with them.
    #[inline]
    pub(in crate::flow) fn take(&self, permits: u64) -> Result<PermitCount, Refusal> {
        let mut count = self.count();
        loop {
            if let Some(refusal) = self.refuse(count.in_use(), permits) {
                return Err(refusal);
            }
            let with = count.with(permits);
            // Acquire: pairs with the Release in `give_back`. A request that gets the permit of an
            // earlier request happens after everything that was done under that permit.
            match self.count.compare_exchange_weak(
                count.0,
                with.0,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(with),
                Err(found) => count = PermitCount(found),
            }
        }
    }

    /// Returns the refusal of a request that finds `in_use` permits in use.
    #[inline]
    fn refuse(&self, in_use: u64, permits: u64) -> Option<Refusal> {
        if permits <= self.limit().saturating_sub(in_use) {
            return None;
        }
        if permits > self.most.load(Ordering::Relaxed) {
            return Some(Refusal::never());
        }
        (in_use > 0).then(|| Refusal::new(Reason::LimitReached, Retry::Unknown))
    }

    #[inline]
    pub(in crate::flow) fn give_back(&self, permits: u64) {
        // The permits are part of those in use, so nothing is borrowed from the permits taken.
        //
        // Release: pairs with the Acquire in `take`.
        self.count.fetch_sub(permits, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::PermitCount;

    #[test]
    fn permits_taken_wrap_around_and_leave_those_in_use() {
        let before = PermitCount(u64::MAX << PermitCount::IN_USE_BITS | 5);
        let after = before.with(7);
        assert_eq!((after.in_use(), after.taken(), after.taken_since(before)), (12, 6, 7));
        let returned = PermitCount(after.0 - 9);
        assert_eq!((returned.in_use(), returned.returned_since(before)), (3, 9));
    }

    #[test]
    fn highest_limit_fits() {
        let all = PermitCount::default().with(PermitCount::MOST);
        assert_eq!((all.in_use(), all.taken()), (PermitCount::MOST, PermitCount::MOST));
    }
}
