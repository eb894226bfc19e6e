//! Permits in use that each admission counts.

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
/// The number is in one word, so threads compete for its cache line. Permits in stripes would
/// have no number at the time of an admission.
#[derive(Debug)]
pub(in crate::flow) struct CountedPermits {
    limit: AtomicU64,
    /// Changes only with the algorithm of the limit. A decision that finds an old `limit` beside a
    /// new `most`, or the reverse, is one of the two that it could have been.
    most: AtomicU64,
    in_use: AtomicU64,
}

impl CountedPermits {
    pub(in crate::flow) fn new(limit: u64, most: u64) -> Self {
        Self { limit: AtomicU64::new(limit), most: AtomicU64::new(most), in_use: AtomicU64::new(0) }
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
    pub(in crate::flow) fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    pub(in crate::flow) fn quota_at(&self, now: Timestamp) -> Quota {
        quota(self.limit(), self.in_use(), now)
    }

    /// Returns the decision that a request for `permits` permits would get now, and takes none.
    pub(in crate::flow) fn peek(&self, permits: u64) -> Decision {
        let refusal = self.refuse(self.in_use(), permits);
        refusal.map_or(Decision::Admitted(()), Decision::Refused)
    }

    /// Takes `permits` permits, and returns the number of permits in use with them.
    #[inline]
    pub(in crate::flow) fn take(&self, permits: u64) -> Result<u64, Refusal> {
        let mut in_use = self.in_use.load(Ordering::Relaxed);
        loop {
            if let Some(refusal) = self.refuse(in_use, permits) {
                return Err(refusal);
            }
            // Acquire: pairs with the Release in `give_back`. A request that gets the permit of an
            // earlier request happens after everything that was done under that permit.
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
        // Release: pairs with the Acquire in `take`.
        self.in_use.fetch_sub(permits, Ordering::Release);
    }
}
