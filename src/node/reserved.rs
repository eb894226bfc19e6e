//! Permits taken from a bucket before its time.

use crate::array::Bucket;
use crate::sync::{AtomicU64, Ordering};

/// How many permits of one bucket have been given away before its time.
#[derive(Debug)]
pub(crate) struct Reserved(AtomicU64);

impl Reserved {
    /// Takes `count` permits, if with those taken before they are at most `free`.
    pub(crate) fn take(&self, count: u64, free: u64) -> bool {
        // One read-modify-write decides: of the threads that race for the last permit, one sees that it was there.
        // Relaxed: as in `MetricBucket::writer`.
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(count).filter(|&taken| taken <= free)
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

/// So many permits; a sum of them saturates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Permits(pub(crate) u64);

impl std::ops::AddAssign<&Self> for Permits {
    fn add_assign(&mut self, other: &Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}
