//! A limiter that spaces requests evenly.

mod pace;

use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, Limiter, Rate};
use crate::flow::permits::Metered;
use crate::time::{Clock, MonotonicClock, Timestamp};
pub(in crate::flow) use pace::Pace;

/// A limiter that spaces requests evenly. Each request gets a time to wait. If that is too long,
/// the request is refused. Sentinel calls this a throttling controller.
///
/// A request for `n` permits is due `n` permit intervals after the due time of the last admitted
/// request. If its due time has passed, the request goes ahead at once: unused time is not saved.
/// Due times are exact to a nanosecond or two, and rounding errors do not accumulate.
///
/// # Threads
///
/// The bucket is one atomic. An admitted request writes it once, and a refused request does not
/// write it. Each admitted request is due after the one before, so the requests are in one order,
/// and threads that are admitted at the same time compete for the cache line of that atomic.
///
/// ```
/// use leaparray::flow::{Decision, LeakyBucket, LimiterExt, Rate};
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
/// - The bucket saves nothing up. After an idle time of any length, one request goes ahead at once,
///   and the next one is due an interval later. For bursts, use a
///   [`TokenBucket`](crate::flow::TokenBucket).
/// - The first request goes ahead at once, whatever number of permits it asks for. A later request
///   for n permits is due n intervals after the one before. No number of permits is too many, if
///   that time is not longer than the longest wait, or has passed.
/// - There is no [`Rate`] of 0. At the fastest rate, one permit per nanosecond, requests at one
///   time are due a nanosecond apart.
/// - A request that would be due after the end of time, 584 years after the epoch of the clock, is
///   refused for ever ([`Retry::Never`](crate::flow::Retry::Never)). With one permit in 584 years,
///   one request goes ahead.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{Decision, LeakyBucket, LimiterExt, Rate, Retry};
/// use std::time::Duration;
///
/// let t = Timestamp::from_secs;
/// let bucket = LeakyBucket::new(Rate::per_second(1)?, Duration::ZERO);
/// assert!(bucket.try_acquire_at(t(60), 100).is_admitted(), "the first request");
/// assert!(bucket.try_acquire_at(t(90), 1).is_admitted());
/// assert!(bucket.try_acquire_at(t(90), 1).is_refused(), "30 idle seconds are not saved up");
/// let slowest =
///     LeakyBucket::new(Rate::new(1, Duration::from_nanos(u64::MAX))?, Duration::MAX);
/// assert!(slowest.try_acquire_at(t(60), 1).is_admitted());
/// assert_eq!(slowest.try_acquire_at(t(60), 1).refusal().unwrap().retry(), Retry::Never);
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
///
/// # Refunds
///
/// The time of a request can be given back ([`refund_at`](crate::flow::LimiterExt::refund_at)) if
/// no later request was placed since. Otherwise, that request keeps its due time, and the result is
/// `false`. So it is if the rate or the longest wait was changed since, and for each time from the
/// earliest to the latest one that was further ahead of the clock than the
/// [lead](Self::with_max_lead).
///
/// The next request for n permits is then due n intervals after the request before. If the request
/// went ahead after an idle time, a request for the same number of permits goes ahead at once in
/// its place. The idle time before is not known any more, so a request for more permits is due
/// later.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{Decision, LeakyBucket, LimiterExt, Rate};
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
#[derive(Debug)]
pub struct LeakyBucket<C = MonotonicClock>(pub(in crate::flow) Metered<Pace, C>);

impl LeakyBucket {
    /// Creates a bucket with its own [`MonotonicClock`]. A request that would have to wait longer
    /// than `max_wait` is refused.
    #[must_use]
    pub fn new(rate: Rate, max_wait: Duration) -> Self {
        Self::with_clock(rate, max_wait, MonotonicClock::new())
    }
}

impl<C: Clock> LeakyBucket<C> {
    /// Creates a bucket that reads `clock`.
    #[must_use]
    pub fn with_clock(rate: Rate, max_wait: Duration, clock: C) -> Self {
        Self(Metered::new(Pace::new(rate, max_wait), clock))
    }

    /// Sets the *lead*: how far ahead of the limiter's clock a given time may be. By default, this
    /// is a second.
    ///
    /// A later time is treated as the time of the clock plus the lead. So one wrong time keeps the
    /// limiter from admitting for at most the lead longer. If the clock goes back, its highest
    /// reading counts.
    ///
    /// The clock is read once in each lead. With [`Duration::MAX`], there is no bound and the clock
    /// is not read, as for a simulation whose times are ahead of a clock that stands still.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, LimiterExt, Rate};
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
        Self(self.0.with_max_lead(lead))
    }

    /// Returns the rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.0.rule().rate
    }

    /// Returns the longest wait of an admitted request.
    #[must_use]
    pub fn max_wait(&self) -> Duration {
        Duration::from_nanos(self.0.rule().max_wait)
    }

    /// [Changes](crate::flow#changes-in-place) the rate and the longest wait of an admitted
    /// request. Due times that were given out stay, and so do the waits. The next request is due
    /// after the last one by the new rate.
    ///
    /// After the first change, a decision takes some nanoseconds longer, because it has to find the
    /// current settings.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, LimiterExt, Rate};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let ms = Duration::from_millis;
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = LeakyBucket::with_clock(Rate::per_second(10)?, ms(100), clock);
    /// let wait = || bucket.try_acquire().wait();
    /// assert_eq!([wait(), wait()], [ms(0), ms(100)]);
    /// bucket.reconfigure(Rate::per_second(4)?, ms(500));
    /// assert_eq!((bucket.rate(), wait()), (Rate::per_second(4)?, ms(350)));
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    pub fn reconfigure(&self, rate: Rate, max_wait: Duration) {
        // The new settings do not depend on the time.
        self.0.set_at(Timestamp::MIN, Pace::new(rate, max_wait));
    }
}

impl<C: Clock> Limiter for LeakyBucket<C> {
    type Permit = ();

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.0.decide(ask)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        Some(self.0.peek(ask))
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        &self.0
    }
}
