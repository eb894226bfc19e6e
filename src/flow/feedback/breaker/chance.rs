//! The cached probability with which a request is dropped.

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// One word, `{ turn: 16, slice: 28, threshold: 20 }`, so that a decision need not add up the
/// window.
///
/// A *slice* is a span of a power of two of nanoseconds, at most a sixteenth of a bucket (or one
/// nanosecond). All threads that add up in one slice do so at its [end](Chance::slice_end), so they
/// add up the same buckets. A bucket may leave the window up to a slice earlier. The word has
/// the lowest 28 bits of the slice's number. With buckets of 250 ms, they wrap around after 26
/// days: if no request asks or ends for exactly that time, the old threshold decides the next
/// requests, for the rest of one slice.
///
/// # Orderings
///
/// A request that ends is counted in the window first, and then takes a *turn*: a read-modify-write
/// of the word. A turn changes the word, so the compare-exchange of a thread that has added up
/// before fails. If two requests end, one takes the later turn, and its thread adds up the counts
/// of both. A thread that swaps a word in has acquired the word that it replaces, with the counts
/// from which that word was made. If its swap fails, `take_turn` adds up again, and `renew` leaves
/// the word to the other thread. So the last word is made from the counts of all requests that have
/// taken a turn. The exception is a thread that stalls while 65,536 requests end, or a multiple of
/// that number, if the word has the same threshold and slice again after that.
#[derive(Debug)]
pub(super) struct Chance {
    word: AtomicU64,
    /// The number of bits of a time that are within a slice.
    shift: u32,
}

/// The number of bits of the threshold, which are the lowest.
const BITS: u32 = 20;

/// The number of bits of the turn, which are the highest, so that it wraps around without a carry.
const TURN_BITS: u32 = 16;
const TURN: u64 = 1 << (u64::BITS - TURN_BITS);

/// The probability with which a request is dropped, in units of 2⁻²⁰.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threshold(u32);

impl Threshold {
    const END: u32 = 1 << BITS;

    /// Returns the threshold of a probability from 0 to 1, rounded down, and below 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2²⁰")]
    pub(super) fn of(probability: f64) -> Self {
        let parts = (probability * f64::from(Self::END)) as u32;
        Self(parts.min(Self::END - 1))
    }

    #[inline]
    pub(super) const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the probability is above one half.
    pub(super) const fn drops_most(self) -> bool {
        self.0 > Self::END / 2
    }

    /// Returns whether a request with that random number is dropped.
    #[inline]
    pub(super) const fn drops(self, random: u32) -> bool {
        random >> (u32::BITS - BITS) < self.0
    }
}

impl Chance {
    /// Creates a word for buckets of that length, with a threshold of zero in the first slice of
    /// all time.
    pub(super) fn new(bucket_nanos: u64) -> Self {
        Self { word: AtomicU64::new(0), shift: (bucket_nanos / 16).max(1).ilog2() }
    }

