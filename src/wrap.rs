//! Buckets in the ring: the wrap that gives one its start, and the ways to hold it.

use std::ops::Deref;

use crate::bucket::Bucket;
use crate::sync::{Arc, Held};
use crate::timestamp::Timestamp;

/// A bucket and the start of its span, which never changes.
///
/// Half-open: a wrap covers `start ..` up to, not including, `start + bucket_len`.
#[derive(Debug)]
pub struct BucketWrap<B> {
    start: Timestamp,
    bucket: B,
}

impl<B> BucketWrap<B> {
    /// Where the bucket's span begins: a multiple of the bucket length.
    #[must_use]
    #[inline]
    pub const fn start(&self) -> Timestamp {
        self.start
    }

    /// The bucket itself.
    #[must_use]
    #[inline]
    pub const fn bucket(&self) -> &B {
        &self.bucket
    }
}

impl<B: Bucket> BucketWrap<B> {
    pub(crate) fn empty(start: Timestamp) -> Self {
        Self { start, bucket: B::default() }
    }

    /// The same memory as a fresh wrap of another start.
    pub(crate) fn recycle(&mut self, start: Timestamp) {
        self.start = start;
        self.bucket.reset();
    }
}

/// Where to record at a given time: dereferences to the bucket.
#[derive(Debug)]
pub enum CurrentBucket<'a, B> {
    /// The bucket of that time.
    InTime(WrapRef<B>),
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

/// A [`BucketWrap`] that is kept alive, whether it is still in the ring or not.
///
/// Cheap to get and meant to be held briefly: what is recorded through it after the wrap has left
/// the window is counted as expired, and the array cannot settle a wrap that is held.
#[derive(Debug)]
pub struct WrapRef<B>(Held<BucketWrap<B>>);

const FILLED: &str = "a WrapRef is made of a slot that was found filled";

impl<B> WrapRef<B> {
    /// Of a slot that was found filled.
    pub(crate) const fn new(held: Held<BucketWrap<B>>) -> Self {
        Self(held)
    }

    pub(crate) fn to_arc(&self) -> Arc<BucketWrap<B>> {
        self.0.to_arc().expect(FILLED)
    }
}

impl<B> Deref for WrapRef<B> {
    type Target = BucketWrap<B>;

    fn deref(&self) -> &BucketWrap<B> {
        self.0.get().expect(FILLED)
    }
}
