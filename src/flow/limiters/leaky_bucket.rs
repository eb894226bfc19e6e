//! A limiter that spaces requests evenly.

use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, Limiter, Rate, Refusal};
use crate::flow::permits::Horizon;
use crate::flow::permits::{CLOSED, Live, NotAdmitted, Settings, Version};
use crate::node::Reason;
use crate::sync::Ordering;
use crate::time::{Clock, MonotonicClock, Timestamp, saturating_nanos};

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
#[derive(Debug)]
pub struct LeakyBucket<C = MonotonicClock> {
    /// The word is the due time of the last admitted request, in nanoseconds, or [`NEVER`].
    live: Live<Pace>,
    horizon: Horizon,
    clock: C,
}

/// The due time while no request has been admitted.
const NEVER: u64 = 0;

/// The settings of a leaky bucket: plain data.
#[derive(Clone, Copy, Debug)]
struct Pace {
    rate: Rate,
    /// In nanoseconds.
    max_wait: u64,
    /// The due time of the last request that was admitted under other settings, or [`NEVER`].
    carried: u64,
}

impl Settings for Pace {
    /// The due times that were given out stay.
    fn carry(&self, latest: u64, next: Self, _now: u64) -> (Self, u64) {
        (Self { carried: latest, ..next }, latest)
    }
}

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
        let pace = Pace { rate, max_wait: saturating_nanos(max_wait), carried: NEVER };
        Self { live: Live::new(pace, NEVER), horizon: Horizon::new(), clock }
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
        Self { horizon: Horizon::with_lead(lead), ..self }
    }

    /// Returns the [lead](Self::with_max_lead).
    #[must_use]
    pub const fn max_lead(&self) -> Duration {
        self.horizon.lead()
    }

    /// Returns the rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.live.settings().rate
    }

    /// Returns the longest wait of an admitted request.
    #[must_use]
    pub fn max_wait(&self) -> Duration {
        Duration::from_nanos(self.live.settings().max_wait)
    }

    /// Changes the rate. Other threads may ask at the same time. Due times that were given out
    /// stay. The next request is due after the last one by the new rate.
    ///
    /// A decision is by the old settings or by the new ones, as a whole, and no thread waits for
    /// one that changes them. Threads that change settings at the same time take turns. After the
    /// first change, a decision takes some nanoseconds longer, because it has to find the current
    /// settings.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, LimiterExt, Rate};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let ms = Duration::from_millis;
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = LeakyBucket::with_clock(Rate::per_second(10)?, ms(500), clock);
    /// let wait = || bucket.try_acquire().wait();
    /// assert_eq!([wait(), wait()], [ms(0), ms(100)]);
    /// bucket.set_rate(Rate::per_second(4)?);
    /// assert_eq!((bucket.rate(), wait()), (Rate::per_second(4)?, ms(350)));
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    pub fn set_rate(&self, rate: Rate) {
        // The new settings do not depend on the time.
        self.live.change(0, |pace| Pace { rate, ..pace });
    }

    /// Changes the longest wait of an admitted request, as [`set_rate`](Self::set_rate) changes the
    /// rate. Requests that were admitted before keep their waits.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, LimiterExt, Rate};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = LeakyBucket::with_clock(Rate::per_second(10)?, Duration::ZERO, clock);
    /// assert!(bucket.try_acquire().is_admitted() && bucket.try_acquire().is_refused());
    /// bucket.set_max_wait(Duration::from_millis(100));
    /// assert_eq!(bucket.try_acquire().wait(), bucket.max_wait());
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    pub fn set_max_wait(&self, max_wait: Duration) {
        let max_wait = saturating_nanos(max_wait);
        self.live.change(0, |pace| Pace { max_wait, ..pace });
    }
}

impl Pace {
    /// Returns the longest wait of a request, in nanoseconds.
    #[inline]
    const fn max_wait_of(&self, ask: &Ask<'_>) -> u64 {
        if ask.can_wait() { self.max_wait } else { 0 }
    }

    /// Returns the due time of a request and its wait, if `latest` is the due time of the last
    /// admitted request.
    #[inline]
    fn wait(
        &self,
        latest: u64,
        now: u64,
        permits: u64,
        max_wait: u64,
    ) -> Result<(u64, u64), NotAdmitted> {
        let Some(due) = self.due(latest, permits) else {
            // The due time is after the end of time.
            return Err(if latest == CLOSED { NotAdmitted::Closed } else { NotAdmitted::Never });
        };
        let wait = due.saturating_sub(now);
        if wait > max_wait {
            return Err(NotAdmitted::Until(due - max_wait));
        }
        Ok((due, wait))
    }

    /// Returns the earliest due time of a request for `permits`, if `latest` is the due time of the
    /// last admitted request; `None` if it is after the end of time.
    #[inline]
    fn due(&self, latest: u64, permits: u64) -> Option<u64> {
        if latest == NEVER { Some(NEVER) } else { self.rate.after(latest, permits) }
    }
}