    /// Returns the last nanosecond of the slice of `now`.
    pub(super) const fn slice_end(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.as_nanos() | ((1 << self.shift) - 1))
    }

    /// Returns the threshold at `now`; `None` if the word is of another slice.
    #[inline]
    pub(super) fn get(&self, now: Timestamp) -> Option<Threshold> {
        // Relaxed: the word orders nothing else. By coherence, a thread that is ordered after the
        // end of a request reads the word of that request or a later one.
        self.threshold(self.word.load(Ordering::Relaxed), now)
    }

    /// Returns whether the threshold of the last word, in any slice, is above zero.
    #[inline]
    pub(super) fn drops_any(&self) -> bool {
        // Relaxed: as for `get`.
        self.word.load(Ordering::Relaxed) & u64::from(Threshold::END - 1) != 0
    }

    /// Updates the word for the slice of `now` to the result of `add_up`, and returns that result.
    pub(super) fn renew(&self, now: Timestamp, add_up: impl Fn() -> Threshold) -> Threshold {
        // Acquire: pairs with the Release in `take_turn`. The counts from which the word was made
        // are added up again.
        let observed = self.word.load(Ordering::Acquire);
        let threshold = add_up();
        // Not retried: another thread has updated the word, or has counted a further request.
        let _ = self.swap(observed, self.word_of(observed, threshold, now));
        threshold
    }

    /// Updates the word to the result of `add_up` at `now`, after this thread has counted the end
    /// of a request, or has changed the settings.
    pub(super) fn take_turn(&self, now: Timestamp, add_up: impl Fn() -> Threshold) {
        // A read-modify-write, so that one of two threads comes later; with loads, each could miss
        // the other's counts. Release: pairs with the Acquire of the later thread, which reads the
        // counts of this one. Acquire: pairs with the Release of the earlier thread.
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
        // Relaxed on success: a read-modify-write continues the release sequence of the word
        // before. Acquire on failure: pairs with the Release in `take_turn`. The next sum includes
        // the counts of the other thread.
        let swapped =
            self.word.compare_exchange(observed, word, Ordering::Relaxed, Ordering::Acquire);
        swapped.map(drop)
    }

    /// Returns the number of the slice of `now`, at its place in the word.
    #[inline]
    const fn slice(&self, now: Timestamp) -> u64 {
        now.as_nanos() >> self.shift << (BITS + TURN_BITS) >> TURN_BITS
    }

    /// Returns the word with another threshold, and with the slice of `now`.
    #[inline]
    const fn word_of(&self, observed: u64, threshold: Threshold, now: Timestamp) -> u64 {
        let turns = observed & !(TURN - 1);
        turns | self.slice(now) | threshold.0 as u64
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "it is below 2²⁰")]
    const fn threshold(&self, word: u64, now: Timestamp) -> Option<Threshold> {
        // If the slices are equal, only the threshold is left.
        let rest = (word ^ self.slice(now)) & (TURN - 1);
        if rest < Threshold::END as u64 { Some(Threshold(rest as u32)) } else { None }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const QUARTER: u64 = 250_000_000;
    const SLICE: u64 = 1 << 23;

    #[test]
    fn word_is_of_one_slice() {
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
        chance.take_turn(t(u64::MAX), || Threshold::of(0.25));
        assert_eq!(chance.get(Timestamp::MAX), Some(Threshold::of(0.25)));
    }

    #[test]
    fn slices_of_the_shortest_and_the_longest_bucket() {
        for (bucket, slice) in [(2, 1), (31, 1), (32, 2), (QUARTER, SLICE), (u64::MAX, 1 << 59)] {
            let chance = Chance::new(bucket);
            let slices = [0, slice - 1, slice].map(|now| chance.slice(Timestamp::from_nanos(now)));
            assert_eq!(slices, [0, 0, 1 << BITS], "{bucket}");
            let ends = [0, slice, u64::MAX].map(|now| chance.slice_end(Timestamp::from_nanos(now)));
            let expected = [slice - 1, 2 * slice - 1, u64::MAX].map(Timestamp::from_nanos);
            assert_eq!(ends, expected, "{bucket}");
        }
    }

    #[test]
    fn threshold_is_below_one() {
        assert!(Threshold::of(0.0).is_zero() && !Threshold::of(0.0).drops(0));
        assert!(Threshold::of(1.0).drops(u32::MAX - 4_096) && !Threshold::of(1.0).drops(u32::MAX));
        assert!(Threshold::of(0.5).drops(u32::MAX / 2) && !Threshold::of(0.5).drops(1 << 31));
        assert!(!Threshold::of(0.5).drops_most() && Threshold::of(0.51).drops_most());
    }

    /// The threshold returns to its earlier value, but the word does not.
    #[test]
    fn thread_adds_up_again_if_a_request_ends_during_its_sum() {
        let (chance, now) = (Chance::new(QUARTER), Timestamp::from_nanos(7 * QUARTER));
        let [before, between, stale, after] =
            [3, 4, 5, 3].map(|n| Threshold::of(1.0 / f64::from(n)));
        chance.take_turn(now, || before);
        let calls = std::cell::Cell::new(0);
        chance.take_turn(now, || {
            calls.set(calls.get() + 1);
            if calls.get() > 1 {
                return after;
            }
            chance.take_turn(now, || between);
            chance.take_turn(now, || after);
            stale
        });
        assert_eq!((calls.get(), chance.get(now)), (2, Some(after)));
    }
}
