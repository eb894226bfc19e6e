//! The arithmetic of a token bucket.

use crate::flow::{Rate, Reason, Refusal};
use crate::time::Timestamp;

/// The time of a bucket that would be full at this time or later. It gives out no more tokens.
pub(super) const SATURATED: u64 = u64::MAX - 1;

/// The rate and the size of a token bucket: plain data.
///
/// The state of a bucket is the time at which it is full, in nanoseconds, a whole number that is rounded up. A request
/// for n tokens moves it by the time of n tokens. The tokens are there if an empty bucket fills in at least the time from
/// `now` to that moved time.
///
/// The last token before the end of time moves it to [`SATURATED`]. So a bucket gives out a token although no other one
/// would be added before the end of time, but only one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) rate: Rate,
    pub(super) capacity: u64,
    /// The time in which an empty bucket becomes full, in nanoseconds. `u64::MAX` if it does not fill up before the end of
    /// time: its tokens are then limited by the end of time alone.
    fills_in: u64,
}

impl Fill {
    pub(super) fn new(rate: Rate, capacity: u64) -> Self {
        // If the tokens of a full bucket are taken one by one, they may take two nanoseconds longer than all at once:
        // one nanosecond by which the first time is rounded up, and one by which the time is rounded to the grid. These
        // two are added, unless that would make room for a further token.
        let slack = if rate.is_whole() { 0 } else { rate.whole_nanos().saturating_sub(2).min(2) };
        let fills_in = rate.duration(capacity).unwrap_or(u64::MAX).saturating_add(slack);
        Self { rate, capacity, fills_in }
    }

    /// Returns the time of the bucket after a request for `permits` tokens, at least one, at `now`.
    #[inline]
    pub(super) fn take(&self, full_at: u64, now: u64, permits: u64) -> Result<u64, Refusal> {
        if permits > self.capacity {
            return Err(Refusal::never());
        }
        // For a full bucket, `now` is used as an exact time, so that no division has to wait for the clock.
        let is_full = full_at <= now;
        let then = if is_full {
            self.rate.duration(permits).and_then(|nanos| now.checked_add(nanos))
        } else {
            self.rate.after(full_at, permits)
        };
        let Some(then) = then.filter(|&then| then < SATURATED) else {
            return self.take_last(full_at, now, permits);
        };
        // A full bucket has enough tokens: the request asks for no more than the capacity.
        if !is_full && then - now > self.fills_in {
            let retry_at = Timestamp::from_nanos(then - self.fills_in);
            return Err(Refusal::until(Reason::LimitReached, Some(retry_at)));
        }
        Ok(then)
    }

    /// Computes [`take`](Self::take) for a bucket that would be full at the end of time or later.
    #[cold]
    fn take_last(&self, full_at: u64, now: u64, permits: u64) -> Result<u64, Refusal> {
        if permits <= self.available(full_at, now) {
            return Ok(SATURATED);
        }
        let retry_at = if full_at <= now || permits > self.left(full_at) {
            None
        } else {
            // The tokens are there before the bucket is full, so the time is before the end of time.
            let then = self.rate.after_wide(full_at, permits);
            then.checked_sub(u128::from(self.fills_in)).and_then(|nanos| u64::try_from(nanos).ok())
        };
        Err(Refusal::until(Reason::LimitReached, retry_at.map(Timestamp::from_nanos)))
    }

    /// Returns the time of the bucket after `permits` tokens are given back, `elapsed` nanoseconds after they were taken;
    /// `None` if none of them can be given back.
    ///
    /// Without the request, the bucket might have been full in that time, and lost tokens that were added since. How many
    /// is not known, but they are at most those that are added in the time. So the time moves back by that much less.
    /// Then each request that stays finds the time of the bucket at least as late as if the request had never been made.
    pub(super) fn give_back(&self, full_at: u64, permits: u64, elapsed: u64) -> Option<u64> {
        if full_at >= SATURATED {
            // The exact time is not known.
            return None;
        }
        // A time that moves by no multiple of the tokens' time may be less than a nanosecond too early for the grid.
        let less = u64::from(elapsed > 0 && !self.rate.is_whole());
        let before = self.rate.before(full_at, permits).unwrap_or(0);
        let then = before.saturating_add(elapsed).saturating_add(less);
        (then < full_at).then_some(then)
    }

    /// Returns the number of tokens at `now`.
    pub(super) fn available(&self, full_at: u64, now: u64) -> u64 {
        if full_at <= now && full_at < SATURATED {
            let last = self.rate.permits_in((SATURATED - 1).saturating_sub(now), 0);
            return self.capacity.min(last.saturating_add(1));
        }
        let there = if self.fills_in == u64::MAX {
            self.capacity
        } else {
            let nanos = self.fills_in.saturating_sub(full_at.saturating_sub(now));
            self.rate.permits_in(nanos, self.rate.rounded(full_at)).min(self.capacity)
        };
        there.min(self.left(full_at))
    }

    /// Returns the number of tokens that a bucket which is not full can give out before the end of time: those after
    /// which it would be full before [`SATURATED`], and one more.
    fn left(&self, full_at: u64) -> u64 {
        let Some(nanos) = (SATURATED - 1).checked_sub(full_at) else { return 0 };
        self.rate.permits_in(nanos, self.rate.rounded(full_at)).saturating_add(1)
    }
}
