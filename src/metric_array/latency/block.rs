//! 64 adjacent bins of one recorder.

use super::group::{GROUP_BINS, Group};
use crate::sync::{AtomicI64, AtomicU64, Ordering, unmodelled_word};

/// The number of bins in a block: one bit each of `touched`.
pub(crate) const BLOCK_BINS: usize = 64;

/// The counters of 64 adjacent bins, which one thread at a time writes.
//
// Aligned to cache lines, which blocks of different threads then do not share.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct BinBlock {
    /// The bins that were counted in since the cell was bound, a bit for each.
    touched: AtomicU64,
    /// The counts since the cell was claimed.
    counts: [AtomicI64; BLOCK_BINS],
    /// The counts at the time when the cell was bound.
    before: [AtomicI64; BLOCK_BINS],
}

/// Creates the words of a block. A model sees the first one: it records response times of the first bin of a block.
fn words() -> [AtomicI64; BLOCK_BINS] {
    std::array::from_fn(|bin| if bin == 0 { AtomicI64::new(0) } else { unmodelled_word(0) })
}

impl BinBlock {
    pub(crate) fn new() -> Self {
        Self { touched: AtomicU64::new(0), counts: words(), before: words() }
    }

    /// Returns whether the bin was counted in since the cell was bound, for the owner only.
    #[inline]
    pub(crate) fn is_touched(&self, bin: usize) -> bool {
        self.touched.load(Ordering::Relaxed) & 1 << bin != 0
    }

    pub(crate) fn touch(&self, bin: usize) {
        let touched = self.touched.load(Ordering::Relaxed);
        // Relaxed: the sum of the response times is released after this.
        self.touched.store(touched | 1 << bin, Ordering::Relaxed);
    }

    /// Counts one response time, as the owner.
    #[inline]
    pub(crate) fn count(&self, bin: usize) {
        let count = &self.counts[bin % BLOCK_BINS];
        // Release: pairs with the acquire fence of a reader. The extremes were recorded before.
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Returns the groups of this block, the block with that index, that were counted in since the cell was bound.
    #[inline]
    pub(crate) fn bucket_groups(&self, block: usize) -> impl Iterator<Item = Group> {
        let touched = self.touched.load(Ordering::Relaxed);
        // Both are of the bucket if the read is valid. Otherwise the difference may wrap around.
        let since = |bin: usize| get(&self.counts[bin]).wrapping_sub(get(&self.before[bin]));
        groups_of(block, touched, since)
    }

    /// Returns the groups of this block, the block with that index, that have counts since the cell was claimed.
    pub(crate) fn lifetime_groups(&self, block: usize) -> impl Iterator<Item = Group> {
        groups_of(block, u64::MAX, |bin| get(&self.counts[bin]))
    }

    /// Begins to count another bucket, as the owner. The caller has a release fence before this.
    pub(crate) fn begin_bucket(&self) {
        for bin in bits_of(self.touched.load(Ordering::Relaxed)) {
            let count = self.counts[bin].load(Ordering::Relaxed);
            self.before[bin].store(count, Ordering::Relaxed);
        }
        self.touched.store(0, Ordering::Relaxed);
    }

    /// Sets all counts to 0, as the owner. The caller has a release fence before this.
    pub(crate) fn reset(&self) {
        for word in self.counts.iter().chain(&self.before) {
            word.store(0, Ordering::Relaxed);
        }
        self.touched.store(0, Ordering::Relaxed);
    }
}

#[inline]
fn get(word: &AtomicI64) -> u64 {
    word.load(Ordering::Relaxed).cast_unsigned()
}

/// Returns the groups of a block in which a count of `bins` is not 0, in ascending order.
#[inline]
fn groups_of(block: usize, bins: u64, count: impl Fn(usize) -> u64) -> impl Iterator<Item = Group> {
    (0..BLOCK_BINS / GROUP_BINS).filter_map(move |group| {
        let first = group * GROUP_BINS;
        let mut counts = [0; GROUP_BINS];
        for bin in bits_of(bins >> first & GROUP_MASK) {
            counts[bin] = count(first + bin);
        }
        let index = block * (BLOCK_BINS / GROUP_BINS) + group;
        (counts != [0; GROUP_BINS]).then_some(Group { index, counts })
    })
}

/// The bits of the first group of a block.
const GROUP_MASK: u64 = (1 << GROUP_BINS) - 1;

/// Returns the positions of the bits that are set, from the lowest.
#[inline]
pub(super) fn bits_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(bit)
    })
}
