//! A limiter that admits requests at a rate, with bursts.

use std::time::Duration;

use super::horizon::Horizon;
use super::{Decision, Limiter, Quota, Rate, Reason, Refusal};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp};

/// A limiter that admits requests at a rate, with bursts. Tokens are added to a bucket at the rate until it is full. A
/// request takes one token for each permit, or is refused. The bucket is full at the beginning.
///
/// The bucket does not store the number of tokens, but the time at which it will be full again, as in the generic cell
/// rate algorithm (ITU-T I.371). So it is one atomic, and there is no refill. An admitted request writes it once, and a
/// refused request does not write it. Times are exact to a few nanoseconds, and rounding errors do not accumulate. At a
/// rate above a quarter of a permit per nanosecond, these nanoseconds may add or remove one token in a burst.
///
/// If the bucket would take longer to fill than the span of a [`Timestamp`], it has only the tokens that are added in
/// that span. It does not give out a token that would be added again after the end of time.
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
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_millis(60_200)));
/// clock.advance(Duration::from_millis(200));
/// assert!(bucket.try_acquire_many(3).is_admitted());
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Debug)]
pub struct TokenBucket<C = MonotonicClock> {
    rate: Rate,
    capacity: u64,
    /// The time in which an empty bucket becomes full, in nanoseconds.
    fills_in: u64,
    /// The time at which the bucket is full, in nanoseconds.
    full_at: AtomicU64,
    horizon: Horizon,
    clock: C,
}

impl TokenBucket {
    /// Creates a bucket of `capacity` tokens, with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(rate: Rate, capacity: u64) -> Self {
        Self::with_clock(rate, capacity, MonotonicClock::new())
    }
}

impl<C: Clock> TokenBucket<C> {
    /// Creates a bucket of `capacity` tokens that reads `clock`.
    #[must_use]
    pub fn with_clock(rate: Rate, capacity: u64, clock: C) -> Self {
        // If the tokens of a full bucket are taken one by one, they may take two nanoseconds longer than all at once:
        // one nanosecond by which the first time is rounded up, and one by which the time is rounded to the grid. These
        // two are added, unless that would make room for a further token.
        let slack = if rate.is_whole() { 0 } else { rate.whole_nanos().saturating_sub(2).min(2) };
        let fills_in = rate.duration(capacity).unwrap_or(u64::MAX).saturating_add(slack);
        let full_at = AtomicU64::new(0);
        Self { rate, capacity, fills_in, full_at, horizon: Horizon::new(), clock }
    }

    /// Sets the *lead*: how far ahead of the limiter's clock a given time may be. By default, this is a second.
    ///
    /// A later time is treated as the time of the clock plus the lead. So one wrong time keeps the limiter from admitting
    /// for at most the lead longer. If the clock goes back, its highest reading counts.
    ///
    /// The clock is read once in each lead. With [`Duration::MAX`], there is no bound and the clock is not read, as for a
    /// simulation whose times are ahead of a clock that stands still.
    ///
    /// ```
    /// use leaparray::flow::{Limiter, Rate, TokenBucket};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 1, clock.clone())
    ///     .with_max_lead(Duration::from_millis(500));
    /// // An hour ahead: the token is taken at 60.5 s.
    /// assert!(bucket.try_acquire_at(Timestamp::from_secs(3_660), 1).is_admitted());
    /// let refusal = bucket.try_acquire().refusal().expect("the bucket is empty");
    /// assert_eq!(refusal.retry_at(), Some(Timestamp::from_millis(60_600)));
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        Self { horizon: Horizon::with_lead(lead), ..self }
    }

    /// Returns the [lead](Self::with_max_lead).
    #[must_use]
    pub const fn max_lead(&self) -> Duration {
        self.horizon.lead()
    }

    /// Returns the rate at which tokens are added.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the number of tokens in a full bucket.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of tokens in the bucket now.
    pub fn available(&self) -> u64 {
        self.available_at(self.now())
    }

    /// Returns the number of tokens in the bucket at `now`.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.available_with(self.full_at.load(Ordering::Relaxed), now)
    }

    /// Returns the number of tokens at `now` of a bucket that is full at `full_at`.
    fn available_with(&self, full_at: u64, now: Timestamp) -> u64 {
        let now = now.as_nanos();
        let missing = full_at.saturating_sub(now);
        let rounded = if missing == 0 { 0 } else { self.rate.rounded(full_at) };
        let there = self.rate.permits_in(self.fills_in.saturating_sub(missing), rounded);
        there.min(self.capacity)
    }
}

impl<C: Clock> Limiter for TokenBucket<C> {
    type Permit = ();

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        let now = self.horizon.bound(now.as_nanos(), &self.clock);
        if permits == 0 {
            return Decision::Admitted(());
        }
        if permits > self.capacity {
            return Decision::Refused(Refusal::never());
        }
        // Relaxed throughout: the time orders nothing, and its modification order decides.
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            // For a full bucket, `now` is used as an exact time, so that no division has to wait for the clock.
            let is_full = full_at <= now;
            let then = if is_full {
                self.rate.duration(permits).and_then(|nanos| now.checked_add(nanos))
            } else {
                self.rate.after(full_at, permits)
            };
            let Some(then) = then else {
                // The bucket would be full after the end of time.
                return Decision::Refused(Refusal::until(Reason::LimitReached, None));
            };
            // A full bucket has enough tokens: the request asks for no more than the capacity.
            if !is_full && then - now > self.fills_in {
                let retry_at = Timestamp::from_nanos(then - self.fills_in);
                return Decision::Refused(Refusal::until(Reason::LimitReached, Some(retry_at)));
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

    /// Returns the capacity, the tokens in the bucket, and the time at which it is full.
    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        let full_at = self.full_at.load(Ordering::Relaxed);
        let reset = Some(Timestamp::from_nanos(full_at));
        Some(Quota::new(self.capacity, self.available_with(full_at, now), reset))
    }
}
