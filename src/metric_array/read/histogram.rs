//! Reading histograms.

use std::ops::RangeInclusive;

use super::{Moment, Numbers, Part};
use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::metric::{Counts, MetricTotals};
use crate::metric_array::MetricArray;
use crate::metric_array::cells::thread_cell::ThreadCell;
use crate::metric_array::latency::{Collector, with_collector};
use crate::metric_array::recorders::found_recorder;
use crate::sync::{Ordering, fence};

impl MetricArray {
    /// Replaces the contents of `into` by the histogram of the buckets with those numbers, and returns their totals, which
    /// are of the same moment. Returns `None`, and changes nothing, if the array has no histogram.
    pub(crate) fn histogram_into(
        &self,
        numbers: RangeInclusive<u64>,
        into: &mut LatencyHistogram,
    ) -> Option<MetricTotals> {
        let asked = Numbers::of(&numbers);
        self.collect_into(into, |moment, collection| {
            moment.for_each_part(asked, |part| collection.add_part(moment, part));
        })
    }

    /// Replaces the contents of `into` by the histogram of all response times that were ever recorded, and returns the
    /// totals of all records. Returns `None`, and changes nothing, if the array has no histogram.
    pub(crate) fn lifetime_histogram_into(
        &self,
        into: &mut LatencyHistogram,
    ) -> Option<MetricTotals> {
        self.collect_into(into, |moment, collection| {
            for part in moment.ledger(Numbers { first: 0, last: 0 }) {
                collection.counts.add(&part);
            }
            collection.add_lifetime(moment);
        })
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
        // Before the bins: a response time that is in the sum is in its bin.
        self.counts.add(&part.counts());
        match part {
            Part::Row(_, slot) => {
                let bins = moment.history.and_then(|(history, _)| history.bins_in(slot));
                if let Some(bins) = bins {
                    bins.add_to(self.bins);
                }
            }
            Part::Cell(cell) => {
                if let Some(recorder) = found_recorder(cell, self.config) {
                    recorder.for_each_bucket_group(|index, counts| self.bins.add(index, counts));
                }
                self.add_extremes_again(cell);
            }
        }
    }

    /// Adds the extremes of a cell whose bins have been added: all response times that are in the bins are within these
    /// extremes.
    fn add_extremes_again(&mut self, cell: &ThreadCell) {
        // Acquire: pairs with the Release in `BinBlock::count`.
        fence(Ordering::Acquire);
        let Counts { min_rt, max_rt, .. } = cell.counts();
        self.counts.add(&Counts { min_rt, max_rt, ..Counts::ZERO });
    }

    /// Adds the bins of all cells and of the cells that were retired.
    fn add_lifetime(&mut self, moment: &Moment<'_>) {
        moment.array.cells.for_each_present(|cell| {
            let state = cell.state();
            if !state.is_retired() {
                if let Some(recorder) = found_recorder(cell, self.config) {
                    recorder.for_each_lifetime_group(|index, counts| self.bins.add(index, counts));
                }
            }
            if state.is_bound() {
                self.add_extremes_again(cell);
            }
        });
        if let Some((row, bins)) = moment.history.and_then(|(history, _)| history.retired()) {
            bins.add_to(self.bins);
            self.counts.add(&row.counts().load());
        }
    }
}
