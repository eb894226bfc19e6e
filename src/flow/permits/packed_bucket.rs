//! A bucket, its state and a count, in one word.

use crate::time::{Timestamp, WindowConfig};

/// The contents of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flow) struct PackedBucket {
    /// The number of the bucket.
    pub(in crate::flow) number: u64,
    /// A flag of the bucket.
    pub(in crate::flow) flag: bool,
    /// Whether the permits of the bucket are taken from stripes.
    pub(in crate::flow) striped: bool,
    /// A count of the bucket; in a striped word, the number of an epoch.
    pub(in crate::flow) count: u64,
}

/// The layout of a word: `{ number, flag: 1, striped: 1, count }`. The number has as many bits as
/// the number of the last bucket of time needs, and the count has the rest. So words are ordered by
/// bucket, and the words of one bucket by flag.
#[derive(Clone, Copy, Debug)]
pub(in crate::flow) struct Layout {
    /// The number of bits of the flags and the count.
    shift: u32,
    flag: u64,
    max_count: u64,
}

impl PackedBucket {
    /// Returns whether the word has a count to which permits can be added.
    #[inline]
    pub(in crate::flow) const fn is_direct(&self) -> bool {
        !self.flag && !self.striped
    }
}

impl Layout {
    pub(in crate::flow) const fn of(config: &WindowConfig) -> Self {
        // At least one bit is left for the flag, because a bucket is at least two nanoseconds long.
        // The other flag and the count may have no bit.
        let last = config.bucket_number(Timestamp::MAX);
        let shift = last.leading_zeros();
        let flag = 1 << (shift - 1);
        Self { shift, flag, max_count: (flag >> 1_u32).saturating_sub(1) }
    }

    /// Returns the bit that says whether a word is striped: the one below the flag.
    #[inline]
    const fn striped_bit(self) -> u64 {
        self.flag >> 1
    }

    #[inline]
    pub(in crate::flow) const fn max_count(self) -> u64 {
        self.max_count
    }

    /// Returns the word without a flag.
    #[inline]
    pub(in crate::flow) const fn word(self, number: u64, count: u64) -> u64 {
        number << self.shift | count
    }

    /// Returns the word with the flag.
    #[inline]
    pub(in crate::flow) const fn flagged(self, word: u64) -> u64 {
        word | self.flag
    }

    /// Returns the word of a bucket whose permits are taken from stripes.
    pub(in crate::flow) const fn striped(self, number: u64, epoch: u64) -> u64 {
        self.word(number, epoch) | self.striped_bit()
    }

    /// Returns a word without a flag that tells one revision from another. Its bucket and its count
    /// say nothing.
    pub(in crate::flow) const fn revision(self, revision: u64) -> u64 {
        self.word(revision >> self.max_count.count_ones(), revision & self.max_count)
    }

    /// Returns whether two words are of one bucket, and have the same flags.
    #[inline]
    pub(in crate::flow) const fn is_same_bucket(self, one: u64, other: u64) -> bool {
        one ^ other <= self.max_count
    }

    #[inline]
    pub(in crate::flow) const fn read(self, word: u64) -> PackedBucket {
        let number = word >> self.shift;
        let [flag, striped] = [word & self.flag != 0, word & self.striped_bit() != 0];
        PackedBucket { number, flag, striped, count: word & self.max_count }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn word_has_room_for_the_last_bucket_of_time() {
        for nanos in [2, 3, 1_000, 1 << 20, 100_000_000, u64::MAX / 2, u64::MAX] {
            let config = WindowConfig::new(1, Duration::from_nanos(nanos)).unwrap();
            let layout = Layout::of(&config);
            let last = config.bucket_number(Timestamp::MAX);
            let word = layout.word(last, layout.max_count());
            let (flag, striped, count) = (false, false, layout.max_count());
            let read = PackedBucket { number: last, flag, striped, count };
            assert_eq!(layout.read(word), read, "{nanos} ns");
            assert_eq!(layout.read(layout.flagged(word)), PackedBucket { flag: true, ..read });
            assert!(layout.flagged(word) > word);
            assert!(layout.is_same_bucket(word, layout.word(last, 0)));
            let striped = layout.striped(last, layout.max_count());
            assert_eq!(layout.read(striped), PackedBucket { striped: nanos > 3, ..read });
            let revisions = [1, 2, 1 << 31, u64::MAX >> 2].map(|number| layout.revision(number));
            assert!(revisions.is_sorted() && !revisions.map(|word| layout.read(word).flag)[3]);
            assert!(!layout.is_same_bucket(word, layout.flagged(word)));
            assert!(last == 0 || layout.flagged(layout.word(last - 1, layout.max_count())) < word);
        }
    }

    #[test]
    fn buckets_of_two_nanoseconds_have_no_room_for_a_count() {
        let config = WindowConfig::new(1, Duration::from_nanos(2)).unwrap();
        assert_eq!(Layout::of(&config).max_count(), 0);
    }
}
