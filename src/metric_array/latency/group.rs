//! Eight adjacent bins, the unit in which counts are sealed and added up.

use super::recorder::LatencyRecorder;

/// The number of bins in a group.
pub(crate) const GROUP_BINS: usize = 8;

/// The counts of eight adjacent bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BinGroup {
    /// The position of the first bin, divided by 8.
    pub(crate) index: usize,
    pub(crate) counts: [u64; GROUP_BINS],
}

impl BinGroup {
    pub(crate) fn add(&mut self, counts: &[u64; GROUP_BINS]) {
        for (sum, count) in self.counts.iter_mut().zip(counts) {
            // It wraps around only in a draft that is made from several publications, and is
            // discarded.
            *sum = sum.wrapping_add(*count);
        }
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
    /// One response time, in the bin at that position.
    One(usize),
}

/// A visitor of groups, in ascending order: of the index of the group, and its counts.
pub(crate) trait VisitGroup: FnMut(usize, &[u64; GROUP_BINS]) {}

impl<F: FnMut(usize, &[u64; GROUP_BINS])> VisitGroup for F {}

impl BinSource<'_> {
    /// Visits the groups that have counts.
    pub(crate) fn for_each_group(self, visit: &mut dyn FnMut(usize, &[u64; GROUP_BINS])) {
        match self {
            Self::None => {}
            Self::Bucket(recorder) => recorder.for_each_bucket_group(visit),
            Self::Lifetime(recorder) => recorder.for_each_lifetime_group(visit),
            Self::One(position) => {
                let counts = std::array::from_fn(|bin| u64::from(bin == position % GROUP_BINS));
                visit(position / GROUP_BINS, &counts);
            }
        }
    }
}
