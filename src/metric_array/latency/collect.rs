//! Adds up bins of many parts.

use std::cell::Cell;

use super::block::{BLOCK_BINS, BLOCK_GROUPS};
use super::group::GROUP_BINS;
use super::sums::BinSums;
use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::metric::MetricTotals;

/// The sums of bins over rows and cells.
///
/// Most groups of a list have eight counts below 16, in a word of eight nibbles. Such a word is
/// added by one addition to eight lanes of a byte. The lanes have room for the nibbles of [`LISTS`]
/// lists, and are then added to the counts.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    /// The counts by position, in whole blocks.
    counts: Vec<[u64; BLOCK_BINS]>,
    /// The lanes of each group: a byte for each bin, of the bins 0, 2, 4, 6, 1, 3, 5, 7.
    lanes: Vec<[u64; BLOCK_GROUPS]>,
    /// The number of lists whose nibbles may be in the lanes.
    lists: u32,
    /// The blocks from the first to before the second may have counts.
    first: usize,
    end: usize,
}

/// The sums of one block.
pub(crate) struct BlockSums<'a> {
    counts: &'a mut [u64; BLOCK_BINS],
    lanes: &'a mut [u64; BLOCK_GROUPS],
}

/// The number of nibbles that a lane has room for: 17 · 15 is 2⁸ − 1.
const LISTS: u32 = 17;

/// The nibbles of even bins.
const EVEN: u32 = 0x0f0f_0f0f;

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

impl BlockSums<'_> {
    /// Adds the counts of a group.
    #[inline]
    pub(crate) fn add(&mut self, group: usize, counts: &[u64; GROUP_BINS]) {
        let sums = &mut self.counts[group * GROUP_BINS..][..GROUP_BINS];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum = sum.wrapping_add(*count);
        }
    }

    /// Adds the counts of a group that are the nibbles of a word, the first one in the lowest
    /// nibble.
    #[inline]
    pub(crate) fn add_nibbles(&mut self, group: usize, word: u32) {
        let lanes = u64::from(word & EVEN) | u64::from(word >> 4 & EVEN) << 32;
        self.lanes[group] = self.lanes[group].wrapping_add(lanes);
    }
}

impl Collector {
    fn begin(&mut self, config: HistogramConfig) {
        self.clear();
        let blocks = config.layout().positions().div_ceil(BLOCK_BINS);
        self.counts.resize(blocks, [0; BLOCK_BINS]);
        self.lanes.resize(blocks, [0; BLOCK_GROUPS]);
    }

    /// Empties the collector.
    pub(crate) fn clear(&mut self) {
        self.counts[self.first..self.end].fill([0; BLOCK_BINS]);
        if self.lists > 0 {
            self.lanes[self.first..self.end].fill([0; BLOCK_GROUPS]);
        }
        (self.first, self.end, self.lists) = (0, 0, 0);
    }

    /// Replaces the contents by sums of the same scale.
    pub(crate) fn start_from(&mut self, sums: &BinSums) {
        self.clear();
        let (first, blocks) = sums.used();
        (self.first, self.end) = (first, first + blocks.len());
        if blocks.is_empty() {
            (self.first, self.end) = (0, 0);
        }
        self.counts[self.first..self.end].copy_from_slice(blocks);
    }

    /// Returns the sums of a block; `None` if the scale has no such block.
    #[inline]
    pub(crate) fn block(&mut self, block: usize) -> Option<BlockSums<'_>> {
        let (counts, lanes) = (self.counts.get_mut(block)?, self.lanes.get_mut(block)?);
        self.first = if self.end == 0 { block } else { self.first.min(block) };
        self.end = self.end.max(block + 1);
        Some(BlockSums { counts, lanes })
    }

    /// Adds a group of a recorder.
    pub(crate) fn add(&mut self, index: usize, counts: &[u64; GROUP_BINS]) {
        if let Some(mut sums) = self.block(index / BLOCK_GROUPS) {
            sums.add(index % BLOCK_GROUPS, counts);
        }
    }

    /// Begins to add another list, which has each group once.
    #[inline]
    pub(crate) fn begin_list(&mut self) {
        self.lists += 1;
        if self.lists > LISTS {
            self.spill();
            self.lists = 1;
        }
    }

    /// Adds the lanes to the counts.
    fn spill(&mut self) {
        if self.lists == 0 {
            return;
        }
        self.lists = 0;
        let used = self.first..self.end;
        for (counts, lanes) in self.counts[used.clone()].iter_mut().zip(&mut self.lanes[used]) {
            for (counts, lanes) in counts.chunks_exact_mut(GROUP_BINS).zip(lanes) {
                for (bin, count) in counts.iter_mut().enumerate() {
                    let lane = bin / 2 + bin % 2 * (GROUP_BINS / 2);
                    *count = count.wrapping_add(*lanes >> (8 * lane) & 0xff);
                }
                *lanes = 0;
            }
        }
    }

    /// Replaces the contents of `into` by the collected bins, and the sum and the extremes of
    /// `totals`.
    pub(crate) fn store(
        &mut self,
        config: HistogramConfig,
        totals: &MetricTotals,
        into: &mut LatencyHistogram,
    ) {
        self.spill();
        let (first, bins) =
            (self.first * BLOCK_BINS, self.counts[self.first..self.end].as_flattened());
        into.set(config, first, bins, totals.counts.rt_nanos, totals.min_rt, totals.max_rt);
    }
}
