//! The chance to be dropped, as it was last added up.

use crate::sync::{AtomicU64, Ordering};
use crate::time::{Timestamp, WindowConfig};

/// A threshold, the slice of time that it is of, and how many have ended, in one word: who asks need not add
/// up.
///
/// A bucket has up to 32 slices, each a power of two of nanoseconds long and at most a sixteenth of the bucket,
/// if that is a nanosecond. A slice lies in one bucket, so that all who add up in it add up one window. Of its
/// number the word has room for the lowest 28 bits. With buckets of 250 ms they come round after 24 days:
/// were nobody to ask or to end for exactly so long, what comes next would be decided on as it was then, for
/// the rest of one slice.
///
/// # Orderings
///
/// A request that ends counts first, and then takes its turn at the word by a read-modify-write, which makes
/// it another: whoever has added up before swaps in vain. So of two that end one comes later there, and what
/// it adds up has both. Who swaps a word in has acquired the one that it replaces, with all that this was
/// made from; if it was replaced meanwhile, it adds up once more. So the last word is made from the counts of
/// all that were to be told of. (But for one that stands still while as many end as there are turns, 65,536 or
/// a multiple of that, and lead to the very same threshold in the very same slice.)
#[derive(Debug)]
pub(super) struct Chance {
    word: AtomicU64,
    config: WindowConfig,
    /// How many bits of a time lie within a slice.
    shift: u32,
}

/// How many of the word's bits are the threshold, the lowest.
const BITS: u32 = 20;

/// How many are the turns: the highest, so that they come round without a carry.
const TURN_BITS: u32 = 16;
const TURN: u64 = 1 << (u64::BITS - TURN_BITS);

/// The chance to be dropped, in parts of 2²⁰.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threshold(u32);

impl Threshold {
    const END: u32 = 1 << BITS;

    /// Of a probability from 0 to 1, rounded down, and below 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2²⁰")]
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
    /// None at the beginning of time, for such buckets.
    pub(super) fn new(config: WindowConfig) -> Self {
        let shift = (config.bucket_nanos() / 16).max(1).ilog2();
        Self { word: AtomicU64::new(0), config, shift }
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
        let _ = self.swap(observed, self.word_of(observed, threshold, now));
        threshold
    }

    /// Has the word follow what was counted by this thread: what `add_up` finds at `now`.
    pub(super) fn tell(&self, now: Timestamp, add_up: impl Fn() -> Threshold) {
        // Not a load, which could miss another that ends and be missed by it. Release: pairs with the
        // Acquire of whoever comes later, who sees what was counted before. Acquire: the other way round.
        let mut observed = self.word.fetch_add(TURN, Ordering::AcqRel).wrapping_add(TURN);
        loop {
            let word = self.word_of(observed, add_up(), now);
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

    /// The number of the slice of `now`, where the word has it.
    #[inline]
    const fn slice(&self, now: Timestamp) -> u64 {
        let (number, age) = self.config.bucket_and_age(now);
        let slice = number << 5 | age >> self.shift;
        slice << (BITS + TURN_BITS) >> TURN_BITS
    }

    /// That word with another threshold, at `now`.
    #[inline]
    const fn word_of(&self, observed: u64, threshold: Threshold, now: Timestamp) -> u64 {
        let turns = observed & !(TURN - 1);
        turns | self.slice(now) | threshold.0 as u64
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "it is below 2²⁰")]
    const fn threshold(&self, word: u64, now: Timestamp) -> Option<Threshold> {
        // What is left if the slice is the same.
        let rest = (word ^ self.slice(now)) & (TURN - 1);
        if rest < Threshold::END as u64 { Some(Threshold(rest as u32)) } else { None }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    const QUARTER: u64 = 250_000_000;
    const SLICE: u64 = 1 << 23;

    fn chance(bucket_nanos: u64) -> Chance {
        Chance::new(WindowConfig::new(1, Duration::from_nanos(bucket_nanos)).unwrap())
    }

    #[test]
    fn a_word_is_of_one_slice() {
        let chance = chance(QUARTER);
        let t = Timestamp::from_nanos;
        let half = Threshold::of(0.5);
        let start = 1_540_629_300_000_000_000;
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
            let chance = chance(bucket);
            assert_eq!(1_u64 << chance.shift, slice);
            // The last slice of a bucket is not the first of the next, nor any before it.
            let slices = [0, slice - 1, bucket / 2, bucket - 1].map(Timestamp::from_nanos);
            let [first, same, half, last] = slices.map(|now| chance.slice(now));
            assert!(first == same && first <= half && half <= last, "{bucket}");
            if let Some(next) = bucket.checked_add(1) {
                assert!(last < chance.slice(Timestamp::from_nanos(next)), "{bucket}");
            }
        }
    }

    #[test]
    fn a_threshold_is_below_one() {
        assert!(Threshold::of(0.0).is_zero() && !Threshold::of(0.0).drops(0));
        assert!(Threshold::of(1.0).drops(u32::MAX - 4_096) && !Threshold::of(1.0).drops(u32::MAX));
        assert!(Threshold::of(0.5).drops(u32::MAX / 2) && !Threshold::of(0.5).drops(1 << 31));
        assert!(!Threshold::of(0.5).drops_most() && Threshold::of(0.51).drops_most());
    }

    /// The threshold comes back to what it was, but not the word.
    #[test]
    fn who_adds_up_while_others_end_does_so_again() {
        let (chance, now) = (chance(QUARTER), Timestamp::from_nanos(7 * QUARTER));
        let [before, between, stale, after] =
            [3, 4, 5, 3].map(|n| Threshold::of(1.0 / f64::from(n)));
        chance.tell(now, || before);
        let calls = std::cell::Cell::new(0);
        chance.tell(now, || {
            calls.set(calls.get() + 1);
            if calls.get() > 1 {
                return after;
            }
            chance.tell(now, || between);
            chance.tell(now, || after);
            stale
        });
        assert_eq!((calls.get(), chance.get(now)), (2, Some(after)));
    }
}
