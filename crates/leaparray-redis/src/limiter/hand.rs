//! The permits in hand, as requests see them.

use leaparray::Timestamp;

use crate::sync::{AtomicU64, Ordering};

/// The bits of a word that count permits. The others are the number of the hand.
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const COUNT_BITS: u32 = 42;

/// The count of a hand that is closed.
const CLOSED: u64 = COUNT;

/// Returns the number of a hand.
const fn number_of(word: u64) -> u64 {
    word >> COUNT_BITS
}

/// A copy of the permits that a node has in hand, from which requests take without a lock.
///
/// The node opens a hand, and later closes it and learns how many permits were used. In between,
/// the node does not change. A hand is opened for a time in which the permits stay in hand and all
/// uses are in the same bucket, and is used only before its end. So the number of used permits is
/// all that the node needs to know.
///
/// Hands follow one another in the same memory, as with a seqlock: `word` is
/// `{ number of the hand: 22, permits left: 42 }`. A request reads the word, then the fields, and
/// takes its permits by a compare-exchange on that word. If another hand has been opened in
/// between, the number has changed, and it fails. The number wraps around after 2^22 hands: only a
/// thread that stalls for exactly a multiple of 2^22 hands would take permits of a later hand by
/// the end of an earlier one.
///
/// # Orderings
///
/// A permit is taken by a compare-exchange from a count that is not closed, and the hand is closed
/// by a swap. The modification order of `word` has each of these before or after the swap: a permit
/// is either in the count that the swap returns, or was taken by one request. Both are relaxed.
///
/// - `word`: opening releases, and the load of a request acquires. A request that finds a hand open
///   finds its fields, or those of a later hand.
/// - `until`: opening releases, and the load of a request acquires. A request that finds the end of
///   a later hand finds the word changed, because the earlier hand was closed before. loom does not
///   explore this: it makes no store visible before an earlier swap.
/// - `retry_at`: relaxed. It tells when to ask, and no permit depends on it.
/// - `permits`: relaxed. It is used under the lock of the node.
#[derive(Debug)]
// Requests write the word, and read the rest of the line. They share the line with nothing else.
#[repr(align(64))]
pub(crate) struct Hand {
    word: AtomicU64,
    /// The hand must not be used from this time on, in nanoseconds.
    until: AtomicU64,
    /// The server has nothing to grant before this time, in nanoseconds.
    retry_at: AtomicU64,
    /// The permits that were in hand when the hand was opened.
    permits: AtomicU64,
}

/// The outcome of a request to a hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its permits.
    Permits,
    /// Nothing: there are fewer permits.
    TooFew,
    /// Nothing: the hand is closed, or its time is over.
    Stale,
}

impl Hand {
    /// Creates an open hand without permits and without an end.
    pub(crate) fn new() -> Self {
        let [word, retry_at, permits] = [(); 3].map(|()| AtomicU64::new(0));
        let until = AtomicU64::new(Timestamp::MAX.as_nanos());
        Self { word, until, retry_at, permits }
    }

    /// Whether the hand may be used at `now`.
    pub(crate) fn is_usable(&self, now: Timestamp) -> bool {
        self.word.load(Ordering::Relaxed) & COUNT != CLOSED && self.is_current(now)
    }

    fn is_current(&self, now: Timestamp) -> bool {
        let until = self.until();
        // There is no later time than the last.
        now < until || until == Timestamp::MAX
    }

    fn until(&self) -> Timestamp {
        // Acquire: pairs with the Release in `open`.
        Timestamp::from_nanos(self.until.load(Ordering::Acquire))
    }

    /// Returns the last microsecond in which the hand may be used.
    pub(crate) fn last_micros(&self) -> u64 {
        self.until().as_micros().saturating_sub(1)
    }