impl<C: Clock> LeakyBucket<C> {
    /// Admits a request that has to wait no longer than the longest wait, or not at all.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn acquire(&self, ask: &Ask<'_>) -> Decision {
        if ask.permits() == 0 {
            return Decision::Admitted(());
        }
        self.acquire_from(
            self.live.first(),
            ask,
            |wait| Decision::after((), Duration::from_nanos(wait)),
            |not_admitted| match not_admitted {
                NotAdmitted::Until(nanos) => {
                    let retry_at = Timestamp::from_nanos(nanos);
                    Decision::Refused(Refusal::until(Reason::WaitTooLong, Some(retry_at)))
                }
                // After the first change, or at the end of time.
                _ => self.acquire_later(ask),
            },
        )
    }

    /// As [`acquire`](Self::acquire), by the current settings.
    #[inline(never)]
    fn acquire_later(&self, ask: &Ask<'_>) -> Decision {
        self.live.with(|version| decision(self.acquire_from(version, ask, Ok, Err)))
    }

    /// Returns what `admitted` makes of the wait of the request, or what `not` makes of the time to
    /// ask again. Neither is a value that would have to be taken apart by the caller.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn acquire_from<R>(
        &self,
        version: &Version<Pace>,
        ask: &Ask<'_>,
        admitted: impl FnOnce(u64) -> R,
        not: impl FnOnce(NotAdmitted) -> R,
    ) -> R {
        let (pace, mut now) = (&version.settings, ask.now().as_nanos());
        let max_wait = pace.max_wait_of(ask);
        // Relaxed throughout: the due time orders nothing, and its modification order decides.
        let mut latest = version.word.load(Ordering::Relaxed);
        loop {
            let (due, wait) = match pace.wait(latest, now, ask.permits(), max_wait) {
                Ok(found) => found,
                Err(not_admitted) => return not(not_admitted),
            };
            // Only before a request is admitted: one that is refused here is refused at the horizon
            // as well.
            if !self.horizon.covers(now) {
                now = self.horizon.advance(now, &self.clock);
                continue;
            }
            let Some(goes) = goes(due, now) else { return not(NotAdmitted::Never) };
            match version.word.compare_exchange_weak(
                latest,
                goes,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return admitted(wait),
                Err(found) => latest = found,
            }
        }
    }
}

/// Returns the decision on a request that has to wait for that time; `None` if the word is closed.
#[inline]
fn decision(wait: Result<u64, NotAdmitted>) -> Option<Decision> {
    match wait {
        Ok(wait) => Some(Decision::after((), Duration::from_nanos(wait))),
        Err(not) => not.refusal(Reason::WaitTooLong).map(Decision::Refused),
    }
}

/// Returns the word for a request that is due at `due` at the earliest, and admitted at `now`;
/// `None` if it is due at the last nanosecond of time, whose word stands for [`CLOSED`]. A request
/// in an idle bucket may still be admitted then, with the word of the nanosecond before.
#[inline]
fn goes(due: u64, now: u64) -> Option<u64> {
    // A due time of zero would mean that no request has been admitted.
    let goes = due.max(now).max(NEVER + 1);
    if goes < CLOSED { Some(goes) } else { (due < CLOSED).then_some(CLOSED - 1) }
}

impl<C: Clock> Limiter for LeakyBucket<C> {
    type Permit = ();

    /// A request that cannot wait, and would have to, takes no permits, and is refused until it is
    /// due.
    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.acquire(ask)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        if ask.permits() == 0 {
            return Some(Decision::Admitted(()));
        }
        let now = ask.now().as_nanos();
        let peek = self.live.with(|version| {
            let (pace, latest) = (&version.settings, version.word.load(Ordering::Relaxed));
            let max_wait = pace.max_wait_of(ask);
            let decide =
                |now| pace.wait(latest, now, ask.permits(), max_wait).map(|found| (found, now));
            // As in `acquire`: a request that is refused at its own time is refused at the horizon
            // as well.
            let decided = decide(now).and_then(|_| decide(self.horizon.bounded(now, &self.clock)));
            let goes = decided.and_then(|((due, wait), now)| {
                goes(due, now).map(|_| wait).ok_or(NotAdmitted::Never)
            });
            decision(goes)
        });
        Some(peek)
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<C: Clock> Account for LeakyBucket<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Gives back the time of a request that was due at `now` plus `wait`, if no later request was
    /// placed since. Otherwise, that request keeps its due time, and the result is `false`. So it
    /// is if the rate or the longest wait was changed since, and for each time from the earliest to
    /// the latest one that was further ahead of the clock than the
    /// [lead](LeakyBucket::with_max_lead).
    ///
    /// The next request for n permits is then due n intervals after the request before. If the
    /// request went ahead after an idle time, a request for the same number of permits goes ahead
    /// at once in its place. The idle time before is not known any more, so a request for more
    /// permits is due later.
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
    //
    // Due times grow from request to request, so the due time identifies the request: if the
    // compare-exchange succeeds, no later request was placed, or each of them was given back.
    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        let (now, permits) = (ask.now().as_nanos(), ask.permits());
        if permits == 0 {
            return true;
        }
        // The request was placed at the horizon of that time, which is not known any more.
        if !self.horizon.decided_at(now) {
            return false;
        }
        let placed = now.saturating_add(saturating_nanos(wait)).max(NEVER + 1);
        self.live.with(|version| {
            let Pace { rate, carried, .. } = &version.settings;
            // A request that was admitted under other settings took another time.
            if placed <= *carried || placed == CLOSED {
                return version.is_open().then_some(false);
            }
            // The request before was due at that time, or earlier if this one did not wait. A time
            // after an idle time is not on the grid of the earlier ones, and may be less than a
            // nanosecond too early.
            let less = u64::from(wait.is_zero() && !rate.is_whole());
            let before = rate.before(placed, permits).map_or(NEVER, |before| before + less);
            // Relaxed: as in `acquire_from`.
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match version.word.compare_exchange(placed, before, success, failure) {
                Ok(_) => Some(true),
                Err(found) => (found != CLOSED).then_some(false),
            }
        })
    }
}
