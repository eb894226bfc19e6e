//! The limit of a window.

use super::{PackedBucket, PermitWindow};
use crate::flow::contract::Refusal;

/// The limit of a window, which differs between limiters.
pub(in crate::flow) trait Ration {
    /// Returns the limit of the window that ends with bucket `number`. `None` makes the caller read
    /// the word again.
    ///
    /// If a request is admitted by other rules than by a limit, this always returns `None`, and the
    /// permits are not taken from stripes.
    fn limit(&self, window: &PermitWindow, number: u64) -> Option<u64>;

    /// Returns the permits for a request for `permits` of them, if `word` is the direct word of the
    /// newest bucket. `None` makes the caller read the word again.
    #[inline]
    fn usage(&self, window: &PermitWindow, word: u64, _permits: u64) -> Option<Usage> {
        let PackedBucket { number, count: taken, .. } = window.layout().read(word);
        Some(Usage::new(self.limit(window, number)?, taken))
    }

    /// Returns the refusal of a request for which too few permits are left.
    fn refuse(&self, window: &PermitWindow, full: &FullWindow) -> Refusal;

    /// Called for each closed bucket before the next one is opened, with its number, the permits of
    /// the window that ends with it, and the permits of the bucket itself.
    ///
    /// It may be called more than once for a bucket. If other threads are ahead, the permits may be
    /// wrong. In that case these threads have called it for the bucket before.
    #[inline]
    fn close(&self, _window: &PermitWindow, _number: u64, _of_window: u64, _of_bucket: u64) {}
}

/// The limit of a window, and the permits of it that are taken: the rule by which a window admits,
/// for its word and for the window of a key. The two numbers are apart, so that their difference is
/// computed only where it is needed.
#[derive(Clone, Copy)]
pub(in crate::flow) struct Usage {
    limit: u64,
    taken: u64,
}

impl Usage {
    #[inline]
    pub(in crate::flow) const fn new(limit: u64, taken: u64) -> Self {
        Self { limit, taken }
    }

    /// Returns the usage of a window in which `remaining` permits are left.
    pub(in crate::flow) const fn of_remaining(remaining: u64) -> Self {
        Self::new(remaining, 0)
    }

    #[inline]
    pub(in crate::flow) const fn remaining(self) -> u64 {
        self.limit.saturating_sub(self.taken)
    }

    /// Returns whether `permits` permits are left. A limit that was lowered may be below the
    /// permits that are taken.
    #[inline]
    pub(in crate::flow) const fn admits(self, permits: u64) -> bool {
        self.taken <= self.limit && permits <= self.limit - self.taken
    }
}

/// A window in which too few permits are left.
pub(in crate::flow) struct FullWindow {
    /// The word of the newest bucket.
    pub(in crate::flow) word: u64,
    /// The bucket with which the window ends.
    pub(in crate::flow) number: u64,
    /// The permits of the window that are taken.
    pub(in crate::flow) taken: u64,
    /// The permits that the request asked for.
    pub(in crate::flow) permits: u64,
}

impl FullWindow {
    /// Returns the number of permits that have to leave before a window of `limit` permits has as
    /// many left as the request asked for.
    pub(in crate::flow) const fn excess(&self, limit: u64) -> u64 {
        self.taken.saturating_add(self.permits).saturating_sub(limit)
    }
}
