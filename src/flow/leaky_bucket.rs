//! A limiter that spaces requests evenly.

use std::time::Duration;

use super::horizon::Horizon;
use super::{Decision, Limiter, Passed, Rate, Reason, Refusal};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp, saturating_nanos};

/// A limiter that spaces requests evenly. Each request gets a time to wait. If that is too long, the request is
/// refused. Sentinel calls this a throttling controller.
///
/// A request for `n` permits is due `n` permit intervals after the due time of the last admitted request. If its due
/// time has passed, the request goes ahead at once: unused time is not saved. Due times are exact to a nanosecond or
/// two, and rounding errors do not accumulate.
///
/// The bucket is one atomic. An admitted request writes it once, and a refused request does not write it.
///
/// ```
/// use leaparray::flow::{Decision, LeakyBucket, Limiter, Rate};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let rate = Rate::new(10, Duration::from_secs(1))?;
/// let bucket = LeakyBucket::with_clock(rate, Duration::from_millis(250), clock.clone());
/// let waits = [(); 3].map(|()| bucket.try_acquire().wait().as_millis());
/// assert_eq!(waits, [0, 100, 200]);
/// assert!(bucket.try_acquire().is_refused(), "it would have to wait 300 ms");
/// clock.advance(Duration::from_millis(50));
/// assert_eq!(bucket.try_acquire(), Decision::after((), Duration::from_millis(250)));
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
///
/// # Edges
///
/// - The bucket saves nothing up. After an idle time of any length, one request goes ahead at once, and the next one is due
///   an interval later. For bursts, use a [`TokenBucket`](super::TokenBucket).
/// - The first request goes ahead at once, whatever number of permits it asks for. A later request for n permits is due
///   n intervals after the one before. No number of permits is too many, if that time is not longer than the longest wait,
///   or has passed.
/// - There is no [`Rate`] of 0. At the fastest rate, one permit per nanosecond, requests at one time are due a nanosecond
///   apart.
/// - A request that would be due after the end of time, 584 years after the epoch of the clock, is refused for ever
///   ([`Retry::Never`](super::Retry::Never)). With one permit in 584 years, one request goes ahead.
///
/// ```
/// use leaparray::flow::{Decision, LeakyBucket, Limiter, Rate, Retry};
/// use leaparray::Timestamp;
/// use std::time::Duration;
///
/// let t = Timestamp::from_secs;
/// let bucket = LeakyBucket::new(Rate::per_second(1)?, Duration::ZERO);
/// assert!(bucket.try_acquire_at(t(60), 100).is_admitted(), "the first request");
/// assert!(bucket.try_acquire_at(t(90), 1).is_admitted());
/// assert!(bucket.try_acquire_at(t(90), 1).is_refused(), "30 idle seconds are not saved up");
/// let slowest = LeakyBucket::new(Rate::new(1, Duration::from_nanos(u64::MAX))?, Duration::MAX);
/// assert!(slowest.try_acquire_at(t(60), 1).is_admitted());
/// assert_eq!(slowest.try_acquire_at(t(60), 1).refusal().unwrap().retry, Retry::Never);
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Debug)]
pub struct LeakyBucket<C = MonotonicClock> {
    rate: Rate,
    max_wait: u64,
    /// The due time of the last admitted request, in nanoseconds, or [`NEVER`].
    latest: AtomicU64,
    horizon: Horizon,
    clock: C,
}

/// The due time while no request has been admitted.
const NEVER: u64 = 0;

impl LeakyBucket {
    /// Creates a bucket with its own [`MonotonicClock`]. A request that would have to wait longer than `max_wait` is
    /// refused.
    #[must_use]
    pub fn new(rate: Rate, max_wait: Duration) -> Self {
        Self::with_clock(rate, max_wait, MonotonicClock::new())
    }
}

