//! The arithmetic of a token bucket.

use std::time::Duration;

use crate::flow::contract::{Quota, Rate, Refusal};
use crate::flow::permits::{Back, CLOSED, NotAdmitted, Rule, Take, Taken};
use crate::node::Reason;
use crate::time::Timestamp;

/// The time of a bucket that would be full at this time or later. It gives out no more tokens.
const SATURATED: u64 = CLOSED - 1;

/// The rate and the size of a token bucket: plain data.
///
/// The state of a bucket is the time at which it is full, in nanoseconds, a whole number that is
/// rounded up. A request for n tokens moves it by the time of n tokens. The tokens are there if an
/// empty bucket fills in at least the time from `now` to that moved time.
///
/// The last token before the end of time moves it to [`SATURATED`]. So a bucket gives out a token
/// although no other one would be added before the end of time, but only one.
//
// In this order, what a decision reads comes first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fill {
    pub(in crate::flow) rate: Rate,
    /// The tokens of a full bucket: the capacity, or fewer if the bucket cannot reach it before the
    /// end of time.
    size: u64,
    /// The time in which an empty bucket becomes full, in nanoseconds. `u64::MAX` if it does not
    /// fill up before the end of time: its tokens are then limited by the end of time alone.
    fills_in: u64,
    pub(in crate::flow) capacity: u64,
    /// The first time after the last change of the settings, in nanoseconds. Tokens that were taken
    /// before are not given back, nor tokens that were taken at the time of the change: whether
    /// before or after it is not known.
    begins: u64,
}

impl Fill {
    pub(in crate::flow) fn new(rate: Rate, capacity: u64) -> Self {
        Self::with_size(rate, capacity, capacity)
    }

    fn with_size(rate: Rate, capacity: u64, size: u64) -> Self {
        // If the tokens of a full bucket are taken one by one, they may take two nanoseconds longer
        // than all at once: one nanosecond by which the first time is rounded up, and one by which
        // the time is rounded to the grid. These two are added, unless that would make room for a
        // further token.
        let slack = if rate.is_whole() { 0 } else { rate.whole_nanos().saturating_sub(2).min(2) };
        let fills_in = rate.duration(size).unwrap_or(u64::MAX).saturating_add(slack);
        Self { rate, capacity, size, fills_in, begins: 0 }
    }

    /// Returns the time of the bucket after a request for `permits` tokens, at least one, at `now`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the result goes through memory")]
    fn take(&self, full_at: u64, now: u64, permits: u64) -> Result<u64, NotAdmitted> {
        if permits > self.size {
            return Err(self.more_than_size(full_at, permits));
        }
        // For a full bucket, `now` is used as an exact time, so that no division has to wait for
        // the clock.
        let is_full = full_at <= now;
        let then = if is_full {
            self.rate.duration(permits).and_then(|nanos| now.checked_add(nanos))
        } else {
            self.rate.after(full_at, permits)
        };
        let Some(then) = then.filter(|&then| then < SATURATED) else {
            return self.take_last(full_at, now, permits);
        };
        // A full bucket has enough tokens: the request asks for no more than the size.
        if !is_full && then - now > self.fills_in {
            return Err(NotAdmitted::Until(then - self.fills_in));
        }
        Ok(then)
    }

    /// Computes [`take`](Self::take) for more tokens than there are in a full bucket.
    #[cold]
    const fn more_than_size(&self, full_at: u64, permits: u64) -> NotAdmitted {
        if full_at == CLOSED {
            NotAdmitted::Closed
        } else if permits > self.capacity {
            NotAdmitted::MoreThanLimit
        } else {
            // After a change, the bucket does not reach its capacity before the end of time.
            NotAdmitted::Never
        }
    }

    /// Computes [`take`](Self::take) for a bucket that would be full at the end of time or later.
    #[cold]
    fn take_last(&self, full_at: u64, now: u64, permits: u64) -> Result<u64, NotAdmitted> {
        if full_at == CLOSED {
            return Err(NotAdmitted::Closed);
        }
        if permits <= self.available(full_at, now) {
            return Ok(SATURATED);
        }
        if full_at <= now || permits > self.left(full_at) {
            return Err(NotAdmitted::Never);
        }
        // The tokens are there before the bucket is full, so the time is before the end of time.
        let then = self.rate.after_wide(full_at, permits);
        let retry_at = u64::try_from(then.saturating_sub(u128::from(self.fills_in)));
        Err(retry_at.map_or(NotAdmitted::Never, NotAdmitted::Until))
    }

