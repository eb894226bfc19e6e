//! The ways to hold a wrap.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::wrap::BucketWrap;

/// Where to record at a given time: dereferences to the bucket.
#[derive(Debug)]
pub enum CurrentBucket<'a, B> {
    /// The bucket of that time.
    InTime(BucketGuard<'a, B>),
    /// The bucket of all that comes too late: the slot of that time holds a newer bucket.
    Late(&'a B),
}

impl<B> CurrentBucket<'_, B> {
    /// The wrap of that time; `None` if it is late.
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

/// A [`BucketWrap`] that is held, whether it is still in the ring or not.
///
/// Cheap to get and meant to be held briefly: what is recorded through it after the wrap has left
/// the window is counted as expired, and the array cannot settle a wrap that is held.
///
/// It stays with the thread that got it. The thread may lend the bucket to another one. For that, a bucket of your own
/// must count either by stores with `Release`, or by read-modify-writes of words to which its
/// [`reset`](crate::Bucket::reset) always stores, even if they are zero already, as
/// [`MetricBucket`](crate::MetricBucket) does. Otherwise, a read that holds nothing could count what was added in a later use
/// of the bucket.
pub struct BucketGuard<'a, B> {
    wrap: &'a BucketWrap<B>,
    index: u32,
    /// Not `Send`: the fence in `hold` is the thread's own.
    stays: PhantomData<*const ()>,
}

impl<'a, B> BucketGuard<'a, B> {
    /// Holds the wrap of that index. The caller looks whether it is still what it was found as.
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
