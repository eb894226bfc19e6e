//! The chance to be dropped, as it was last added up.

use crate::sync::{AtomicU64, Ordering};
use crate::timestamp::Timestamp;

/// A threshold, and the slice of time that it is of, in one word: who asks need not add up.
///
/// A slice is the largest power of two of nanoseconds that is at most a sixteenth of a bucket. Of its
/// number the word has room for the lowest 40 bits. With buckets of 250 ms they last for 292 years, with
/// those of 1 ms for 417 days: were nobody to ask or to end for exactly so long, what comes next would be
/// decided on as it was then, for the rest of one slice.
///
/// # Orderings
///
/// A request that ends counts first, and then takes its turn at the word by a read-modify-write. So of two
/// that end one comes later there, and what it adds up has both. Who swaps a word in has acquired the one
/// that it replaces, with all that this was made from; if it was replaced meanwhile, it adds up once more.
/// So the last word is made from the counts of all that were to be told of: unless one finds, by the
/// numbers, the very word that is there already, leaves it, and it gives way to an older one's. Like all
/// that is not told, that holds until the next one ends, or the slice does.
#[derive(Debug)]
pub(super) struct Chance {
    word: AtomicU64,
    /// How many bits of a time lie within a slice.
    shift: u32,
}

/// How many of the word's bits are the threshold.
const BITS: u32 = 24;

/// The chance to be dropped, in parts of 2²⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threshold(u32);

impl Threshold {
    const END: u32 = 1 << BITS;

    /// Of a probability from 0 to 1, rounded down, and below 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2²⁴")]
    pub(super) fn of(probability: f64) -> Self {
        let parts = (probability * f64::from(Self::END)) as u32;
        Self(parts.min(Self::END - 1))
    }

    #[inline]
    pub(super) const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether more are dropped than not.
    pub(super) const fn drops_most(self) -> bool {
        self.0 > Self::END / 2
    }

    /// Whether who draws that number is dropped.
    #[inline]
    pub(super) const fn drops(self, random: u32) -> bool {
        random >> (u32::BITS - BITS) < self.0
    }
}

impl Chance {
    /// None at the beginning of time, for buckets of that length.
    pub(super) fn new(bucket_nanos: u64) -> Self {
        Self { word: AtomicU64::new(0), shift: (bucket_nanos / 16).max(1).ilog2() }
    }

    /// The threshold at `now`; `None` if the word is of another slice.
    #[inline]
    pub(super) fn get(&self, now: Timestamp) -> Option<Threshold> {
        // Relaxed: the value is all there is. Who knows of a request that ended finds its word or a later
        // one, by coherence.
        self.threshold(self.word.load(Ordering::Relaxed), now)
    }

    /// Whether the last word, of whichever slice, drops anybody.
    #[inline]
    pub(super) fn drops_any(&self) -> bool {
        // Relaxed: as for `get`.
        self.word.load(Ordering::Relaxed) & u64::from(Threshold::END - 1) != 0
    }

    /// Has the word follow the time: what `add_up` finds at `now`.
    pub(super) fn renew(&self, now: Timestamp, add_up: impl Fn() -> Threshold) -> Threshold {
        // Acquire: pairs with the Release in `tell`. What the word was made from is added up again.
        let observed = self.word.load(Ordering::Acquire);
        let threshold = add_up();
        // Not tried again: somebody else was faster, or knows more.
        let _ = self.swap(observed, self.word_of(threshold, now));
        threshold
    }

    /// Has the word follow what was counted by this thread: what `add_up` finds at `now`.
    pub(super) fn tell(&self, now: Timestamp, add_up: impl Fn() -> Threshold) {
        // Not a load, which could miss another that ends and be missed by it. Release: pairs with the
        // Acquire of whoever comes later, who sees what was counted before. Acquire: the other way round.
        let mut observed = self.word.fetch_add(0, Ordering::AcqRel);
        loop {
            let word = self.word_of(add_up(), now);
            // Then there is nothing to write, and nobody who has to look again.
            if word == observed {
                return;
            }
            match self.swap(observed, word) {
                Ok(()) => return,
                Err(found) => observed = found,
            }
        }
    }

    fn swap(&self, observed: u64, word: u64) -> Result<(), u64> {
        // Relaxed: a read-modify-write hands on what was released to the word before it. Acquire, if another
        // one was faster: pairs with the Release in `tell`. What is added up once more has what that had.
        let swapped =
            self.word.compare_exchange(observed, word, Ordering::Relaxed, Ordering::Acquire);
        swapped.map(drop)
    }

    /// The word of a threshold of 0 at `now`.
    #[inline]
    const fn slice(&self, now: Timestamp) -> u64 {
        (now.as_nanos() >> self.shift) << BITS
    }

    #[inline]
    const fn word_of(&self, threshold: Threshold, now: Timestamp) -> u64 {
        self.slice(now) | threshold.0 as u64
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "it is below 2²⁴")]
    const fn threshold(&self, word: u64, now: Timestamp) -> Option<Threshold> {
        // What is left if the slice is the same.
        let rest = word ^ self.slice(now);
        if rest < Threshold::END as u64 { Some(Threshold(rest as u32)) } else { None }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const QUARTER: u64 = 250_000_000;
    const SLICE: u64 = 1 << 23;

    #[test]
    fn a_word_is_of_one_slice() {
        let chance = Chance::new(QUARTER);
        let t = Timestamp::from_nanos;
        let half = Threshold::of(0.5);
        let start = 1_540_629_300_000_000_000 / SLICE * SLICE;
        assert_eq!(chance.renew(t(start), || half), half);
        for now in [start, start + SLICE - 1] {
            assert_eq!(chance.get(t(now)), Some(half));
        }
        for now in [0, start - 1, start + SLICE, start + QUARTER, u64::MAX] {
            assert_eq!(chance.get(t(now)), None);
        }
        chance.tell(t(u64::MAX), || Threshold::of(0.25));
        assert_eq!(chance.get(Timestamp::MAX), Some(Threshold::of(0.25)));
    }

    #[test]
    fn slices_of_the_shortest_and_the_longest_bucket() {
        for (bucket, slice) in [(2, 1), (31, 1), (32, 2), (u64::MAX, 1 << 59)] {
            assert_eq!(1_u64 << Chance::new(bucket).shift, slice);
        }
    }

    #[test]
    fn a_threshold_is_below_one() {
        assert!(Threshold::of(0.0).is_zero() && !Threshold::of(0.0).drops(0));
        assert!(Threshold::of(1.0).drops(u32::MAX - 256) && !Threshold::of(1.0).drops(u32::MAX));
        assert!(Threshold::of(0.5).drops(u32::MAX / 2) && !Threshold::of(0.5).drops(1 << 31));
        assert!(!Threshold::of(0.5).drops_most() && Threshold::of(0.51).drops_most());
    }
}