    /// Returns the latest time at which the bucket may have been empty: the latest request was not
    /// made before. Zero if the bucket does not fill up before the end of time.
    fn empty_at(&self, full_at: u64) -> u64 {
        full_at.saturating_sub(self.fills_in)
    }

    /// Returns the number of tokens at `now`.
    pub(in crate::flow) fn available(&self, full_at: u64, now: u64) -> u64 {
        if full_at <= now && full_at < SATURATED {
            let last = self.rate.permits_in((SATURATED - 1).saturating_sub(now), 0);
            return self.size.min(last.saturating_add(1));
        }
        let there = if self.fills_in == u64::MAX {
            self.size
        } else {
            let nanos = self.fills_in.saturating_sub(full_at.saturating_sub(now));
            self.rate.permits_in(nanos, self.rate.rounded(full_at)).min(self.size)
        };
        there.min(self.left(full_at))
    }

    /// Returns the number of tokens that a bucket which is not full can give out before the end of
    /// time: those after which it would be full before [`SATURATED`], and one more.
    fn left(&self, full_at: u64) -> u64 {
        let Some(nanos) = (SATURATED - 1).checked_sub(full_at) else { return 0 };
        self.rate.permits_in(nanos, self.rate.rounded(full_at)).saturating_add(1)
    }
}

impl Rule for Fill {
    const REASON: Reason = Reason::LimitReached;

    #[inline]
    fn refusal_until(time: Timestamp) -> Refusal {
        Refusal::due(Self::REASON, time)
    }

    /// Returns the word of a bucket that is full at `since`. Before, it has fewer tokens.
    fn new_word(&self, since: u64) -> u64 {
        since
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn decide(&self, full_at: u64, take: Take) -> Result<Taken, NotAdmitted> {
        let word = self.take(full_at, take.now, take.permits)?;
        Ok(Taken { word, wait: 0 })
    }

    #[inline]
    fn as_new_at(&self, full_at: u64) -> Option<u64> {
        (full_at < SATURATED).then_some(full_at)
    }

    /// Returns the capacity, the tokens in the bucket, and the time at which it is full; `None` if
    /// that is after the end of time. The window is the time in which an empty bucket fills up.
    fn quota(&self, full_at: u64, now: u64) -> Option<Quota> {
        let reset = self.as_new_at(full_at).map(Timestamp::from_nanos);
        let quota = Quota::new(self.capacity, self.available(full_at, now), reset);
        let window = self.rate.duration(self.capacity).map(Duration::from_nanos);
        Some(window.map_or(quota, |window| quota.with_window(window)))
    }

    /// Without the request, the bucket might have been full since, and lost tokens that were added.
    /// Their number is not known. At most, it is the number of tokens that are added from `now` to
    /// the latest request. So the time moves back by that much less. Then each request that stays
    /// finds the time of the bucket at least as late as if the request had never been made.
    ///
    /// The latest request is not later than the reading of the clock, unless its time was ahead of
    /// it. It is not earlier than the time at which the bucket was empty.
    fn refund(&self, full_at: u64, back: &Back) -> Option<u64> {
        let Back { now, permits, clock, .. } = *back;
        // The exact time of a saturated bucket is not known.
        if full_at >= SATURATED || now < self.begins {
            return None;
        }
        let elapsed = clock.max(self.empty_at(full_at)).saturating_sub(now);
        // A time that moves by no multiple of the tokens' time may be less than a nanosecond too
        // early for the grid.
        let less = u64::from(elapsed > 0 && !self.rate.is_whole());
        let before = self.rate.before(full_at, permits).unwrap_or(0);
        let then = before.saturating_add(elapsed).saturating_add(less);
        (then < full_at).then_some(then)
    }

    /// Returns the settings of a bucket that keeps its tokens.
    ///
    /// A bucket gives out only tokens that are added again before the end of time. If that is too
    /// near for the capacity, the size is such that the present tokens can be given out, and half
    /// of the others can be in the bucket at once.
    fn succeed(&self, full_at: u64, next: Self, now: u64) -> Self {
        let now = self.not_before_empty(full_at, now);
        let (tokens, _) = self.level(full_at, now);
        let begins = now.saturating_add(1);
        if tokens >= next.capacity {
            return Self { begins, ..next };
        }
        let room = (SATURATED - 1).saturating_sub(now);
        let added = next.rate.permits_in(room, 0).saturating_sub(tokens) / 2;
        let size = tokens.saturating_add(added).min(next.capacity);
        Self { begins, ..Self::with_size(next.rate, next.capacity, size) }
    }

    /// The tokens in the bucket stay, as far as they fit, and so does the fraction of the next
    /// token.
    fn carry(&self, full_at: u64, next: &Self, now: u64) -> u64 {
        let now = self.not_before_empty(full_at, now);
        let (tokens, rest) = self.level(full_at, now);
        if tokens >= next.capacity {
            return full_at.min(now);
        }
        let missing = next.time_to_fill(tokens, Fraction { rest, of: self.rate.nanos.value() });
        now.saturating_add(missing).min(SATURATED - 1)
    }
}

/// A fraction of a token.
#[derive(Clone, Copy)]
struct Fraction {
    rest: u64,
    of: u64,
}

impl Fill {
    /// Returns the time of a change at `now`. With a stale `now`, tokens may already be taken that
    /// were added since. The bucket was empty at the time at which the last one of them was there.
    fn not_before_empty(&self, full_at: u64, now: u64) -> u64 {
        now.max(if full_at < SATURATED { self.empty_at(full_at) } else { 0 })
    }

