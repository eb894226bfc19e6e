//! Eight adjacent bins, the unit in which counts are sealed and added up.

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

/// A visitor of groups, in ascending order: of the index of the group, and its counts.
pub(crate) trait VisitGroup: FnMut(usize, &[u64; GROUP_BINS]) {}

impl<F: FnMut(usize, &[u64; GROUP_BINS])> VisitGroup for F {}
