//! A bucket with its start and its pin count.
//!
//! # Orderings
//!
//! - `pins`: a pin acquires, an unpin releases, and `is_unpinned` does both. All are
//!   read-modify-writes, so one is ordered before the other: a check that follows a pin finds it,
//!   and a pin that follows a check sees what the rotator did before.
//! - `start`: relaxed. It is ordered by the index through which the wrap was found, and by `pins`.
//!   It is cleared before the check of the pins.
//! - `live`: a seqlock version. `recycle` clears it, then has a release fence, then resets the
//!   bucket, and releases the new start. `read` acquires it before the counters, and again by an
//!   acquire fence.
//! - `pin` has a release fence: a reader that finds a store of the new use finds `live` changed.

use std::fmt;
use std::ops::RangeInclusive;

use super::bucket::Bucket;
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::Timestamp;

/// A bucket and the start of its span.
///
/// The span is half-open: from `start` up to, not including, `start + bucket_len`. While a thread
/// has the wrap pinned, in the ring or not, and has validated the pin, its start does not change.
//
// The order of the fields keeps the fields that a sum reads adjacent.
#[repr(C)]
pub struct BucketWrap<B> {
    /// The version for reads without a pin: the start, set before the wrap is put into its slot,
    /// and [`UNUSED`] soon after it is replaced. A wrap that lost the race for its slot keeps the
    /// start, with empty counters, until it is recycled.
    live: AtomicU64,
    bucket: B,
    start: AtomicU64,
    /// The pin count. A pinned wrap is not recycled.
    pins: AtomicU64,
}

/// The start of a wrap that was never used, or is being recycled. No bucket has this start: a
/// bucket is at least two nanoseconds long, and starts at a multiple of its length.
pub(crate) const UNUSED: u64 = 1;

impl<B> BucketWrap<B> {
    /// Returns the start of the span: a multiple of the bucket length. The end is
    /// [`bucket_end`](crate::WindowConfig::bucket_end) of the array's geometry.
    #[must_use]
    #[inline]
    pub fn start(&self) -> Timestamp {
        // Relaxed: the caller has pinned the wrap, and has acquired it with this start.
        Timestamp::from_nanos(self.start.load(Ordering::Relaxed))
    }

    /// Returns the bucket.
    #[must_use]
    #[inline]
    pub const fn bucket(&self) -> &B {
        &self.bucket
    }

    /// Returns the result of `look` on the bucket, if the start of the wrap is one of `starts` and
    /// the wrap is in its slot during the whole read.
    ///
    /// The caller need not pin the wrap. If the wrap leaves its slot during the read, the result is
    /// discarded, and this returns `None`.
    #[inline]
    pub(crate) fn read<T>(
        &self,
        starts: RangeInclusive<u64>,
        look: impl FnOnce(&B) -> T,
    ) -> Option<T> {
        // Acquire: pairs with the Release in `recycle`. The counts of earlier uses have been reset.
        let start = self.live.load(Ordering::Acquire);
        if !starts.contains(&start) {
            return None;
        }
        stall::at(Point::StartSeen);
        let found = look(&self.bucket);
        stall::at(Point::Counted);
        // Acquire: pairs with the fence in `recycle`, if `look` has read a reset counter, and with
        // the fence in `pin`, if it has read an add of a later use. In both cases, `live` was
        // changed before, and the second load finds that.
        fence(Ordering::Acquire);
        (self.live.load(Ordering::Relaxed) == start).then_some(found)
    }

    /// Marks the wrap as replaced: another wrap has taken its slot.
    pub(crate) fn mark_replaced(&self) {
        // Relaxed: a reader that does not see this yet reads a bucket that was in the window a
        // moment ago.
        self.live.store(UNUSED, Ordering::Relaxed);
    }

    /// Pins the wrap. If the wrap is in use, it is not recycled until it is unpinned. The caller
    /// validates *after* this call whether the wrap is in use, by the slot or by the start, as with
    /// a hazard pointer.
    pub(crate) fn pin(&self) {
        // Acquire: pairs with the Release in `is_unpinned` and in `unpin`. If the rotator's check
        // precedes this add in the order of `pins`, the validation that follows sees that the wrap
        // is gone.
        self.pins.fetch_add(1, Ordering::Acquire);
        // Release: pairs with the Acquire in `read`. A reader that sees a later store of this
        // thread in the bucket sees that the previous use has ended.
        fence(Ordering::Release);
    }

    pub(crate) fn unpin(&self) {
        // Release: pairs with the Acquire in `is_unpinned`. All adds of this thread happen before.
        self.pins.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether no thread has the wrap pinned. If so, and if the caller has made the
    /// validation of later pins fail, no thread uses the wrap from then on. A later pin may still
    /// be counted until its validation fails.
    pub(crate) fn is_unpinned(&self) -> bool {
        stall::at(Point::Unplaced);
        // A read-modify-write, so that it is ordered before or after each pin; a load could miss a
        // pin whose validation misses the change of the slot or of the start. Acquire: pairs with
        // the Release in `unpin`, and shows all adds. Release: pairs with the Acquire in `pin`.
        self.pins.fetch_add(0, Ordering::AcqRel) == 0
    }
}

impl<B: fmt::Debug> fmt::Debug for BucketWrap<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut wrap = f.debug_struct("BucketWrap");
        wrap.field("start", &self.start()).field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl<B: Bucket> BucketWrap<B> {
    pub(crate) fn unused() -> Self {
        Self {
            live: AtomicU64::new(UNUSED),
            bucket: B::default(),
            start: AtomicU64::new(UNUSED),
            pins: AtomicU64::new(0),
        }
    }

    /// Empties a wrap that belongs to the caller, and gives it a start. Returns `false` if a thread
    /// that read the wrap's index earlier has it pinned.
    pub(crate) fn recycle(&self, start: Timestamp) -> bool {
        // Relaxed: `is_unpinned` releases this store to a thread that pins the wrap later.
        self.start.store(UNUSED, Ordering::Relaxed);
        if !self.is_unpinned() {
            return false;
        }
        stall::at(Point::Unpinned);
        // Relaxed: the wrap has left its slot, or never was in one. The release fence pairs with
        // the acquire fence in `read`: a read that sees the bucket being emptied, or an add of its
        // next use, sees this store.
        self.live.store(UNUSED, Ordering::Relaxed);
        fence(Ordering::Release);
        stall::at(Point::NotLive);
        self.bucket.reset();
        stall::at(Point::Emptied);
        self.start.store(start.as_nanos(), Ordering::Relaxed);
        stall::at(Point::Started);
        // Release: pairs with the Acquire in `read`, which may have found the wrap by an index that
        // was read earlier.
        self.live.store(start.as_nanos(), Ordering::Release);
        true
    }
}
