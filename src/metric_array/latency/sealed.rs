//! The bins of a sealed bucket, in a sparse form.

use super::block::BLOCK_GROUPS;
use super::collect::Collector;
use super::group::{BinGroup, GROUP_BINS};
use super::source::BinSource;
use super::words::{Header, ListWords, WIDEST, WIDTH_BITS, WIDTHS, lane_bits, next_group};
use crate::sync::{Ordering, Payload32, RacyOnce, payload_32, seen_payload_32};

/// The number of words in a segment: with the link, a segment is a cache line.
const SEGMENT_WORDS: usize = 14;

/// The bins of a bucket that have counts, in a list of words that only grows.
///
/// A block that has counts is a header and the counts of its groups. The counts of a group are
/// packed into lanes of one width, the narrowest that has room for each of them:
///
/// ```text
/// header: { block: 8, width of group 7: 3, … , width of group 0: 3 }
///         0 in all widths is the end of the list
/// width:  0 for a group without counts; or 1, 2, 3, 4, 5 for lanes of 4, 8, 16, 32, 64 bits,
///         in 1, 2, 4, 8, 16 words
/// ```
///
/// The list belongs to a row: a publisher fills it together with a private row, and a reader
/// validates what it has read. A reader that reads it while it is filled again may find any mixture
/// of words, and what it reads is discarded. The read must terminate and must not panic.
#[derive(Debug)]
pub(crate) struct SealedBins {
    first: Segment,
}

#[derive(Debug)]
struct Segment {
    words: [Payload32; SEGMENT_WORDS],
    next: RacyOnce<Self>,
}

impl Segment {
    fn new() -> Self {
        // A model sees the word after the first header.
        let new = |word| if word == 1 { seen_payload_32(0) } else { payload_32(0) };
        Self { words: std::array::from_fn(new), next: RacyOnce::new() }
    }
}

impl SealedBins {
    pub(crate) fn new() -> Self {
        Self { first: Segment::new() }
    }

    /// Returns the maximum number of bytes of a list of `blocks` blocks.
    pub(crate) const fn max_bytes(blocks: usize) -> usize {
        let words = blocks * (1 + BLOCK_GROUPS * GROUP_BINS * lane_bits(WIDEST) / 32);
        words.div_ceil(SEGMENT_WORDS) * size_of::<Segment>()
    }

    /// Replaces the contents by the sum of `source` and `same`, while no other thread writes.
    #[inline]
    pub(crate) fn fill(&self, source: BinSource<'_>, same: Option<&Self>) {
        match (source, same) {
            // A bucket of one thread, the usual case, without a call for each group.
            (BinSource::Bucket(recorder), None) => {
                let mut writer = Writer::new(&self.first);
                recorder.for_each_bucket_group(|index, counts| writer.push_group(index, counts));
                writer.finish();
            }
            (source, same) => self.fill_with_sum(|visit| source.for_each_group(visit), same),
        }
    }

    /// Replaces the contents by the sum of `same` and the groups that `for_each_group` visits.
    #[inline(never)]
    fn fill_with_sum(
        &self,
        for_each_group: impl FnOnce(&mut dyn FnMut(usize, &[u64; GROUP_BINS])),
        same: Option<&Self>,
    ) {
        let mut writer = Writer::new(&self.first);
        // `flat_map` does not ask `groups` again after its end: words of an earlier, longer list
        // may follow it.
        let mut others = same.into_iter().flat_map(Self::groups);
        let mut other = others.next();
        for_each_group(&mut |index, counts| {
            while let Some(before) = other.filter(|it| it.index < index) {
                writer.push_group(before.index, &before.counts);
                other = others.next();
            }
            match other.filter(|it| it.index == index) {
                None => writer.push_group(index, counts),
                Some(mut sum) => {
                    sum.add(counts);
                    writer.push_group(index, &sum.counts);
                    other = others.next();
                }
            }
        });
        for BinGroup { index, counts } in other.into_iter().chain(others) {
            writer.push_group(index, &counts);
        }
        writer.finish();
    }

    /// Returns the first word.
    pub(crate) fn first_word(&self) -> u32 {
        self.first.words[0].load(Ordering::Relaxed)
    }

    /// Adds the counts to a collector.
    pub(crate) fn add_to(&self, collector: &mut Collector) {
        collector.begin_list();
        let mut words = Words { segment: Some(&self.first), at: 0 };
        while let Some(Header { block, mut widths }) = words.header() {
            // `None` only if this is no list.
            let Some(mut sums) = collector.block(block) else { return };
            while let Some((group, width)) = next_group(&mut widths) {
                let word = if width == 1 { words.next_word() } else { None };
                if let Some(word) = word {
                    sums.add_nibbles(group, word);
                } else {
                    sums.add(group, &words.lanes(width));
                }
            }
        }
    }

    /// Replaces `into` by the words of the list.
    pub(super) fn copy_words(&self, into: &mut Vec<u32>) {
        into.clear();
        let mut words = Copying { words: Words { segment: Some(&self.first), at: 0 }, into };
        while let Some(Header { mut widths, .. }) = words.header() {
            while let Some((_, width)) = next_group(&mut widths) {
                let _ = words.lanes(width);
            }
        }
    }

    fn groups(&self) -> Groups<'_> {
        let words = Words { segment: Some(&self.first), at: 0 };
        Groups { words, header: Header { block: 0, widths: 0 } }
    }
}

/// Appends words to a list from its beginning.
struct Writer<'a> {
    segment: &'a Segment,
    at: usize,
    /// The place of the current header.
    place: &'a Payload32,
    /// The current header, with the widths of the groups so far; 0 if there is none.
    header: u32,
}

