//! Eight adjacent bins, the unit in which counts are sealed and merged.

use std::iter::Peekable;

use super::recorder::LatencyRecorder;

/// The number of bins in a group.
pub(crate) const GROUP_BINS: usize = 8;

/// The counts of eight adjacent bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The position of the first bin, divided by 8.
    pub(crate) index: usize,
    pub(crate) counts: [u64; GROUP_BINS],
}

impl Group {
    /// Returns the group with one count, in the bin at that position.
    fn of(position: usize) -> Self {
        let counts = std::array::from_fn(|bin| u64::from(bin == position % GROUP_BINS));
        Self { index: position / GROUP_BINS, counts }
    }

    fn add(mut self, other: &Self) -> Self {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            // A count that a stale read has made up may be anything; what is read is discarded then.
            *sum = sum.wrapping_add(count);
        }
        self
    }
}

/// The bins that a publication seals.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BinSource<'a> {
    /// None: the window has no histogram, or no response time was recorded.
    None,
    /// The counts of the recorder's bucket.
    Bucket(&'a LatencyRecorder),
    /// The counts of the recorder since its cell was claimed.
    Lifetime(&'a LatencyRecorder),
    /// One response time in the bin at that position.
    One(usize),
}

impl<'a> BinSource<'a> {
    /// Returns the groups that have counts, in ascending order.
    #[inline]
    pub(crate) fn groups(self) -> impl Iterator<Item = Group> {
        let bucket = if let BinSource::Bucket(recorder) = self { Some(recorder) } else { None };
        let lifetime = if let BinSource::Lifetime(recorder) = self { Some(recorder) } else { None };
        let one =
            if let BinSource::One(position) = self { Some(Group::of(position)) } else { None };
        let bucket = bucket.into_iter().flat_map(LatencyRecorder::bucket_groups);
        let lifetime = lifetime.into_iter().flat_map(LatencyRecorder::lifetime_groups);
        bucket.chain(lifetime).chain(one)
    }
}

/// Returns the groups of both, in ascending order; the counts of a group that both have are added.
pub(crate) fn merged<A, B>(left: A, right: B) -> Merged<A, B>
where
    A: Iterator<Item = Group>,
    B: Iterator<Item = Group>,
{
    Merged { left: left.peekable(), right: right.peekable() }
}

pub(crate) struct Merged<A: Iterator<Item = Group>, B: Iterator<Item = Group>> {
    left: Peekable<A>,
    right: Peekable<B>,
}

impl<A: Iterator<Item = Group>, B: Iterator<Item = Group>> Iterator for Merged<A, B> {
    type Item = Group;

    fn next(&mut self) -> Option<Group> {
        let (Some(left), Some(right)) = (self.left.peek(), self.right.peek()) else {
            return self.left.next().or_else(|| self.right.next());
        };
        match left.index.cmp(&right.index) {
            std::cmp::Ordering::Less => self.left.next(),
            std::cmp::Ordering::Greater => self.right.next(),
            std::cmp::Ordering::Equal => Some(self.left.next()?.add(&self.right.next()?)),
        }
    }
}
