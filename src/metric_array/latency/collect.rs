//! Adds up bins of many parts.

use std::cell::Cell;

use super::block::{BLOCK_BINS, BLOCK_GROUPS};
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
    /// The counts by position, in whole blocks.
    counts: Vec<[u64; BLOCK_BINS]>,
    /// The lanes of each group: of the even bytes, and of the odd ones.
    lanes: Vec<[[u64; 2]; BLOCK_GROUPS]>,
    /// The number of lists whose bytes may be in the lanes.
    lists: u32,
    /// The blocks from the first to before the second may have counts.
    first: usize,
    end: usize,
}

/// The sums of one block.
pub(crate) struct BlockSums<'a> {
    counts: &'a mut [u64; BLOCK_BINS],
    lanes: &'a mut [[u64; 2]; BLOCK_GROUPS],
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

impl BlockSums<'_> {
    /// Adds the counts of a group.
    #[inline]
    pub(crate) fn add(&mut self, group: usize, counts: &[u64; GROUP_BINS]) {
        let sums = &mut self.counts[group * GROUP_BINS..][..GROUP_BINS];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum = sum.wrapping_add(*count);
        }
    }

    /// Adds the counts of a group that are the bytes of a word, the first one in the lowest byte.
    #[inline]
    pub(crate) fn add_bytes(&mut self, group: usize, word: u64) {
        let [even, odd] = &mut self.lanes[group];
        *even = even.wrapping_add(word & EVEN_BYTES);
        *odd = odd.wrapping_add(word >> 8 & EVEN_BYTES);
    }
}

impl Collector {
    fn begin(&mut self, config: HistogramConfig) {
        self.clear();
        let blocks = Layout::of(config).positions().div_ceil(BLOCK_BINS);
        self.counts.resize(blocks, [0; BLOCK_BINS]);
        self.lanes.resize(blocks, [[0; 2]; BLOCK_GROUPS]);
    }

    /// Empties the collector.
    pub(crate) fn clear(&mut self) {
        self.counts[self.first..self.end].fill([0; BLOCK_BINS]);
        self.lanes[self.first..self.end].fill([[0; 2]; BLOCK_GROUPS]);
        (self.first, self.end, self.lists) = (0, 0, 0);
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
    pub(crate) fn add(&mut self, group: &Group) {
        if let Some(mut sums) = self.block(group.index / BLOCK_GROUPS) {
            sums.add(group.index % BLOCK_GROUPS, &group.counts);
        }
    }

    /// Begins to add the bytes of another list, which has each group once.
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
        let used = self.first..self.end;
        for (counts, lanes) in self.counts[used.clone()].iter_mut().zip(&mut self.lanes[used]) {
            for (counts, lanes) in counts.chunks_exact_mut(GROUP_BINS).zip(lanes) {
                for (bin, count) in counts.iter_mut().enumerate() {
                    *count = count.wrapping_add(lanes[bin % 2] >> (bin / 2 * 16) & 0xffff);
                }
                *lanes = [0; 2];
            }
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
        let (first, bins) =
            (self.first * BLOCK_BINS, self.counts[self.first..self.end].as_flattened());
        into.set(config, first, bins, totals.rt_nanos, totals.min_rt, totals.max_rt);
    }
}
