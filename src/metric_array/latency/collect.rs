//! Adds up bins of many parts.

use std::cell::Cell;

use super::group::{GROUP_BINS, Group};
use crate::histogram::{HistogramConfig, LatencyHistogram, Layout};
use crate::metric::Counts;

/// The sums of bins over rows and cells.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    /// The counts by position. A multiple of 8, so that it has whole groups.
    counts: Vec<u64>,
    /// The groups from the first to before the second may have counts.
    first: usize,
    end: usize,
}

thread_local! {
    /// A collector that the thread uses again, so that a read allocates nothing.
    static COLLECTOR: Cell<Option<Box<Collector>>> = const { Cell::new(None) };
}

/// Calls `collect` with an empty collector for the bins of that scale.
pub(crate) fn with_collector<R>(
    config: HistogramConfig,
    collect: impl FnOnce(&mut Collector) -> R,
) -> R {
    // Taken out, and not borrowed: a panic leaves none behind. `None` if the thread ends.
    let mut collector = COLLECTOR.try_with(Cell::take).ok().flatten().unwrap_or_default();
    collector.begin(config);
    let result = collect(&mut collector);
    let _ = COLLECTOR.try_with(|cell| cell.set(Some(collector)));
    result
}

impl Collector {
    fn begin(&mut self, config: HistogramConfig) {
        self.clear();
        let groups = Layout::of(config).positions().div_ceil(GROUP_BINS);
        self.counts.resize(groups * GROUP_BINS, 0);
        self.clear();
    }

    /// Empties the collector.
    pub(crate) fn clear(&mut self) {
        let used = self.first * GROUP_BINS..(self.end * GROUP_BINS).min(self.counts.len());
        if let Some(used) = self.counts.get_mut(used) {
            used.fill(0);
        }
        (self.first, self.end) = (usize::MAX / GROUP_BINS, 0);
    }

    /// Adds groups. A group that the scale does not have is left out: it was read while its row was filled again, and
    /// the read is repeated.
    #[inline]
    pub(crate) fn add(&mut self, groups: impl Iterator<Item = Group>) {
        for group in groups {
            let first = group.index.saturating_mul(GROUP_BINS);
            let Some(sums) = self.counts.get_mut(first..first.saturating_add(GROUP_BINS)) else {
                continue;
            };
            for (sum, count) in sums.iter_mut().zip(group.counts) {
                *sum = sum.wrapping_add(count);
            }
            self.first = self.first.min(group.index);
            self.end = self.end.max(group.index + 1);
        }
    }

    /// Replaces the contents of `into` by the collected bins, and the sum and the extremes of `counts`.
    pub(crate) fn store(
        &self,
        config: HistogramConfig,
        counts: &Counts,
        into: &mut LatencyHistogram,
    ) {
        let first = (self.first * GROUP_BINS).min(self.counts.len());
        let bins = self.counts.get(first..self.end * GROUP_BINS).unwrap_or_default();
        let totals = counts.totals();
        into.set(config, first, bins, totals.rt_nanos, totals.min_rt, totals.max_rt);
    }
}