impl<'a> Writer<'a> {
    fn new(first: &'a Segment) -> Self {
        Self { segment: first, at: 0, place: &first.words[0], header: 0 }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "otherwise each group goes through memory")]
    fn push_group(&mut self, index: usize, counts: &[u64; GROUP_BINS]) {
        let width = width_of(counts);
        // A header without a group would end the list.
        if width == 0 {
            return;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 249 blocks")]
        let block = (index / BLOCK_GROUPS) as u32;
        if self.header == 0 || self.header & !WIDTHS != block << 24 {
            self.store_header();
            self.place = self.reserve();
            self.header = block << 24;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 8")]
        let in_block = (index % BLOCK_GROUPS) as u32;
        self.header |= width << (WIDTH_BITS * in_block);
        if width == 1 {
            // One word, which is the usual case.
            #[expect(clippy::cast_possible_truncation, reason = "each count is below 16")]
            let word = counts.iter().rev().fold(0, |word, count| word << 4 | *count as u32);
            self.push(word);
        } else {
            self.push_lanes(counts, width);
        }
    }

    #[inline(never)]
    fn push_lanes(&mut self, counts: &[u64; GROUP_BINS], width: u32) {
        let bits = lane_bits(width);
        // The lanes of one word of 64 bits, as two words.
        for counts in counts.chunks_exact(64 / bits) {
            let lanes = counts.iter().enumerate();
            let word = lanes.fold(0, |word, (lane, count)| word | count << (lane * bits));
            #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
            for half in [word as u32, (word >> 32) as u32] {
                self.push(half);
            }
        }
    }

    #[inline]
    fn push(&mut self, word: u32) {
        self.reserve().store(word, Ordering::Relaxed);
    }

    /// Returns the place of the next word.
    #[inline]
    fn reserve(&mut self) -> &'a Payload32 {
        if self.at == SEGMENT_WORDS {
            self.segment = self.segment.next.get_or_init(Segment::new);
            self.at = 0;
        }
        self.at += 1;
        &self.segment.words[self.at - 1]
    }

    fn store_header(&self) {
        if self.header != 0 {
            self.place.store(self.header, Ordering::Relaxed);
        }
    }

    fn finish(&self) {
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
#[inline]
fn width_of(counts: &[u64; GROUP_BINS]) -> u32 {
    match counts.iter().fold(0, |all, count| all | count) {
        0 => 0,
        1..=0xf => 1,
        0x10..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 4,
        _ => WIDEST,
    }
}

/// The words of a list of a row.
struct Words<'a> {
    segment: Option<&'a Segment>,
    at: usize,
}

impl ListWords for Words<'_> {
    #[inline]
    fn next_word(&mut self) -> Option<u32> {
        let mut segment = self.segment?;
        if self.at >= SEGMENT_WORDS {
            // Acquire, in `get`: pairs with the Release with which the segment was made.
            self.segment = segment.next.get();
            segment = self.segment?;
            self.at = 0;
        }
        let word = segment.words[self.at].load(Ordering::Relaxed);
        self.at += 1;
        Some(word)
    }
}

/// Words that are copied while they are read.
struct Copying<'a> {
    words: Words<'a>,
    into: &'a mut Vec<u32>,
}

impl ListWords for Copying<'_> {
    #[inline]
    fn next_word(&mut self) -> Option<u32> {
        let word = self.words.next_word()?;
        self.into.push(word);
        Some(word)
    }
}

/// The groups of a list.
struct Groups<'a> {
    words: Words<'a>,
    header: Header,
}

impl Iterator for Groups<'_> {
    type Item = BinGroup;

    fn next(&mut self) -> Option<BinGroup> {
        if self.header.widths == 0 {
            self.header = self.words.header()?;
        }
        let (group, width) = next_group(&mut self.header.widths)?;
        let index = self.header.block * BLOCK_GROUPS + group;
        Some(BinGroup { index, counts: self.words.lanes(width) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    /// The groups of a list, by their indices.
    type Counts = std::collections::BTreeMap<usize, [u64; GROUP_BINS]>;

    fn groups() -> impl Strategy<Value = Counts> {
        let count = prop_oneof![
            3 => Just(0),
            3 => 1..=15_u64,
            2 => 16..=255_u64,
            1 => 256..=65_535_u64,
            1 => 65_536..=u64::from(u32::MAX),
            1 => 1_u64 << 32..1 << 62,
        ];
        btree_map(0..125_usize, prop::array::uniform8(count), 0..40)
    }

    fn list_of(counts: &Counts) -> SealedBins {
        let list = SealedBins::new();
        fill(&list, counts, None);
        list
    }

    fn fill(list: &SealedBins, counts: &Counts, same: Option<&SealedBins>) {
        list.fill_with_sum(
            |visit| counts.iter().for_each(|(index, counts)| visit(*index, counts)),
            same,
        );
    }

    fn read(list: &SealedBins) -> Counts {
        list.groups().map(|group| (group.index, group.counts)).collect()
    }

    fn without_empty(mut counts: Counts) -> Counts {
        counts.retain(|_, counts| *counts != [0; GROUP_BINS]);
        counts
    }

    proptest! {
        #[test]
        fn list_has_what_it_was_filled_with_last(fillings in vec(groups(), 1..4)) {
            let list = SealedBins::new();
            for counts in fillings {
                fill(&list, &counts, None);
                prop_assert_eq!(read(&list), without_empty(counts));
            }
        }

        #[test]
        fn list_filled_with_another_is_their_sum(one in groups(), other in groups(), stale in groups()) {
            let list = list_of(&stale);
            let same = list_of(&stale);
            fill(&same, &other, None);
            fill(&list, &one, Some(&same));
            let mut sum = one;
            for (index, counts) in other {
                let sums = sum.entry(index).or_default();
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            prop_assert_eq!(read(&list), without_empty(sum));
        }
    }
}
