//! The bins of a sealed bucket, in a sparse form.

use super::block::BLOCK_GROUPS;
use super::collect::Collector;
use super::group::{BinSource, GROUP_BINS, Group};
use crate::sync::{Ordering, Payload, RacyOnce, payload, seen_payload};

/// The number of words in a segment: with the link, a segment is a cache line.
const SEGMENT_WORDS: usize = 7;

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

    /// Replaces the contents by the sum of `source` and `same`, while no other thread writes.
    #[inline]
    pub(crate) fn fill(&self, source: BinSource<'_>, same: Option<&Self>) {
        match same {
            None => {
                let mut writer = Writer::new(&self.first);
                source.for_each_group(|group| writer.push_group(&group));
                writer.finish();
            }
            Some(same) => self.fill_with_sum(|visit| source.for_each_group(visit), same),
        }
    }

    /// Replaces the contents by the sum of `same` and the groups that `for_each_group` visits, in ascending order.
    #[inline(never)]
    fn fill_with_sum(&self, for_each_group: impl FnOnce(&mut dyn FnMut(Group)), same: &Self) {
        let mut writer = Writer::new(&self.first);
        // Fused: behind the end of the list there may be words of a longer one.
        let mut others = same.groups().fuse();
        let mut other = others.next();
        for_each_group(&mut |mut group| {
            while let Some(before) = other.filter(|it| it.index < group.index) {
                writer.push_group(&before);
                other = others.next();
            }
            if let Some(equal) = other.filter(|it| it.index == group.index) {
                group.add(&equal);
                other = others.next();
            }
            writer.push_group(&group);
        });
        other.into_iter().chain(others).for_each(|group| writer.push_group(&group));
        writer.finish();
    }

    /// Adds the groups to a collector. Words that are no list, which a read finds while the list is filled again, end the
    /// addition or add anything.
    pub(crate) fn add_to(&self, collector: &mut Collector) {
        collector.begin_list();
        let mut words = Words { segment: Some(&self.first), at: 0 };
        while let Some(header) = words.next() {
            let block = ((header >> 32) as usize).checked_sub(1);
            let Some(mut sums) = block.and_then(|block| collector.block(block)) else { return };
            let (mut widths, mut group) = (header as u32, 0);
            while widths != 0 {
                let absent = widths.trailing_zeros() / 4;
                widths >>= 4 * absent;
                group += absent as usize;
                let width = widths & 0xf;
                if width == 1 {
                    let Some(word) = words.next() else { return };
                    sums.add_bytes(group % BLOCK_GROUPS, word);
                } else {
                    let Some(counts) = words.lanes(width) else { return };
                    sums.add(group % BLOCK_GROUPS, &counts);
                }
                widths >>= 4;
                group += 1;
            }
        }
    }

    #[inline]
    fn groups(&self) -> Groups<'_> {
        Groups { words: Words { segment: Some(&self.first), at: 0 }, block: 0, widths: 0, group: 0 }
    }
}

/// Appends words to a list from its beginning.
struct Writer<'a> {
    segment: &'a Segment,
    at: usize,
    /// The place of the current header.
    place: &'a Payload,
    /// The current header, with the widths of the groups so far; 0 if there is none.
    header: u64,
}

impl<'a> Writer<'a> {
    fn new(first: &'a Segment) -> Self {
        Self { segment: first, at: 0, place: &first.words[0], header: 0 }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "otherwise each group goes through memory")]
    fn push_group(&mut self, group: &Group) {
        let width = width_of(&group.counts);
        // A header without a group would end the list.
        if width == 0 {
            return;
        }
        let block = (group.index / BLOCK_GROUPS) as u64 + 1;
        if self.header >> 32 != block {
            self.store_header();
            self.place = self.reserve();
            self.header = block << 32;
        }
        self.header |= u64::from(width) << (4 * (group.index % BLOCK_GROUPS));
        if width == 1 {
            let pack = |word: u64, count: &u64| word << 8 | count;
            self.push(group.counts.iter().rev().fold(0, pack));
        } else {
            self.push_lanes(&group.counts, width);
        }
    }

    #[inline(never)]
    fn push_lanes(&mut self, counts: &[u64; GROUP_BINS], width: u32) {
        let (lanes, bits) = lanes_and_bits(width);
        for counts in counts.chunks_exact(lanes) {
            let pack = |word: u64, (lane, count): (usize, &u64)| word | count << (lane * bits);
            self.push(counts.iter().enumerate().fold(0, pack));
        }
    }

    #[inline]
    fn push(&mut self, word: u64) {
        self.reserve().store(word, Ordering::Relaxed);
    }

    /// Returns the place of the next word.
    #[inline]
    fn reserve(&mut self) -> &'a Payload {
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

impl Words<'_> {
    /// Returns the counts of a group, whose lanes of that width are the next words.
    fn lanes(&mut self, width: u32) -> Option<[u64; GROUP_BINS]> {
        // Other widths are not written.
        let width = width.clamp(1, 4);
        let (lanes, bits) = lanes_and_bits(width);
        let mut counts = [0; GROUP_BINS];
        for counts in counts.chunks_exact_mut(lanes) {
            let word = self.next()?;
            for (lane, count) in counts.iter_mut().enumerate() {
                *count = word >> (lane * bits) & (u64::MAX >> (64 - bits));
            }
        }
        Some(counts)
    }
}

/// The groups of a list.
struct Groups<'a> {
    words: Words<'a>,
    /// The current block.
    block: usize,
    /// The widths of the groups of the current block that were not returned yet.
    widths: u32,
    /// The next group in the current block.
    group: usize,
}

impl Groups<'_> {
    /// Returns the index of the next group, and the width of its lanes, which follow.
    #[inline]
    fn next_head(&mut self) -> Option<(usize, u32)> {
        if self.widths == 0 {
            let header = self.words.next()?;
            self.block = ((header >> 32) as usize).checked_sub(1)?;
            self.widths = header as u32;
            self.group = 0;
        }
        let absent = self.widths.trailing_zeros() / 4;
        // `None` if there is no group: the words are no list then.
        let widths = self.widths.checked_shr(4 * absent)?;
        let group = self.group + absent as usize;
        (self.widths, self.group) = (widths >> 4, group + 1);
        Some((self.block.wrapping_mul(BLOCK_GROUPS).wrapping_add(group), widths & 0xf))
    }
}

impl Iterator for Groups<'_> {
    type Item = Group;

    fn next(&mut self) -> Option<Group> {
        let (index, width) = self.next_head()?;
        Some(Group { index, counts: self.words.lanes(width)? })
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
            3 => 1..=255_u64,
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
        let groups = counts.iter().map(|(&index, &counts)| Group { index, counts });
        list.fill_with(|visit| groups.for_each(visit), same);
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
