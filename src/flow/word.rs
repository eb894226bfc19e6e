//! A bucket, a flag and a count, in one word.

use crate::time::{Timestamp, WindowConfig};

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The number of a bucket.
    pub(super) number: u64,
    /// What else is said of it.
    pub(super) flag: bool,
    /// What is counted of it.
    pub(super) count: u64,
}

/// How it is said: in as many bits as the number of the last bucket of time needs, one for the flag, and the
/// others. So words are in the order of the buckets, and of one bucket those with the flag come last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    count_bits: u32,
}

impl Layout {
    pub(super) const fn of(config: &WindowConfig) -> Self {
        // One is left at least: a bucket is two nanoseconds long or longer.
        let last = config.bucket_number(Timestamp::MAX);
        Self { count_bits: last.leading_zeros() - 1 }
    }

    #[inline]
    pub(super) const fn max_count(self) -> u64 {
        (1 << self.count_bits) - 1
    }

    /// Without the flag.
    #[inline]
    pub(super) const fn word(self, number: u64, count: u64) -> u64 {
        number << (self.count_bits + 1) | count
    }

    /// The same with the flag.
    pub(super) const fn flagged(self, word: u64) -> u64 {
        word | 1 << self.count_bits
    }

    /// Whether two words are of one bucket, both with the flag or neither.
    #[inline]
    pub(super) const fn is_same_bucket(self, one: u64, other: u64) -> bool {
        (one ^ other) >> self.count_bits == 0
    }

    #[inline]
    pub(super) const fn read(self, word: u64) -> Word {
        let number = word >> (self.count_bits + 1);
        let flag = word >> self.count_bits & 1 == 1;
        Word { number, flag, count: word & self.max_count() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_word_has_room_for_the_last_bucket_of_time() {
        for nanos in [2, 3, 1_000, 1 << 20, 100_000_000, u64::MAX / 2, u64::MAX] {
            let config = WindowConfig::new(1, Duration::from_nanos(nanos)).unwrap();
            let layout = Layout::of(&config);
            let last = config.bucket_number(Timestamp::MAX);
            let word = layout.word(last, layout.max_count());
            let read = Word { number: last, flag: false, count: layout.max_count() };
            assert_eq!(layout.read(word), read, "{nanos} ns");
            assert_eq!(layout.read(layout.flagged(word)), Word { flag: true, ..read });
            assert!(layout.flagged(word) > word);
            assert!(layout.is_same_bucket(word, layout.word(last, 0)));
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
