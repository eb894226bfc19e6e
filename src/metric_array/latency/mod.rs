//! Histograms of response times: the bins that a thread counts in, and the bins of sealed buckets.
//!
//! The bins of a [`Layout`](crate::histogram::Layout) are numbered by their positions. Eight
//! adjacent bins are a *group*, and 64 a *block*. A thread that records in a window with a
//! histogram has a [`LatencyRecorder`] for its cell, with a counter for each bin in the blocks that
//! it has needed. When the cell is sealed, the counts of its bucket go into the row's
//! [`SealedBins`], in a sparse form.
//!
//! The counters of a recorder are never reset while the cell belongs to its window. Each bin has
//! its count, and the count at the time when the cell was bound. The difference is the count of the
//! bucket, and the sum of all counts is the histogram of the window's lifetime, without a second
//! counter for each response time.

mod block;
mod collect;
mod group;
mod recorder;
mod sealed;
mod source;
mod sums;
mod words;

pub(crate) use block::{BLOCK_BINS, BinBlock};
pub(crate) use collect::{Collector, with_collector};
pub(crate) use recorder::{Bin, LatencyRecorder, RecorderMemory};
pub(crate) use sealed::SealedBins;
pub(crate) use source::BinSource;
pub(crate) use sums::{BinSums, CopiedBins};
