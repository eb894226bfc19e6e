//! Reading the words of a list of bins.

use super::block::GROUP_INDEX;
use super::group::GROUP_BINS;

/// The number of bits of a width in a header.
pub(super) const WIDTH_BITS: u32 = 3;

/// The widths of the groups in a header.
pub(super) const WIDTHS: u32 = (1 << 24) - 1;

/// The widest lanes, of 64 bits.
pub(super) const WIDEST: u32 = 5;

/// Returns the number of bits in a lane.
pub(super) const fn lane_bits(width: u32) -> usize {
    2 << width
}

/// The words of a list, from its beginning. [`SealedBins`](super::SealedBins) has the format.
pub(super) trait ListWords {
    /// Returns the next word; `None` if there is none.
    fn next_word(&mut self) -> Option<u32>;

    /// Returns the next header; `None` at the end of the list.
    #[inline]
    fn header(&mut self) -> Option<Header> {
        let header = self.next_word()?;
        let widths = header & WIDTHS;
        (widths != 0).then_some(Header { block: (header >> 24) as usize, widths })
    }

    /// Returns the counts of a group, whose lanes of that width are the next words.
    fn lanes(&mut self, width: u32) -> [u64; GROUP_BINS] {
        // The words after the end are of no list.
        let mut next = || u64::from(self.next_word().unwrap_or(0));
        let mut counts = [0; GROUP_BINS];
        if width == 1 {
            let word = next();
            return std::array::from_fn(|bin| word >> (4 * bin) & 0xf);
        }
        // Other widths are not written.
        let bits = lane_bits(width.clamp(2, WIDEST));
        for counts in counts.chunks_exact_mut(64 / bits) {
            let word = next() | next() << 32;
            for (lane, count) in counts.iter_mut().enumerate() {
                *count = word >> (lane * bits) & (u64::MAX >> (64 - bits));
            }
        }
        counts
    }
}

/// The start of a block in a list.
pub(super) struct Header {
    pub(super) block: usize,
    /// The widths of the groups that were not visited yet, the next group's lowest. The bits of the
    /// others are 0.
    pub(super) widths: u32,
}

/// Returns the next group that has counts, and its width. Removes its width from `widths`.
#[inline]
pub(super) fn next_group(widths: &mut u32) -> Option<(usize, u32)> {
    let group = (*widths != 0).then(|| widths.trailing_zeros() / WIDTH_BITS)?;
    let width = *widths >> (WIDTH_BITS * group) & 7;
    *widths &= !(7 << (WIDTH_BITS * group));
    // The mask changes nothing: there are eight widths. It spares checks of bounds.
    Some((group as usize & GROUP_INDEX, width))
}
