//! The counts of neighbouring bins.

use std::iter::repeat_n;

/// The counts of a range of bins, by index. The first and the last count are above zero. Counts
/// saturate at `u64::MAX`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BinCounts {
    /// The index of the first count; 0 if there is none.
    first: i32,
    counts: Vec<u64>,
}

impl Clone for BinCounts {
    fn clone(&self) -> Self {
        Self { first: self.first, counts: self.counts.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        let Self { first, counts } = source;
        self.counts.clone_from(counts);
        self.first = *first;
    }
}

impl BinCounts {
    pub(super) const fn new() -> Self {
        Self { first: 0, counts: Vec::new() }
    }

    /// Creates counts of zero for the bins from the first to the last, or for the first if the last
    /// is before it. The caller [sets](Self::set) the count of the first and the last one.
    pub(super) fn zeros(first: i32, last: i32) -> Self {
        let bins = first.abs_diff(last.max(first)) as usize + 1;
        Self { first, counts: vec![0; bins] }
    }

    /// Sets the count of a bin that is zero, and not before the first bin, to one above zero. A bin
    /// after the last one is left out.
    pub(super) fn set(&mut self, index: i32, count: u64) {
        if let Some(present) = self.counts.get_mut(self.first.abs_diff(index) as usize) {
            *present = count;
        }
    }

    /// Removes all counts. Keeps the memory.
    pub(super) fn clear(&mut self) {
        self.first = 0;
        self.counts.clear();
    }

    /// Returns the number of bins for which there is memory.
    #[cfg(all(test, not(loom)))]
    pub(super) fn capacity(&self) -> usize {
        self.counts.capacity()
    }

    /// Returns the indices of the first and the last bin; `None` if all are empty.
    pub(super) fn ends(&self) -> Option<(i32, i32)> {
        let beyond_first = i32::try_from(self.counts.len().checked_sub(1)?).ok()?;
        Some((self.first, self.first + beyond_first))
    }

    /// Returns the bins that are not empty and their counts, by ascending index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i32, u64)> {
        (self.first..).zip(self.counts.iter().copied()).filter(|&(_, count)| count > 0)
    }

    /// Returns the sum of the counts.
    pub(super) fn sum(&self) -> u64 {
        // Without a condition for each bin: counts below 2⁴⁸ of fewer than 2¹⁶ bins do not
        // overflow.
        let (sum, bits) = self
            .counts
            .iter()
            .fold((0_u64, 0), |(sum, bits), &count| (sum.wrapping_add(count), bits | count));
        if bits >> 48 == 0 && self.counts.len() >> 16 == 0 {
            return sum;
        }
        self.counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Returns a walk from the first bin, whose counts have that sum.
    pub(super) fn walk(&self, sum: u64) -> Walk<'_> {
        Walk { counts: self, next: 0, reached: 0, is_bounded: sum < u64::MAX }
    }

    /// Adds a count above zero to the bin with that index.
    pub(super) fn add(&mut self, index: i32, count: u64) {
        self.cover(index, index);
        self.add_within(index, count);
    }

    /// Adds the counts of other bins, which are finer by that number of steps.
    pub(super) fn merge(&mut self, finer: &Self, steps: u32) {
        let Some((first, last)) = finer.ends() else {
            return;
        };
        if steps == 0 {
            self.cover(first, last);
            // Without a condition for each bin.
            let sums = &mut self.counts[self.first.abs_diff(first) as usize..];
            for (sum, &count) in sums.iter_mut().zip(&finer.counts) {
                *sum = sum.saturating_add(count);
            }
            return;
        }
        self.merge_within((first, last), finer.iter(), steps);
    }

    /// Adds counts of bins that are finer by that number of steps, and from the first to the last
    /// of `ends`. Those of these two are not zero.
    pub(super) fn merge_within(
        &mut self,
        (first, last): (i32, i32),
        finer: impl Iterator<Item = (i32, u64)>,
        steps: u32,
    ) {
        self.cover(first >> steps, last >> steps);
        for (index, count) in finer {
            self.add_within(index >> steps, count);
        }
    }

    /// Makes room for the counts of the bins from one index to another, both of which are about to
    /// be counted.
    fn cover(&mut self, low: i32, high: i32) {
        let (first, last) = self.ends().unwrap_or((low, low));
        let missing = first.abs_diff(low.min(first)) as usize;
        if missing > 0 {
            self.counts.splice(0..0, repeat_n(0, missing));
        }
        self.first = first.min(low);
        let bins = self.first.abs_diff(last.max(high)) as usize + 1;
        if bins > self.counts.len() {
            self.counts.resize(bins, 0);
        }
    }

    fn add_within(&mut self, index: i32, count: u64) {
        let sum = &mut self.counts[self.first.abs_diff(index) as usize];
        *sum = sum.saturating_add(count);
    }

    /// Replaces all counts by those of the bins from the index `first` on. Allocates nothing if the
    /// memory suffices for the bins from the first to the last that is not empty.
    pub(super) fn replace(&mut self, first: i32, counts: &[u64]) {
        self.clear();
        let is_above_zero = |&count: &u64| count > 0;
        let Some(start) = counts.iter().position(is_above_zero) else {
            return;
        };
        let end = counts.iter().rposition(is_above_zero).map_or(start, |last| last + 1);
        self.first = first.saturating_add_unsigned(u32::try_from(start).unwrap_or(u32::MAX));
        self.counts.extend_from_slice(&counts[start..end]);
    }

    /// Merges each 2^`steps` neighbouring bins into one, as at a scale that is coarser by that
    /// number of steps.
    pub(super) fn coarsen(&mut self, steps: u32) {
        let Some((first, last)) = self.ends().filter(|_| steps > 0) else {
            return;
        };
        self.first = first >> steps;
        for index in first..=last {
            let count = std::mem::take(&mut self.counts[first.abs_diff(index) as usize]);
            // Never a later one, and so not one that is yet to be moved.
            self.add_within(index >> steps, count);
        }
        self.counts.truncate(self.first.abs_diff(last >> steps) as usize + 1);
    }
}

/// A walk over the bins, from the first.
pub(super) struct Walk<'a> {
    counts: &'a BinCounts,
    /// The offset of the next bin.
    next: usize,
    /// The sum of the counts before it.
    reached: u64,
    /// Whether no sum of counts saturates.
    is_bounded: bool,
}

/// The number of bins that a walk adds up at once.
const STRIDE: usize = 8;

impl Walk<'_> {
    /// Returns the index of the bin with the count of that rank, from 1. Ranks of later calls must
    /// not be lower.
    pub(super) fn advance(&mut self, rank: u64) -> i32 {
        let BinCounts { first, counts } = self.counts;
        if self.reached < rank && self.is_bounded {
            // Whole strides without a condition for each bin.
            while let Some(bins) = counts.get(self.next..).and_then(<[_]>::first_chunk::<STRIDE>) {
                let reached = self.reached + bins.iter().sum::<u64>();
                if reached >= rank {
                    break;
                }
                (self.reached, self.next) = (reached, self.next + STRIDE);
            }
        }
        while self.reached < rank {
            let Some(count) = counts.get(self.next) else { break };
            (self.reached, self.next) = (self.reached.saturating_add(*count), self.next + 1);
        }
        let last = u32::try_from(self.next.saturating_sub(1)).unwrap_or(u32::MAX);
        first.saturating_add_unsigned(last)
    }
}