    /// Returns the time before which the server has nothing to grant.
    pub(crate) fn retry_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.retry_at.load(Ordering::Relaxed))
    }

    /// Returns the permits that are left.
    pub(crate) fn left(&self) -> u64 {
        match self.word.load(Ordering::Relaxed) & COUNT {
            CLOSED => 0,
            left => left,
        }
    }

    /// Takes `count` permits at `now`: all of them or none.
    #[inline]
    pub(crate) fn take(&self, now: Timestamp, count: u64) -> Taken {
        // Acquire: pairs with the Release in `open`.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let left = word & COUNT;
            if left == CLOSED || !self.is_current(now) {
                return Taken::Stale;
            }
            if left < count {
                // The end may belong to a later hand.
                let found = self.word.load(Ordering::Acquire);
                if number_of(found) == number_of(word) && found & COUNT != CLOSED {
                    return Taken::TooFew;
                }
                word = found;
                continue;
            }
            // Acquire on failure: the word may be of a later hand.
            let (done, failed) = (Ordering::Relaxed, Ordering::Acquire);
            match self.word.compare_exchange_weak(word, word - count, done, failed) {
                Ok(_) => return Taken::Permits,
                Err(found) => word = found,
            }
        }
    }

    /// Closes the hand. Returns how many permits were used, or 0 if it was closed before: a thread
    /// may have panicked before it opened the next one. The lock of the node is held.
    pub(crate) fn close(&self) -> u64 {
        // Only the holder of the lock changes the number, so it stays the same while the count
        // changes.
        let number = number_of(self.word.load(Ordering::Relaxed));
        let left = self.word.swap(number << COUNT_BITS | CLOSED, Ordering::Relaxed) & COUNT;
        self.permits.load(Ordering::Relaxed).saturating_sub(left)
    }

    /// Opens the next hand, after the last one was closed. The lock of the node is held.
    pub(crate) fn open(&self, permits: u64, until: Timestamp, retry_at: Timestamp) {
        // Far above any limit. Permits beyond it stay with the node.
        let permits = permits.min(CLOSED - 1);
        self.permits.store(permits, Ordering::Relaxed);
        self.retry_at.store(retry_at.as_nanos(), Ordering::Relaxed);
        // Release: pairs with the Acquire in `until`. A request that finds this end finds the last
        // hand closed.
        self.until.store(until.as_nanos(), Ordering::Release);
        let number = number_of(self.word.load(Ordering::Relaxed)) + 1;
        // Release: pairs with the Acquire in `take`. A request that finds this hand open finds its
        // end.
        self.word.store(number << COUNT_BITS | permits, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(60);
    const END: Timestamp = Timestamp::from_secs(61);

    fn open(permits: u64) -> Hand {
        let hand = Hand::new();
        assert_eq!(hand.close(), 0);
        hand.open(permits, END, Timestamp::MIN);
        hand
    }

    #[test]
    fn hand_gives_its_permits_until_its_end() {
        let hand = open(10);
        assert_eq!(hand.take(END, 1), Taken::Stale);
        assert_eq!(hand.take(NOW, 11), Taken::TooFew);
        assert_eq!(hand.take(NOW, 5), Taken::Permits);
        assert_eq!(hand.take(NOW, 1), Taken::Permits);
        assert_eq!(hand.take(NOW, 4), Taken::Permits);
        assert_eq!((hand.take(NOW, 1), hand.left(), hand.close()), (Taken::TooFew, 0, 10));
    }

    #[test]
    fn closed_hand_gives_nothing() {
        let hand = open(10);
        assert_eq!(hand.close(), 0);
        assert_eq!((hand.take(NOW, 1), hand.take(NOW, 11)), (Taken::Stale, Taken::Stale));
        assert_eq!(hand.left(), 0);
    }

    #[test]
    fn number_wraps_around_and_leaves_the_count() {
        let hand = open(0);
        for permits in 0..1 << (64 - COUNT_BITS) {
            hand.close();
            hand.open(permits, END, Timestamp::MIN);
            assert_eq!(hand.left(), permits);
        }
        hand.close();
        hand.open(u64::MAX, END, Timestamp::MIN);
        assert_eq!((hand.left(), hand.close()), (CLOSED - 1, 0));
    }

    #[test]
    fn each_permit_that_a_thread_takes_is_counted_once() {
        let (hand, is_over) = (open(100), AtomicBool::new(false));
        let take = || {
            let mut taken = 0;
            while !is_over.load(Ordering::Relaxed) {
                taken += u64::from(hand.take(NOW, 1) == Taken::Permits);
            }
            taken
        };
        thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(take));
            let mut used = 0;
            for _ in 0..100_000 {
                used += hand.close();
                hand.open(100, END, Timestamp::MIN);
            }
            is_over.store(true, Ordering::Relaxed);
            let taken: u64 = threads.map(|it| it.join().expect("no panic")).iter().sum();
            assert_eq!(used + hand.close(), taken);
        });
    }
}
