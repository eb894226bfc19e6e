//! Reading histograms.

use std::ops::RangeInclusive;

use super::merged::{MergedMoment, MergedRows, with_merged};
use super::{Moment, Numbers, Part};
use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::metric::{Counts, MetricEvent, MetricTotals};
use crate::metric_array::MetricArray;
use crate::metric_array::cells::thread_cell::ThreadCell;
use crate::metric_array::latency::{Collector, with_collector};
use crate::metric_array::recorders::found_recorder;
use crate::sync::{Ordering, fence};

impl MetricArray {
    /// Replaces the contents of `into` by the histogram of the buckets with those numbers, and
    /// returns their totals, which are of the same moment. Returns `None`, and changes nothing, if
    /// the array has no histogram.
    pub(crate) fn histogram_into(
        &self,
        numbers: RangeInclusive<u64>,
        into: &mut LatencyHistogram,
    ) -> Option<MetricTotals> {
        let asked = Numbers::of(&numbers);
        let config = self.histogram?;
        let key = (self.id, asked.last - asked.first);
        with_merged(key, self.config.sample_count(), config, |merged| {
            merged.and_then(|merged| self.collect_with(merged, config, asked, into)).or_else(|| {
                self.collect_into(into, |moment, collection| {
                    moment.for_each_part(asked, |part| collection.add_part(moment, part));
                })
            })
        })
    }

    /// Returns what [`histogram_into`](Self::histogram_into) returns, and takes the rows that have
    /// not changed from the merge of the calling thread's last read. Returns `None` if a bucket may
    /// be gone.
    fn collect_with(
        &self,
        merged: &mut MergedRows,
        config: HistogramConfig,
        asked: Numbers,
        into: &mut LatencyHistogram,
    ) -> Option<MetricTotals> {
        with_collector(config, |collector| {
            loop {
                let moment = Moment::of(self);
                if moment.may_be_gone(asked.first) {
                    return None;
                }
                merged.update(
                    MergedMoment { stamp: moment.stamp(), first: asked.first, last: asked.last },
                    moment.history.map(|(history, _)| history),
                );
                collector.start_from(merged.bins());
                let mut collection =
                    Collection { config, counts: *merged.counts(), bins: collector };
                moment.for_each_bound(asked, |cell| {
                    collection.add_part(&moment, Part::Cell(cell));
                });
                let counts = collection.counts;
                if moment.is_still() {
                    let totals = counts.totals();
                    collector.store(config, &totals, into);
                    return Some(totals);
                }
            }
        })
    }

    /// Replaces the contents of `into` by the histogram of all response times that were ever
    /// recorded, and returns the totals of all records. Returns `None`, and changes nothing, if the
    /// array has no histogram.
    pub(crate) fn lifetime_histogram_into(
        &self,
        into: &mut LatencyHistogram,
    ) -> Option<MetricTotals> {
        self.collect_into(into, |moment, collection| collection.add_lifetime(moment))
    }

    fn collect_into(
        &self,
        into: &mut LatencyHistogram,
        collect: impl Fn(&Moment<'_>, &mut Collection<'_>),
    ) -> Option<MetricTotals> {
        let config = self.histogram?;
        let totals = with_collector(config, |collector| {
            loop {
                let moment = Moment::of(self);
                collector.clear();
                let mut collection = Collection { config, counts: Counts::ZERO, bins: collector };
                collect(&moment, &mut collection);
                let counts = collection.counts;
                if moment.is_still() {
                    let totals = counts.totals();
                    collector.store(config, &totals, into);
                    return totals;
                }
            }
        });
        Some(totals)
    }
}

/// The counts and the bins of a histogram, while they are added up.
struct Collection<'a> {
    config: HistogramConfig,
    counts: Counts,
    bins: &'a mut Collector,
}

impl Collection<'_> {
    fn add_part(&mut self, moment: &Moment<'_>, part: Part<'_>) {
        match part {
            Part::Row(row, slot) => {
                self.counts.add(&row.counts());
                let bins = moment.history.and_then(|(history, _)| history.bins_in(slot));
                if let Some(bins) = bins {
                    bins.add_to(self.bins);
                }
            }
            Part::Cell(cell) => {
                let nanos = cell.rt_nanos();
                if let Some(recorder) = found_recorder(cell, self.config) {
                    recorder.for_each_bucket_group(|index, counts| self.bins.add(index, counts));
                }
                self.add_cell(cell, nanos);
            }
        }
    }

    /// Adds the counts of a bound cell, with a sum of response times that was read before the bins.
    /// So each response time of the sum is in a bin, and each one in a bin is in the number of
    /// response times and within the extremes, and the end of its request is counted.
    fn add_cell(&mut self, cell: &ThreadCell, nanos: u64) {
        // Acquire: pairs with the Release in `BinBlock::count`.
        fence(Ordering::Acquire);
        let mut counts = cell.counts();
        counts.events[MetricEvent::Rt as usize] = nanos;
        self.counts.add(&counts);
    }

    /// Adds everything that was ever recorded: the counts of all rows and cells, and of what has
    /// left them; and the bins of all cells, which have counted since they were claimed, and those
    /// of retired cells.
    fn add_lifetime(&mut self, moment: &Moment<'_>) {
        for slot in 0..moment.array.config.sample_count() {
            if let Some(row) = moment.row_in(slot) {
                self.counts.add(&row.counts());
            }
        }
        if let Some(descriptor) = moment.descriptor() {
            self.counts.add(&descriptor.expired());
            self.counts.add(&descriptor.late().unwrap_or(Counts::ZERO));
        }
        moment.array.cells.for_each_cell(|cell| self.add_lifetime_of(cell));
        if let Some((row, bins)) = moment.history.and_then(|(history, _)| history.retired()) {
            self.counts.add(&row.counts());
            bins.add_to(self.bins);
        }
    }

    fn add_lifetime_of(&mut self, cell: &ThreadCell) {
        let state = cell.state();
        let nanos = if state.is_bound() { cell.rt_nanos() } else { 0 };
        // The bins of a retired cell are in the row of retired cells.
        if !state.is_retired()
            && let Some(recorder) = found_recorder(cell, self.config)
        {
            recorder.for_each_lifetime_group(|index, counts| self.bins.add(index, counts));
        }
        // Loaded again: the bins may have response times of a cell that was bound after the first
        // look.
        if cell.state().is_bound() {
            self.add_cell(cell, nanos);
        }
    }
}
