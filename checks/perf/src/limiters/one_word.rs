//! A limiter of one word.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::Timestamp;

/// A limiter of one window that never moves, decided by one word: what a sliding-window limiter
/// does without epochs, and without later buckets.
pub(crate) struct OneWord {
    word: AtomicU64,
    limit: AtomicU64,
}

/// The bits of the count, and its highest value. The bits above it are the number of the bucket.
pub(crate) const COUNT: u64 = (1 << 36) - 1;
const BUCKET_NANOS: u64 = 1 << 38;

impl OneWord {
    pub(crate) fn new(limit: u64, now: Timestamp) -> Self {
        let word = (now.as_nanos() / BUCKET_NANOS) << COUNT.count_ones();
        Self { word: AtomicU64::new(word), limit: AtomicU64::new(limit) }
    }

    pub(crate) fn try_acquire_at(&self, now: Timestamp) -> bool {
        let number = now.as_nanos() / BUCKET_NANOS;
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            // In place of the step to a later bucket: a run has one bucket.
            assert!(black_box(word >> COUNT.count_ones()) + 99 >= number);
            if word & COUNT >= self.limit.load(Ordering::Relaxed) {
                return false;
            }
            let (relaxed, acquire) = (Ordering::Relaxed, Ordering::Acquire);
            match self.word.compare_exchange_weak(word, word + 1, relaxed, acquire) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }
}
