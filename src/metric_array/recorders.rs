//! The recorders of response times of an array with a histogram.

use super::cells::thread_cache::{self, OwnedCell};
use super::cells::thread_cell::{CellState, ThreadCell};
use super::history::descriptor::{CellStep, GaugeCounts};
use super::history::{SealRequest, SealedCounts, Target};
use super::latency::{Bin, BinSource, LatencyRecorder};
use super::{MetricArray, Origin};
use crate::histogram::HistogramConfig;
use crate::metric::Counts;
use crate::sync::stall::{self, Point};
use crate::time::Timestamp;

impl MetricArray {
    /// Does what [`SharedArray::record_rt`] does, if the thread's cell is not bound to the
    /// bucket of `now`, or the bin has not been counted in since then.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_rt_slowly<R>(
        &self,
        now: Timestamp,
        nanos: u64,
        op: impl Fn(OwnedCell<'_>, Origin, Bin) -> R,
    ) -> R {
        let further = thread_cache::get_further(self.id, self.config.bucket_nanos(), now);
        if let Some((cell, recorder)) = further {
            let found = |recorder: &'static LatencyRecorder| {
                recorder.bin(nanos).unwrap_or_else(|| recorder.touched_bin(nanos))
            };
            return op(cell, cell.origin(), recorder.map_or(Bin::NONE, found));
        }
        match self.bound_cell(now) {
            Some((cell, recorder)) => {
                let bin = recorder.map_or(Bin::NONE, |recorder| recorder.touched_bin(nanos));
                op(cell, cell.origin(), bin)
            }
            None => self.record_directly(now, |cell, origin| op(cell, origin, Bin::NONE)),
        }
    }

    /// Retires a cell that has a recorder: its bucket and its lifetime go into two rows, by two
    /// publications. Until the recorder is given back, the calling thread remains the owner, so
    /// that no other thread adopts the cell with it.
    pub(super) fn retire_with_recorder(
        &self,
        place: u32,
        cell: &'static ThreadCell,
        state: CellState,
        gauge: GaugeCounts,
        config: HistogramConfig,
    ) {
        let sealed = if state.is_bound() { self.seal(place, cell, state) } else { state };
        stall::at(Point::SealedToRetire);
        let retired = sealed.retired_by_owner();
        let recorder = found_recorder(cell, config);
        self.publish(&SealRequest {
            target: Target::Lifetime,
            counts: &SealedCounts::of(0, &Counts::ZERO),
            gauge,
            bins: recorder.map_or(BinSource::None, BinSource::Lifetime),
            cell: Some((cell, CellStep { place, from: sealed, to: retired })),
        });
        stall::at(Point::RetiredByOwner);
        cell.set_recorder_word(0);
        if let Some(recorder) = recorder {
            recorder.give(config);
        }
        cell.abandon(retired);
    }

    /// Adds the response time of a record without a cell to the lifetime, if the record has one.
    /// This comes before its bucket is published: the sum of the lifetime then has no response time
    /// that is not in a bin.
    pub(super) fn publish_lifetime_of_single(&self, counts: &Counts, bins: BinSource<'_>) {
        if !matches!(bins, BinSource::None) {
            let Counts { min_rt, max_rt, .. } = *counts;
            self.publish(&SealRequest {
                target: Target::Lifetime,
                counts: &SealedCounts::of(0, &Counts { min_rt, max_rt, ..Counts::ZERO }),
                gauge: GaugeCounts::default(),
                bins,
                cell: None,
            });
        }
    }

    /// Returns the bin of the response time of a record without a cell, if there is one and the
    /// array has a histogram.
    pub(super) fn bin_of_single(&self, counts: &Counts) -> BinSource<'static> {
        match self.histogram {
            Some(config) if counts.rt_count == 1 => {
                BinSource::One(config.layout().position(counts.min_rt))
            }
            _ => BinSource::None,
        }
    }
}

impl Drop for MetricArray {
    /// Gives the recorders back to their slab. The cells go back after that.
    fn drop(&mut self) {
        if let Some(config) = self.histogram {
            self.cells.for_each_cell(|cell| {
                if let Some(recorder) = found_recorder(cell, config) {
                    recorder.give(config);
                }
            });
        }
    }
}

/// Returns the bins of a cell's bucket.
#[inline(never)]
pub(super) fn bins_of(cell: &ThreadCell, config: HistogramConfig) -> BinSource<'static> {
    found_recorder(cell, config).map_or(BinSource::None, BinSource::Bucket)
}

/// Returns the recorder of a cell.
pub(super) fn found_recorder(
    cell: &ThreadCell,
    config: HistogramConfig,
) -> Option<&'static LatencyRecorder> {
    LatencyRecorder::get(config, cell.recorder_word().checked_sub(1)?)
}

/// Returns the recorder of a cell that the calling thread has become the owner of. If it has none,
/// it gets one; `None` if the slab of recorders is full.
pub(super) fn recorder_of(
    cell: &ThreadCell,
    config: HistogramConfig,
) -> Option<&'static LatencyRecorder> {
    found_recorder(cell, config).or_else(|| {
        let recorder = LatencyRecorder::take(config)?;
        cell.set_recorder_word(recorder.index() + 1);
        Some(recorder)
    })
}
