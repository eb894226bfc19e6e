//! 64 adjacent bins of one recorder.

use super::group::{GROUP_BINS, VisitGroup};
use crate::sync::{AtomicI64, AtomicU64, Ordering, unmodelled_word};

/// The number of bins in a block: one bit each of `touched`.
pub(crate) const BLOCK_BINS: usize = 64;

/// The number of groups in a block.
pub(crate) const BLOCK_GROUPS: usize = BLOCK_BINS / GROUP_BINS;

/// The bits of a group's index in its block.
pub(crate) const GROUP_INDEX: usize = BLOCK_GROUPS - 1;

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

/// Creates the words of a block. A model sees the first one: it records response times of the first
/// bin of a block.
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

    /// Returns the bins that were counted in since the cell was bound.
    pub(crate) fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }

    /// Loads a word of each line that [`for_each_bucket_group`](Self::for_each_bucket_group) loads.
    pub(crate) fn load_ahead(&self) -> u64 {
        let (mut bins, mut loaded) = (self.touched(), 0);
        while bins != 0 {
            let bin = bins.trailing_zeros() as usize;
            loaded ^= get(&self.counts[bin]) ^ get(&self.before[bin]);
            bins &= !(GROUP_MASK << (bin / GROUP_BINS * GROUP_BINS));
        }
        loaded
    }

    /// Visits the groups of this block, the block with that index, that were counted in since the
    /// cell was bound.
    #[inline]
    pub(crate) fn for_each_bucket_group(
        &self,
        block: usize,
        visit: &mut (impl VisitGroup + ?Sized),
    ) {
        let touched = self.touched.load(Ordering::Relaxed);
        // Both are of the bucket if the read is valid. Otherwise the difference may wrap around. It
        // is 0 for a bin that was not counted in.
        let since = |bin: usize| get(&self.counts[bin]).wrapping_sub(get(&self.before[bin]));
        for_each_group(block, touched, since, visit);
    }

    /// Visits the groups of this block, the block with that index, that have counts since the cell
    /// was claimed.
    pub(crate) fn for_each_lifetime_group(
        &self,
        block: usize,
        visit: &mut (impl VisitGroup + ?Sized),
    ) {
        for_each_group(block, u64::MAX, |bin| get(&self.counts[bin]), visit);
    }

    /// Begins to count another bucket, as the owner. The caller has a release fence before this.
    pub(crate) fn begin_bucket(&self) {
        for_each_bit(self.touched.load(Ordering::Relaxed), |bin| {
            let count = self.counts[bin].load(Ordering::Relaxed);
            self.before[bin].store(count, Ordering::Relaxed);
        });
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

/// Visits the groups of a block that have one of `bins`, with the counts of their bins.
#[inline]
fn for_each_group(
    block: usize,
    mut bins: u64,
    count: impl Fn(usize) -> u64,
    visit: &mut (impl VisitGroup + ?Sized),
) {
    while bins != 0 {
        let group = bins.trailing_zeros() as usize / GROUP_BINS;
        let first = group * GROUP_BINS;
        let in_group = bins >> first & GROUP_MASK;
        let mut counts = [0; GROUP_BINS];
        if in_group.is_power_of_two() {
            let bin = in_group.trailing_zeros() as usize % GROUP_BINS;
            counts[bin] = count(first + bin);
        } else {
            // The other bins too, whose counts are 0: that takes less time than finding them.
            for (bin, counted) in counts.iter_mut().enumerate() {
                *counted = count(first + bin);
            }
        }
        bins &= !(GROUP_MASK << first);
        visit(block * BLOCK_GROUPS + group, &counts);
    }
}

/// The bits of the first group of a block.
const GROUP_MASK: u64 = (1 << GROUP_BINS) - 1;

/// Visits the positions of the bits that are set, from the lowest.
#[inline]
pub(super) fn for_each_bit(mut bits: u64, mut visit: impl FnMut(usize)) {
    while bits != 0 {
        visit(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}
