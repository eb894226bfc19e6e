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

    /// Returns the permits that are left for a request for `permits` of them, if `word` is the
    /// direct word of the newest bucket. `None` makes the caller read the word again.
    #[inline]
    fn remaining(&self, window: &PermitWindow, word: u64, _permits: u64) -> Option<u64> {
        let PackedBucket { number, count: taken, .. } = window.layout().read(word);
        Some(self.limit(window, number)?.saturating_sub(taken))
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
