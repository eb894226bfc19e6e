//! The bins of a sealed bucket, in a sparse form.

use super::block::BLOCK_BINS;
use super::group::{GROUP_BINS, Group};
use crate::sync::{Ordering, Payload, RacyOnce, payload, seen_payload};

/// The number of words in a segment: with the link, a segment is a cache line.
const SEGMENT_WORDS: usize = 7;

/// The groups in a block.
const BLOCK_GROUPS: usize = BLOCK_BINS / GROUP_BINS;

/// The bins of a bucket that have counts, in a list of words that only grows.
///
/// A block that has counts is a header and the counts of its groups. The counts of a group are packed into lanes of one
/// width, the narrowest that has room for each of them:
///
/// ```text
/// header: { block + 1: 32, width of group 7: 4, … , width of group 0: 4 }     0 is the end of the list
/// width:  0 for a group without counts; or 1, 2, 3, 4 for lanes of 8, 16, 32, 64 bits, in 1, 2, 4, 8 words
/// ```
///
/// The list belongs to a row: a publisher fills it together with a private row, and a reader validates what it has
/// read. A reader that reads it while it is filled again may find any mixture of words. So reading ends at a header that is no
/// header, and counts of bins that there are not are left to the caller to discard.
#[derive(Debug)]
pub(crate) struct SealedBins {
    first: Segment,
}

#[derive(Debug)]
struct Segment {
    words: [Payload; SEGMENT_WORDS],
    next: RacyOnce<Self>,
}

impl Segment {
    fn new() -> Self {
        // A model sees the word after the first header.
        let words =
            std::array::from_fn(|word| if word == 1 { seen_payload(0) } else { payload(0) });
        Self { words, next: RacyOnce::new() }
    }
}

impl SealedBins {
    pub(crate) fn new() -> Self {
        Self { first: Segment::new() }
    }

    /// Replaces the contents by groups in ascending order, while no other thread writes.
    pub(crate) fn fill(&self, groups: impl Iterator<Item = Group>) {
        let mut writer = Writer { segment: &self.first, at: 0, header: None };
        groups.for_each(|group| writer.push_group(&group));
        writer.finish();
    }

    /// Returns the groups, in ascending order.
    pub(crate) fn groups(&self) -> Groups<'_> {
        Groups { words: Words { segment: Some(&self.first), at: 0 }, block: 0, widths: 0, group: 0 }
    }
}

/// Appends words to a list from its beginning.
struct Writer<'a> {
    segment: &'a Segment,
    at: usize,
    /// The current header, and the word that it is for.
    header: Option<(&'a Payload, u64)>,
}

impl<'a> Writer<'a> {
    fn push_group(&mut self, group: &Group) {
        let (block, in_block) = (group.index / BLOCK_GROUPS, group.index % BLOCK_GROUPS);
        let block = (block as u64 + 1) << 32;
        let width = width_of(&group.counts);
        // A header without a group would end the list.
        if width == 0 {
            return;
        }
        let (place, header) = match self.header.take() {
            Some((place, header)) if header >> 32 == block >> 32 => (place, header),
            other => {
                self.header = other;
                self.store_header();
                (self.reserve(), block)
            }
        };
        self.header = Some((place, header | u64::from(width) << (4 * in_block)));
        self.push_lanes(&group.counts, width);
    }

    fn push_lanes(&mut self, counts: &[u64; GROUP_BINS], width: u32) {
        let (lanes, bits) = lanes_and_bits(width);
        for counts in counts.chunks_exact(lanes) {
            let pack = |word: u64, (lane, count): (usize, &u64)| word | count << (lane * bits);
            let word = counts.iter().enumerate().fold(0, pack);
            self.reserve().store(word, Ordering::Relaxed);
        }
    }

    /// Returns the place of the next word.
    fn reserve(&mut self) -> &'a Payload {
        if self.at == SEGMENT_WORDS {
            self.segment = self.segment.next.get_or_init(Segment::new);
            self.at = 0;
        }
        self.at += 1;
        &self.segment.words[self.at - 1]
    }

    fn store_header(&mut self) {
        if let Some((place, header)) = self.header.take() {
            place.store(header, Ordering::Relaxed);
        }
    }

    fn finish(&mut self) {
        self.store_header();
        let end = match self.segment.words.get(self.at) {
            Some(end) => Some(end),
            None => self.segment.next.get().map(|next| &next.words[0]),
        };
        if let Some(end) = end {
            end.store(0, Ordering::Relaxed);
        }
    }
}

/// Returns the narrowest width that has room for each of the counts.
fn width_of(counts: &[u64; GROUP_BINS]) -> u32 {
    let all = counts.iter().fold(0, |all, count| all | count);
    match all {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 3,
        _ => 4,
    }
}

/// Returns the number of lanes in a word, and the number of bits in a lane.
const fn lanes_and_bits(width: u32) -> (usize, usize) {
    (16 >> width, 4 << width)
}

/// The words of a list, from its beginning.
struct Words<'a> {
    segment: Option<&'a Segment>,
    at: usize,
}

impl Words<'_> {
    #[inline]
    fn next(&mut self) -> Option<u64> {
        let mut segment = self.segment?;
        if self.at == SEGMENT_WORDS {
            // Acquire, in `get`: pairs with the Release with which the segment was made.
            self.segment = segment.next.get();
            segment = self.segment?;
            self.at = 0;
        }
        self.at += 1;
        Some(segment.words[self.at - 1].load(Ordering::Relaxed))
    }
}

/// The groups of a list.
pub(crate) struct Groups<'a> {
    words: Words<'a>,
    /// The current block.
    block: usize,
    /// The widths of the groups of the current block that were not returned yet.
    widths: u32,
    /// The next group in the current block.
    group: usize,
}

impl Iterator for Groups<'_> {
    type Item = Group;

    #[inline]
    fn next(&mut self) -> Option<Group> {
        if self.widths == 0 {
            let header = self.words.next()?;
            self.block = (header >> 32).checked_sub(1)? as usize;
            self.widths = header as u32;
            self.group = 0;
            if self.widths == 0 {
                return None;
            }
        }
        let absent = self.widths.trailing_zeros() / 4;
        self.widths >>= 4 * absent;
        let width = self.widths & 0xf;
        self.widths = self.widths.checked_shr(4).unwrap_or(0);
        let group = self.group + absent as usize;
        self.group = group + 1;
        if width > 4 {
            return None;
        }
        let mut counts = [0; GROUP_BINS];
        if width == 1 {
            counts = self.words.next()?.to_le_bytes().map(u64::from);
        } else {
            let (lanes, bits) = lanes_and_bits(width);
            for counts in counts.chunks_exact_mut(lanes) {
                let word = self.words.next()?;
                for (lane, count) in counts.iter_mut().enumerate() {
                    *count = word >> (lane * bits) & (u64::MAX >> (64 - bits));
                }
            }
        }
        Some(Group { index: self.block.wrapping_mul(BLOCK_GROUPS) + group, counts })
    }
}
