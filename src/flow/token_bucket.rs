//! Requests at a rate, and bursts.

use super::{Decision, Limiter, Rate, Reason, Refusal};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp};

/// A bucket that tokens drop into at a rate until it is full; a request takes as many as it has permits,
/// or is refused. It begins full.
///
/// What is kept is not how many tokens there are, but when the bucket will be full again: one atomic,
/// in which nothing need be refilled, after the generic cell rate algorithm (ITU-T I.371). It is written
/// once by who is admitted and not at all by who is refused. Times are exact to a few nanoseconds, and
/// what is rounded does not add up. At a rate of more than a quarter of a permit a nanosecond, so much may
/// be a token more or less in a burst. A bucket that takes longer to fill than time lasts holds what comes
/// in that, and has no tokens to give that would come back after the end of time.
///
/// ```
/// use leaparray::flow::{Limiter, Rate, TokenBucket};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let bucket = TokenBucket::with_clock(Rate::new(10, Duration::from_secs(1))?, 5, clock.clone());
/// assert!(bucket.try_acquire_many(4).is_admitted());
/// let refusal = bucket.try_acquire_many(3).refusal().expect("one is left");
/// assert_eq!(refusal.retry_at, Some(Timestamp::from_millis(60_200)));
/// clock.advance(Duration::from_millis(200));
/// assert!(bucket.try_acquire_many(3).is_admitted());
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Debug)]
pub struct TokenBucket<C = MonotonicClock> {
    rate: Rate,
    capacity: u64,
    /// How many nanoseconds it takes to fill.
    fills_in: u64,
    /// When it is full, in nanoseconds.
    full_at: AtomicU64,
    clock: C,
}

impl TokenBucket {
    /// A bucket for `capacity` tokens, with a precise clock of its own.
    #[must_use]
    pub fn new(rate: Rate, capacity: u64) -> Self {
        Self::with_clock(rate, capacity, MonotonicClock::new())
    }
}

impl<C: Clock> TokenBucket<C> {
    /// A bucket that reads the given clock.
    #[must_use]
    pub fn with_clock(rate: Rate, capacity: u64, clock: C) -> Self {
        // Taken one by one, the tokens of a full bucket may take two nanoseconds longer than at once: what
        // the first is rounded up by, and a time of the grid that is reached. But not so long that there
        // would be one more.
        let slack = if rate.is_whole() { 0 } else { rate.whole_nanos().saturating_sub(2).min(2) };
        let fills_in = rate.duration(capacity).unwrap_or(u64::MAX).saturating_add(slack);
        Self { rate, capacity, fills_in, full_at: AtomicU64::new(0), clock }
    }

    /// The rate at which tokens come.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// How many tokens there are in a full bucket.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How many tokens there are.
    pub fn available(&self) -> u64 {
        self.available_at(self.now())
    }

    /// How many tokens there are at `now`.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        let (full_at, now) = (self.full_at.load(Ordering::Relaxed), now.as_nanos());
        let missing = full_at.saturating_sub(now);
        let rounded = if missing == 0 { 0 } else { self.rate.rounded(full_at) };
        let there = self.rate.permits_in(self.fills_in.saturating_sub(missing), rounded);
        there.min(self.capacity)
    }
}

impl<C: Clock> Limiter for TokenBucket<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        let now = now.as_nanos();
        if permits == 0 {
            return Decision::Admitted(());
        }
        if permits > self.capacity {
            return Decision::Refused(Refusal::never());
        }
        // Relaxed, all of it: the value is all there is, and its own order decides.
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            // From a full bucket `now` counts as exact, so that no division waits for the clock.
            let then = if full_at <= now {
                self.rate.duration(permits).and_then(|nanos| now.checked_add(nanos))
            } else {
                self.rate.after(full_at, permits)
            };
            let Some(then) = then else {
                // Time ends before.
                return Decision::Refused(Refusal::new(Reason::LimitReached, None));
            };
            if then - now > self.fills_in {
                let retry_at = Timestamp::from_nanos(then - self.fills_in);
                return Decision::Refused(Refusal::new(Reason::LimitReached, Some(retry_at)));
            }
            match self.full_at.compare_exchange_weak(
                full_at,
                then,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Decision::Admitted(()),
                Err(found) => full_at = found,
            }
        }
    }
}
