//! The bins that a publication seals.

use super::group::GROUP_BINS;
use super::recorder::LatencyRecorder;

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
