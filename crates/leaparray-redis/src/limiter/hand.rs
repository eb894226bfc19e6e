//! The permits in hand, as requests see them.

use leaparray::Timestamp;

use crate::sync::{AtomicU64, Ordering};

/// The count of a hand that is closed.
const CLOSED: u64 = u64::MAX;

/// A copy of the permits that a node has in hand, from which requests take without a lock.
///
/// The node makes a hand, and later closes it and learns how many permits were used. In between, the node does not change.
/// A hand is made for a time in which the permits stay in hand and all uses are in the same bucket, and is used only before
/// its end. So the number of used permits is all that the node needs to know.
///
/// # Orderings
///
/// All is in one atomic, `left`. A permit is taken by a compare-exchange from a count that is not closed, and the hand is
/// closed by a swap. The modification order of `left` has each of these before or after the swap: a permit is either in the
/// count that the swap returns, or was taken by one request. No other data is published through `left`, so all accesses are
/// relaxed. The other fields are published by the pointer to the hand.
#[derive(Debug)]
pub(crate) struct Hand {
    /// The permits that were in hand when the hand was made.
    permits: u64,
    left: AtomicU64,
    /// The hand must not be used from this time on.
    until: Timestamp,
    /// The server has nothing to grant before this time.
    pub(crate) retry_at: Timestamp,
}

/// What a request has got from a hand.
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
    pub(crate) fn new(permits: u64, until: Timestamp, retry_at: Timestamp) -> Self {
        Self { permits, left: AtomicU64::new(permits), until, retry_at }
    }

    /// Whether the hand may be used at `now`.
    pub(crate) fn is_usable(&self, now: Timestamp) -> bool {
        self.is_current(now) && self.left.load(Ordering::Relaxed) != CLOSED
    }

    fn is_current(&self, now: Timestamp) -> bool {
        // There is no later time than the last.
        now < self.until || self.until == Timestamp::MAX
    }

    /// Returns the last microsecond in which the hand may be used.
    pub(crate) const fn last_micros(&self) -> u64 {
        self.until.as_micros().saturating_sub(1)
    }

    /// Returns the permits that are left.
    pub(crate) fn left(&self) -> u64 {
        match self.left.load(Ordering::Relaxed) {
            CLOSED => 0,
            left => left,
        }
    }

    /// Takes `count` permits at `now`: all of them or none.
    pub(crate) fn take(&self, now: Timestamp, count: u64) -> Taken {
        if !self.is_current(now) {
            return Taken::Stale;
        }
        let mut left = self.left.load(Ordering::Relaxed);
        loop {
            if left == CLOSED {
                return Taken::Stale;
            }
            let Some(rest) = left.checked_sub(count) else { return Taken::TooFew };
            match self.left.compare_exchange_weak(left, rest, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Taken::Permits,
                Err(found) => left = found,
            }
        }
    }

    /// Closes the hand. Returns how many permits were used, or 0 if it was closed before: a thread may have panicked before
    /// it made the next one.
    pub(crate) fn close(&self) -> u64 {
        let left = self.left.swap(CLOSED, Ordering::Relaxed);
        self.permits.saturating_sub(left)
    }
}
