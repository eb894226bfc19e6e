//! The permits of one bucket that were reserved before it began.

use crate::array::Bucket;
use crate::sync::{AtomicU64, Ordering};

/// The number of permits of one bucket that were reserved before it began.
#[derive(Debug)]
pub(crate) struct Reserved(AtomicU64);

impl Reserved {
    /// Reserves `count` permits, if the bucket then has at most `max` reserved permits. Returns
    /// whether the permits were reserved.
    pub(crate) fn take(&self, count: u64, max: u64) -> bool {
        // One read-modify-write decides: if threads race for the last permit, one of them gets it.
        // Relaxed: as in `MetricBucket::writer`.
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(count).filter(|&taken| taken <= max)
        });
        taken.is_ok()
    }
}

impl Default for Reserved {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Bucket for Reserved {
    type Total = Permits;

    fn total(&self) -> Permits {
        Permits(self.0.load(Ordering::Relaxed))
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A number of permits. Sums saturate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Permits(pub(crate) u64);

impl std::ops::AddAssign<&Self> for Permits {
    fn add_assign(&mut self, other: &Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}