impl<C: Clock> LeakyBucket<C> {
    /// Creates a bucket that reads `clock`.
    #[must_use]
    pub fn with_clock(rate: Rate, max_wait: Duration, clock: C) -> Self {
        let (max_wait, latest) = (saturating_nanos(max_wait), AtomicU64::new(NEVER));
        Self { rate, max_wait, latest, horizon: Horizon::new(), clock }
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
    /// use leaparray::flow::{LeakyBucket, Limiter, Rate};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = LeakyBucket::with_clock(Rate::per_second(10)?, Duration::ZERO, clock)
    ///     .with_max_lead(Duration::from_millis(500));
    /// // An hour ahead: the request goes ahead at 60.5 s.
    /// assert!(bucket.try_acquire_at(Timestamp::from_secs(3_660), 1).is_admitted());
    /// let refusal = bucket.try_acquire().refusal().expect("it would have to wait");
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

    /// Returns the rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the longest wait of an admitted request.
    #[must_use]
    pub const fn max_wait(&self) -> Duration {
        Duration::from_nanos(self.max_wait)
    }

    /// Returns the due time of a request and its wait, or its refusal, if `latest` is the due time of the last admitted
    /// request.
    #[inline]
    fn wait(
        &self,
        latest: u64,
        now: u64,
        permits: u64,
        max_wait: u64,
    ) -> Result<(u64, u64), Refusal> {
        let Some(due) = self.due(latest, permits) else {
            // The due time is after the end of time.
            return Err(Refusal::until(Reason::WaitTooLong, None));
        };
        let wait = due.saturating_sub(now);
        if wait > max_wait {
            let retry_at = Timestamp::from_nanos(due - max_wait);
            return Err(Refusal::until(Reason::WaitTooLong, Some(retry_at)));
        }
        Ok((due, wait))
    }

    /// Returns the earliest due time of a request for `permits`, if `latest` is the due time of the last admitted
    /// request; `None` if it is after the end of time.
    #[inline]
    fn due(&self, latest: u64, permits: u64) -> Option<u64> {
        if latest == NEVER { Some(NEVER) } else { self.rate.after(latest, permits) }
    }
}

impl<C: Clock> LeakyBucket<C> {
    /// Admits a request that has to wait no longer than `max_wait` nanoseconds.
    #[inline]
    fn acquire(&self, now: Timestamp, permits: u64, max_wait: u64) -> Decision {
        let mut now = now.as_nanos();
        if permits == 0 {
            return Decision::Admitted(());
        }
        // Relaxed throughout: the due time orders nothing, and its modification order decides.
        let mut latest = self.latest.load(Ordering::Relaxed);
        loop {
            let (due, wait) = match self.wait(latest, now, permits, max_wait) {
                Ok(found) => found,
                Err(refusal) => return Decision::Refused(refusal),
            };
            // Only before a request is admitted: one that is refused here is refused at the horizon as well.
            if !self.horizon.covers(now) {
                now = self.horizon.advance(now, &self.clock);
                continue;
            }
            // A due time of zero would mean that no request has been admitted.
            let goes = due.max(now).max(NEVER + 1);
            match self.latest.compare_exchange_weak(
                latest,
                goes,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Decision::after((), Duration::from_nanos(wait)),
                Err(found) => latest = found,
            }
        }
    }
}

impl<C: Clock> Limiter for LeakyBucket<C> {
    type Permit = ();

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        self.acquire(now, permits, self.max_wait)
    }

    fn peek_at(&self, now: Timestamp, permits: u64) -> Option<Decision> {
        if permits == 0 {
            return Some(Decision::Admitted(()));
        }
        let latest = self.latest.load(Ordering::Relaxed);
        // As in `acquire`: a request that is refused at its own time is refused at the horizon as well.
        let decide = |now| self.wait(latest, now, permits, self.max_wait);
        let decided = decide(now.as_nanos())
            .and_then(|_| decide(self.horizon.bounded(now.as_nanos(), &self.clock)));
        Some(match decided {
            Ok((_, wait)) => Decision::after((), Duration::from_nanos(wait)),
            Err(refusal) => Decision::Refused(refusal),
        })
    }

    /// Gives back the time of a request that was due at `now` plus `wait`, if no later request was placed since. Otherwise,
    /// that request keeps its due time, and the result is `false`. A time that was further ahead of the clock than the
    /// [lead](LeakyBucket::with_max_lead) is not given back.
    ///
    /// The next request for n permits is then due n intervals after the request before. If the request went ahead after an
    /// idle time, a request for the same number of permits goes ahead at once in its place. The idle time before is not
    /// known any more, so a request for more permits is due later.
    ///
    /// ```
    /// use leaparray::flow::{Decision, LeakyBucket, Limiter, Rate};
    /// use leaparray::Timestamp;
    /// use std::time::Duration;
    ///
    /// let ms = Duration::from_millis;
    /// let bucket = LeakyBucket::new(Rate::per_second(10)?, ms(250));
    /// let now = Timestamp::from_secs(60);
    /// let waits = [(); 3].map(|()| bucket.try_acquire_at(now, 1).wait());
    /// assert_eq!(waits, [ms(0), ms(100), ms(200)]);
    /// assert!(!bucket.refund_at(now, 1, ms(100)), "a later request was placed");
    /// assert!(bucket.refund_at(now, 1, ms(200)));
    /// assert_eq!(bucket.try_acquire_at(now, 1), Decision::after((), ms(200)));
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    //
    // The due time of each request is later than that of the one before, so the due time identifies the request: if the
    // compare-exchange succeeds, no later request was placed, or each of them was given back.
    fn refund_at(&self, now: Timestamp, permits: u64, wait: Duration) -> bool {
        if permits == 0 {
            return true;
        }
        let now = self.horizon.bounded(now.as_nanos(), &self.clock);
        let placed = now.saturating_add(saturating_nanos(wait)).max(NEVER + 1);
        // The request before was due at that time, or earlier if this one did not wait. A time after an idle time is not
        // on the grid of the earlier ones, and may be less than a nanosecond too early.
        let less = u64::from(wait.is_zero() && !self.rate.is_whole());
        let before = self.rate.before(placed, permits).map_or(NEVER, |before| before + less);
        // Relaxed: as in `acquire`.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.latest.compare_exchange(placed, before, success, failure).is_ok()
    }

    /// Admits a request only if it is due at `now`. A request that would have to wait takes no permits, and is refused
    /// until it is due.
    fn try_acquire_at_once(&self, _node: &dyn Passed, now: Timestamp, permits: u64) -> Decision {
        self.acquire(now, permits, 0)
    }
}
