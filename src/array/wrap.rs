//! Buckets in the ring: the wrap that gives one its start, and says who has it.

use std::fmt;
use std::ops::RangeInclusive;

use super::bucket::Bucket;
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::Timestamp;

/// A bucket and the start of its span.
///
/// Half-open: a wrap covers `start ..` up to, not including, `start + bucket_len`. While anybody
/// holds it, in the ring or not, the start stays what it is.
//
// In this order: what a sum needs is side by side.
#[repr(C)]
pub struct BucketWrap<B> {
    /// The start while the wrap is in its slot, or about to be: for those who read without a hold.
    live: AtomicU64,
    bucket: B,
    start: AtomicU64,
    /// How many keep it from being used again.
    pins: AtomicU64,
}

/// The start of a wrap that is not in use: a bucket is at least two nanoseconds long, and starts
/// at a multiple of that.
pub(crate) const UNUSED: u64 = 1;

impl<B> BucketWrap<B> {
    /// Where the bucket's span begins: a multiple of the bucket length.
    #[must_use]
    #[inline]
    pub fn start(&self) -> Timestamp {
        // Relaxed: whoever asks holds the wrap, and has acquired it with this start.
        Timestamp::from_nanos(self.start.load(Ordering::Relaxed))
    }

    /// The bucket itself.
    #[must_use]
    #[inline]
    pub const fn bucket(&self) -> &B {
        &self.bucket
    }

    /// What `look` finds in the bucket, if its start is one of `starts` and it is in its slot all the
    /// while.
    ///
    /// Nobody need hold the wrap: should it leave its slot meanwhile, to be used again, what was found
    /// is thrown away.
    #[inline]
    pub(crate) fn read<T>(
        &self,
        starts: RangeInclusive<u64>,
        look: impl FnOnce(&B) -> T,
    ) -> Option<T> {
        // Acquire: pairs with the Release in `recycle`. What was counted in an earlier use is gone.
        let start = self.live.load(Ordering::Acquire);
        if !starts.contains(&start) {
            return None;
        }
        stall::at(Point::StartSeen);
        let found = look(&self.bucket);
        stall::at(Point::Counted);
        // Acquire: pairs with the fence in `recycle` if what was found is what that left, and with the
        // one in `hold` if it was added in a later use. Both come after the start was taken away.
        fence(Ordering::Acquire);
        (self.live.load(Ordering::Relaxed) == start).then_some(found)
    }

    /// Says that another wrap has taken its slot.
    pub(crate) fn mark_replaced(&self) {
        // Relaxed: who does not see it yet reads what was in the window a moment ago.
        self.live.store(UNUSED, Ordering::Relaxed);
    }

    /// Keeps the wrap from being used again, if it is in use: that is for the caller to see to, by
    /// looking at the slot or at the start *after* this.
    pub(crate) fn pin(&self) {
        // Acquire: pairs with the Release in `is_unpinned`, and in `unpin`. If this comes later in the
        // order of `pins`, the look after it sees that the wrap is gone.
        self.pins.fetch_add(1, Ordering::Acquire);
        // Release: pairs with the Acquire in `read`. Whoever sees what this thread stores in the
        // bucket from here on knows of the use that it is in.
        fence(Ordering::Release);
    }

    pub(crate) fn unpin(&self) {
        // Release: pairs with the Acquire in `is_unpinned`. What was added comes before.
        self.pins.fetch_sub(1, Ordering::Release);
    }

    /// Whether nobody holds it: for good, if the caller has seen to it that those who hold it later
    /// find it gone.
    pub(crate) fn is_unpinned(&self) -> bool {
        stall::at(Point::Unplaced);
        // Not a load, which could miss a hold and be missed by it: this has its turn in the order of
        // the holds. Acquire: all that holders have added is there. Release: pairs with `hold`.
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

    /// Empties a wrap that is the caller's alone and gives it a start; `false` if somebody who has
    /// found it on an older list is still reading.
    pub(crate) fn recycle(&self, start: Timestamp) -> bool {
        // Relaxed: `is_unpinned` releases it, before it looks, to a thread that holds the wrap after that.
        self.start.store(UNUSED, Ordering::Relaxed);
        if !self.is_unpinned() {
            return false;
        }
        stall::at(Point::Unpinned);
        // Relaxed: the wrap has left its slot, or never was in one. The release fence pairs with the acquire fence in
        // `read`: a read that sees the bucket being emptied, or an add of its next use, sees this store.
        self.live.store(UNUSED, Ordering::Relaxed);
        fence(Ordering::Release);
        stall::at(Point::NotLive);
        self.bucket.reset();
        stall::at(Point::Emptied);
        self.start.store(start.as_nanos(), Ordering::Relaxed);
        stall::at(Point::Started);
        // Release: pairs with the Acquire in `read`, which may come by way of an old index.
        self.live.store(start.as_nanos(), Ordering::Release);
        true
    }
}
