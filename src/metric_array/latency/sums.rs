//! Sums of lists of bins, to which lists are added and from which they are subtracted.

use std::ops::Range;

use super::block::{BLOCK_BINS, BLOCK_GROUPS};
use super::group::GROUP_BINS;
use super::sealed::SealedBins;
use super::words::{Header, ListWords, next_group};
use crate::histogram::HistogramConfig;

/// The sums of bins over lists. They wrap around, so a subtraction undoes an addition exactly.
#[derive(Debug, Default)]
pub(crate) struct BinSums {
    /// The sums by position, in blocks. Blocks outside of `used` are zeros.
    blocks: Vec<[u64; BLOCK_BINS]>,
    used: Range<usize>,
}

/// A private copy of a list of bins.
#[derive(Debug, Default)]
pub(crate) struct CopiedBins(Vec<u32>);

impl CopiedBins {
    /// Replaces the contents by a list, or by no bins.
    pub(crate) fn replace(&mut self, list: Option<&SealedBins>) {
        self.0.clear();
        if let Some(list) = list {
            list.copy_words(&mut self.0);
            // A slot may have had a long list once.
            self.0.shrink_to(2 * self.0.len());
        }
    }

    /// Returns the number of words for which the copy has memory.
    pub(crate) const fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl BinSums {
    /// Creates sums of zero for the bins of that scale.
    pub(crate) fn new(config: HistogramConfig) -> Self {
        let blocks = config.layout().positions().div_ceil(BLOCK_BINS);
        Self { blocks: vec![[0; BLOCK_BINS]; blocks], used: 0..0 }
    }

    pub(crate) fn add(&mut self, list: &CopiedBins) {
        self.apply(&list.0, u64::wrapping_add);
    }

    pub(crate) fn subtract(&mut self, list: &CopiedBins) {
        self.apply(&list.0, u64::wrapping_sub);
    }

    fn apply(&mut self, mut words: &[u32], op: impl Fn(u64, u64) -> u64) {
        let Self { blocks, used } = self;
        while let Some(Header { block, mut widths }) = words.header() {
            // `None` only if this is no list.
            let Some(sums) = blocks.get_mut(block) else { return };
            *used = if used.start >= used.end {
                block..block + 1
            } else {
                used.start.min(block)..used.end.max(block + 1)
            };
            while let Some((group, width)) = next_group(&mut widths) {
                let counts = words.lanes(width);
                let sums = &mut sums[group % BLOCK_GROUPS * GROUP_BINS..][..GROUP_BINS];
                for (sum, count) in sums.iter_mut().zip(counts) {
                    *sum = op(*sum, count);
                }
            }
        }
    }

    /// Leaves blocks that have become empty out of [`used`](Self::used).
    pub(crate) fn trim(&mut self) {
        let Self { blocks, used } = self;
        let is_empty = |index: usize| blocks[index].iter().all(|&count| count == 0);
        while used.start < used.end && is_empty(used.start) {
            used.start += 1;
        }
        while used.start < used.end && is_empty(used.end - 1) {
            used.end -= 1;
        }
    }

    /// Returns the index of the first block that may have counts, and the sums of the blocks from
    /// there to the last one that may have counts.
    pub(super) fn used(&self) -> (usize, &[[u64; BLOCK_BINS]]) {
        (self.used.start, &self.blocks[self.used.clone()])
    }
}

impl ListWords for &[u32] {
    #[inline]
    fn next_word(&mut self) -> Option<u32> {
        let (word, rest) = self.split_first()?;
        *self = rest;
        Some(*word)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::metric_array::latency::source::BinSource;

    #[test]
    fn copy_of_a_short_list_keeps_no_memory_of_a_long_one() {
        let list = |groups: usize| {
            let (mut list, mut other) = (SealedBins::new(), SealedBins::new());
            for group in 0..groups {
                other.fill(BinSource::One(group * GROUP_BINS), Some(&list));
                (list, other) = (other, list);
            }
            list
        };
        let mut copy = CopiedBins::default();
        copy.replace(Some(&list(800)));
        assert!(copy.capacity() >= 900, "{}", copy.capacity());
        copy.replace(Some(&list(8)));
        assert!(copy.capacity() <= 20, "{}", copy.capacity());
    }
}
