//! Adds up bins of many parts.

use std::cell::Cell;

use super::group::{GROUP_BINS, Group};
use crate::histogram::{HistogramConfig, LatencyHistogram, Layout};
use crate::metric::MetricTotals;

/// The sums of bins over rows and cells.
///
/// Most groups of a row are lists of eight counts below 256, in a word of eight bytes. To add such a word takes two
/// additions: the even bytes are added to four lanes of 16 bits, and so are the odd ones. The lanes have room for the
/// bytes of [`LISTS`] rows, and are then added to the counts.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    /// The counts by position. A multiple of 8, so that it has whole groups.
    counts: Vec<u64>,
    /// The lanes of each group: of the even bytes, and of the odd ones.
    lanes: Vec<[u64; 2]>,
    /// The number of lists whose bytes may be in the lanes.
    lists: u32,
    /// The groups from the first to before the second may have counts.
    first: usize,
    end: usize,
}

/// The number of bytes that a lane has room for: 257 · 255 is 2¹⁶ − 1.
const LISTS: u32 = 257;

/// The even bytes of a word.
const EVEN_BYTES: u64 = 0x00ff_00ff_00ff_00ff;

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
        self.lanes.resize(groups, [0; 2]);
    }

    /// Empties the collector.
    pub(crate) fn clear(&mut self) {
        let used = self.first..self.end;
        if let Some(lanes) = self.lanes.get_mut(used.clone()) {
            lanes.fill([0; 2]);
        }
        if let Some(counts) = self.counts.get_mut(used.start * GROUP_BINS..used.end * GROUP_BINS) {
            counts.fill(0);
        }
        (self.first, self.end, self.lists) = (0, 0, 0);
    }

    /// Adds a group. A group that the scale does not have is left out: it was read while its row was filled again, and
    /// the read is repeated.
    #[inline]
    pub(crate) fn add(&mut self, group: &Group) {
        let first = group.index.saturating_mul(GROUP_BINS);
        if let Some(sums) = self.counts.get_mut(first..first.saturating_add(GROUP_BINS)) {
            for (sum, count) in sums.iter_mut().zip(group.counts) {
                *sum = sum.wrapping_add(count);
            }
            self.include(group.index);
        }
    }

    /// Begins to add bytes of another list, which has each group once.
    #[inline]
    pub(crate) fn begin_list(&mut self) {
        self.lists += 1;
        if self.lists > LISTS {
            self.spill();
            self.lists = 1;
        }
    }

    /// Adds a group whose counts are the bytes of a word, the first one in the lowest byte. A group that the scale does
    /// not have is left out, as in [`add`](Self::add).
    #[inline]
    pub(crate) fn add_bytes(&mut self, index: usize, word: u64) {
        if let Some([even, odd]) = self.lanes.get_mut(index) {
            *even = even.wrapping_add(word & EVEN_BYTES);
            *odd = odd.wrapping_add(word >> 8 & EVEN_BYTES);
            self.include(index);
        }
    }

    #[inline]
    fn include(&mut self, group: usize) {
        if self.end == 0 {
            self.first = group;
        }
        self.first = self.first.min(group);
        self.end = self.end.max(group + 1);
    }

    /// Adds the lanes to the counts.
    fn spill(&mut self) {
        let used = self.first..self.end;
        let counts = &mut self.counts[used.start * GROUP_BINS..used.end * GROUP_BINS];
        for (lanes, counts) in self.lanes[used].iter_mut().zip(counts.chunks_exact_mut(GROUP_BINS))
        {
            for (bin, count) in counts.iter_mut().enumerate() {
                *count = count.wrapping_add(lanes[bin % 2] >> (bin / 2 * 16) & 0xffff);
            }
            *lanes = [0; 2];
        }
    }

    /// Replaces the contents of `into` by the collected bins, and the sum and the extremes of `totals`.
    pub(crate) fn store(
        &mut self,
        config: HistogramConfig,
        totals: &MetricTotals,
        into: &mut LatencyHistogram,
    ) {
        self.spill();
        let bins = self.first * GROUP_BINS..self.end * GROUP_BINS;
        let (first, bins) = (bins.start, &self.counts[bins]);
        into.set(config, first, bins, totals.rt_nanos, totals.min_rt, totals.max_rt);
    }
}
