//! A reference to an array, with what each record needs to know of it.

use std::ops::Deref;

use super::cells::thread_cache::{self, OwnedCell, WindowKey};
use super::latency::{Bin, LatencyRecorder};
use super::{MetricArray, Origin};
use crate::histogram::HistogramConfig;
use crate::sync::Arc;
use crate::time::{Timestamp, WindowConfig};

/// The number of times in each bucket that a thread adds up the gauge by time, if it enters
/// requests all the time.
const LOOKS_PER_BUCKET: u64 = 1_024;

/// A reference to an array that windows share.
///
/// It has copies of the words that each record needs. So a record in the bucket of a cell reads no
/// cache line of the array, and finds the cell without it: a thread that uses thousands of windows
/// in turn has none of their lines in its first caches, and each load that waits for another one
/// takes as long as a cache line.
//
// In this order: together with the words of a node that each request reads, they fit one line.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct SharedArray {
    key: WindowKey,
    bucket_nanos: u64,
    /// A thread that enters a request adds up the gauge if its last look was this long ago or
    /// longer, in nanoseconds.
    look_after: u64,
    array: Arc<MetricArray>,
}

impl Deref for SharedArray {
    type Target = MetricArray;

    #[inline]
    fn deref(&self) -> &MetricArray {
        &self.array
    }
}

impl SharedArray {
    /// Creates an empty array, with a histogram of the response times if `histogram` is its
    /// resolution.
    pub(crate) fn new(config: WindowConfig, histogram: Option<HistogramConfig>) -> Self {
        let array = MetricArray::new(config, histogram);
        let bucket_nanos = config.bucket_nanos();
        let look_after = bucket_nanos / LOOKS_PER_BUCKET;
        Self { key: WindowKey::of(array.id), bucket_nanos, look_after, array: Arc::new(array) }
    }

    #[inline]
    pub(crate) const fn look_after(&self) -> u64 {
        self.look_after
    }

    /// Calls `op` with a cell that counts for the bucket of `now` and that only the calling thread
    /// writes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, each add asks which event it is")]
    pub(crate) fn record<R>(&self, now: Timestamp, op: impl Fn(OwnedCell<'_>, Origin) -> R) -> R {
        match self.own_cell(now) {
            Some(cell) => op(cell, cell.origin()),
            None => self.array.record_slowly(now, op),
        }
    }

    /// Returns the calling thread's cell, if it is bound to the bucket of `now`. If there is none,
    /// the caller records by [`record_slowly`](MetricArray::record_slowly).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of every record")]
    pub(crate) fn own_cell(&self, now: Timestamp) -> Option<OwnedCell<'static>> {
        thread_cache::get(self.key, self.bucket_nanos, now)
    }

    /// Calls `op` as [`record`](Self::record) does, with the bin of the response time `nanos`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for `record`")]
    pub(crate) fn record_rt<R>(
        &self,
        now: Timestamp,
        nanos: u64,
        op: impl Fn(OwnedCell<'_>, Origin, Bin) -> R,
    ) -> R {
        match self.own_cell_and_recorder(now) {
            // Two calls, so that a window without a histogram does not ask twice whether it has
            // one.
            Some((cell, None)) => return op(cell, cell.origin(), Bin::NONE),
            Some((cell, Some(recorder))) => {
                // Found before anything is counted: a record is not repeated halfway.
                if let Some(bin) = recorder.bin(nanos) {
                    return op(cell, cell.origin(), bin);
                }
            }
            None => {}
        }
        self.array.record_rt_slowly(now, nanos, op)
    }

    /// Returns what [`own_cell`](Self::own_cell) returns, and the recorder of the cell, if the
    /// array has a histogram.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of every record of a response time")]
    pub(crate) fn own_cell_and_recorder(
        &self,
        now: Timestamp,
    ) -> Option<(OwnedCell<'static>, Option<&'static LatencyRecorder>)> {
        thread_cache::get_with_recorder(self.key, self.bucket_nanos, now)
    }
}