    /// Returns the tokens at `now`, and the fraction of the next token, in units of 1 / nanos of
    /// the rate.
    fn level(&self, full_at: u64, now: u64) -> (u64, u64) {
        if full_at >= SATURATED {
            return (0, 0);
        }
        let (nanos, permits) = (self.rate.nanos, u128::from(self.rate.permits.value()));
        let Some(missing) = full_at.checked_sub(now).filter(|&missing| missing > 0) else {
            return (self.size, 0);
        };
        let rounded = u128::from(self.rate.rounded(full_at));
        let parts = if self.fills_in == u64::MAX {
            // The time in which the bucket fills does not fit, and the time of the missing tokens
            // does.
            let size = u128::from(self.size) * u128::from(nanos.value());
            (size + rounded).saturating_sub(u128::from(missing) * permits)
        } else {
            u128::from(self.fills_in.saturating_sub(missing)) * permits + rounded
        };
        let (tokens, rest) = nanos.divide_wide(parts);
        match u64::try_from(tokens) {
            Ok(tokens) if tokens < self.size => (tokens, rest),
            _ => (self.size, 0),
        }
    }

    /// Returns the time until the bucket is full, in nanoseconds, if it has that many tokens, up to
    /// its size, and a fraction of the next one.
    fn time_to_fill(&self, tokens: u64, fraction: Fraction) -> u64 {
        let (nanos, permits) = (u128::from(self.rate.nanos.value()), self.rate.permits);
        let rest = u128::from(fraction.rest) * nanos / u128::from(fraction.of);
        let time = |parts: u128| permits.divide_wide(parts).0;
        let up = |parts: u128| time(parts + u128::from(permits.value() - 1));
        let begin = u128::from(tokens) * nanos;
        let missing = if self.fills_in == u64::MAX {
            // If the size is the number of tokens, the fraction has no room.
            up((u128::from(self.size - tokens) * nanos).saturating_sub(rest))
        } else {
            // The bucket has as many tokens as before, and the next one does not come early,
            // whatever part of a nanosecond the time is taken to be rounded by.
            let last = time((begin + nanos).saturating_sub(u128::from(permits.value())));
            let filled = time(begin + rest).min(last).max(up(begin));
            u128::from(self.fills_in).saturating_sub(filled)
        };
        u64::try_from(missing).unwrap_or(u64::MAX)
    }
}
