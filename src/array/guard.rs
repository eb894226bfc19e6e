//! Guards of pinned wraps.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::wrap::BucketWrap;

/// The bucket in which to record at a given time. Dereferences to the bucket.
#[derive(Debug)]
pub enum CurrentBucket<'a, B> {
    /// The bucket of that time.
    InTime(BucketGuard<'a, B>),
    /// The bucket of all late records: the slot of that time has a newer bucket.
    Late(&'a B),
}

impl<B> CurrentBucket<'_, B> {
    /// Returns the wrap of that time; `None` if the time is late.
    #[must_use]
    pub fn in_time(&self) -> Option<&BucketWrap<B>> {
        match self {
            Self::InTime(wrap) => Some(wrap),
            Self::Late(_) => None,
        }
    }
}

impl<B> Deref for CurrentBucket<'_, B> {
    type Target = B;

    fn deref(&self) -> &B {
        match self {
            Self::InTime(wrap) => wrap.bucket(),
            Self::Late(bucket) => bucket,
        }
    }
}

/// A pinned [`BucketWrap`], in the ring or not. Dropping the guard unpins the wrap.
///
/// A guard is cheap to get, and should be dropped soon: records through it count as expired once
/// the wrap has left the window, and the array cannot reclaim a pinned wrap.
///
/// A guard cannot be sent to another thread, but its thread may lend the bucket to other threads.
/// For that, a bucket type of your own must count either by stores with `Release`, or by
/// read-modify-writes of words to which its [`reset`](crate::array::Bucket::reset) always stores,
/// even if they are zero already, as [`MetricBucket`](crate::metric::MetricBucket) does. Otherwise,
/// a read without a pin could see an add of a later use of the bucket.
pub struct BucketGuard<'a, B> {
    wrap: &'a BucketWrap<B>,
    index: u32,
    /// Not `Send`: the fence in `pin` orders the accesses of one thread.
    stays: PhantomData<*const ()>,
}

impl<'a, B> BucketGuard<'a, B> {
    /// Pins a wrap. The caller then validates that the wrap still belongs to the bucket for which
    /// it was found.
    pub(crate) fn pin(wrap: &'a BucketWrap<B>, index: u32) -> Self {
        wrap.pin();
        Self { wrap, index, stays: PhantomData }
    }

    pub(crate) const fn index(&self) -> u32 {
        self.index
    }
}

impl<B> Deref for BucketGuard<'_, B> {
    type Target = BucketWrap<B>;

    fn deref(&self) -> &BucketWrap<B> {
        self.wrap
    }
}

impl<B: fmt::Debug> fmt::Debug for BucketGuard<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<B> Drop for BucketGuard<'_, B> {
    fn drop(&mut self) {
        self.unpin();
    }
}
