//! A limiter that admits requests at a rate, with bursts.

mod fill;

use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, Limiter, Quota, Rate, Refusal};
use crate::flow::permits::Horizon;
use crate::flow::permits::{CLOSED, Live, NotAdmitted, Version};
use crate::node::Reason;
use crate::sync::Ordering;
use crate::time::{Clock, MonotonicClock, Timestamp};
pub(in crate::flow) use fill::{Fill, SATURATED};

/// A limiter that admits requests at a rate, with bursts. Tokens are added to a bucket at the rate
/// until it is full. A request takes one token for each permit, or is refused. The bucket is full
/// at the beginning.
///
/// The bucket does not store the number of tokens, but the time at which it will be full again, as
/// in the generic cell rate algorithm (ITU-T I.371). So it is one atomic, and there is no refill.
/// An admitted request writes it once, and a refused request does not write it. Times are exact to
/// a few nanoseconds, and rounding errors do not accumulate. At a rate above a quarter of a permit
/// per nanosecond, these nanoseconds may add or remove one token in a burst.
///
/// ```
/// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let bucket =
///     TokenBucket::with_clock(Rate::new(10, Duration::from_secs(1))?, 5, clock.clone());
/// assert!(bucket.try_acquire_many(4).is_admitted());
/// let refusal = bucket.try_acquire_many(3).refusal().expect("one is left");
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_millis(60_200)));
/// clock.advance(Duration::from_millis(200));
/// assert!(bucket.try_acquire_many(3).is_admitted());
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
///
/// # Threads
///
/// The bucket is one atomic, the time at which it is full, and threads that are admitted at the
/// same time compete for its cache line. The tokens cannot be divided among several atomics without
/// a loss of exactness: a bucket that is full loses the tokens that would be added, and how many
/// these are depends on the time of each earlier request. A bucket that serves less than its rate
/// is full at the time of most requests. Where many threads ask one limiter, a
/// [`SlidingWindowLimiter`](crate::flow::SlidingWindowLimiter) scales with them.
///
/// # Edges
///
/// - A capacity of 0 refuses every request for at least one permit, with the reason
///   [`MoreThanLimit`](crate::flow::Reason::MoreThanLimit). So does any capacity for a request for
///   more than the capacity: it can never be admitted
///   ([`Retry::Never`](crate::flow::Retry::Never)).
/// - There is no [`Rate`] of 0. The fastest rate is one permit per nanosecond, at which a burst is
///   exact.
/// - At a slow rate, the bucket may not be full again before the end of time, 584 years after the
///   epoch of the clock. It then has only the tokens that are added again before the end of time,
///   and one more. Once that one is taken, it is empty for ever, and its refusals say so
///   ([`Retry::Never`](crate::flow::Retry::Never)). With one permit in 584 years, it gives out one
///   token.
/// - If [`available_at`](Self::available_at) is n, a request for n permits is admitted, and one for
///   n + 1 is refused, at every rate and time. If the tokens are taken one by one and a token does
///   not take a whole number of nanoseconds, the last one may be there a nanosecond later, and one
///   more may fit before the end of time.
///
/// ```
/// use leaparray::flow::{LimiterExt, Rate, Reason, Retry, TokenBucket};
/// use std::time::Duration;
///
/// let slowest = TokenBucket::new(Rate::new(1, Duration::from_nanos(u64::MAX))?, 5);
/// assert_eq!(slowest.available(), 1);
/// assert!(slowest.try_acquire().is_admitted());
/// assert_eq!(slowest.try_acquire().refusal().unwrap().retry(), Retry::Never);
/// let closed = TokenBucket::new(Rate::per_second(10)?, 0);
/// assert_eq!(closed.try_acquire().refusal().unwrap().reason, Reason::MoreThanLimit);
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Debug)]
pub struct TokenBucket<C = MonotonicClock> {
    /// The word is the time at which the bucket is full, in nanoseconds.
    live: Live<Fill>,
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
        let live = Live::new(Fill::new(rate, capacity), 0);
        Self { live, horizon: Horizon::new(), clock }
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
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
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
    pub fn rate(&self) -> Rate {
        self.live.settings().rate
    }

    /// Returns the number of tokens in a full bucket.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.live.settings().capacity
    }

    /// Changes the rate now; see [`set_rate_at`](Self::set_rate_at).
    pub fn set_rate(&self, rate: Rate) {
        self.set_rate_at(self.now(), rate);
    }

    /// Changes the rate at `now`. Other threads may ask for tokens at the same time. The tokens in
    /// the bucket stay, and so does the fraction of the next token that has been added: after half
    /// of the old interval, the next token comes after half of the new one.
    ///
    /// A decision is by the old settings or by the new ones, as a whole, and no thread waits for
    /// one that changes them. Threads that change settings at the same time take turns. After the
    /// first change, a decision takes some nanoseconds longer, because it has to find the current
    /// settings.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let ms = Duration::from_millis;
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 5, clock.clone());
    /// assert!(bucket.try_acquire_many(4).is_admitted());
    /// clock.advance(ms(50));
    /// bucket.set_rate(Rate::per_second(1)?);
    /// assert_eq!((bucket.rate(), bucket.available()), (Rate::per_second(1)?, 1));
    /// clock.advance(ms(499));
    /// assert_eq!(bucket.available(), 1);
    /// clock.advance(ms(1));
    /// assert_eq!(bucket.available(), 2);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    pub fn set_rate_at(&self, now: Timestamp, rate: Rate) {
        let now = self.horizon.bound(now.as_nanos(), &self.clock);
        self.live.change(now, |fill| Fill::new(rate, fill.capacity));
    }

    /// Changes the capacity now; see [`set_capacity_at`](Self::set_capacity_at).
    pub fn set_capacity(&self, capacity: u64) {
        self.set_capacity_at(self.now(), capacity);
    }

    /// Changes the capacity at `now`, as [`set_rate_at`](Self::set_rate_at) changes the rate. The
    /// tokens in the bucket stay, up to the new capacity. A higher capacity adds no tokens: they
    /// are added at the rate.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 5, clock.clone());
    /// bucket.set_capacity(3);
    /// assert_eq!((bucket.capacity(), bucket.available()), (3, 3));
    /// bucket.set_capacity(10);
    /// assert_eq!((bucket.capacity(), bucket.available()), (10, 3));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(bucket.available(), 10);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    pub fn set_capacity_at(&self, now: Timestamp, capacity: u64) {
        let now = self.horizon.bound(now.as_nanos(), &self.clock);
        self.live.change(now, |fill| Fill::new(fill.rate, capacity));
    }

    /// Returns the number of tokens in the bucket now.
    pub fn available(&self) -> u64 {
        self.available_at(self.clock.now())
    }

    /// Returns the number of tokens in the bucket at `now`.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.read(|fill, full_at| fill.available(full_at, now.as_nanos()))
    }

    /// Takes `permits` tokens by the current settings.
    #[inline(never)]
    fn take_later(&self, now: u64, permits: u64) -> Decision {
        self.live.with(|version| decision(take_from(version, now, permits)))
    }

    /// Returns what `read` finds in the settings and the time of the bucket.
    fn read<R>(&self, read: impl Fn(&Fill, u64) -> R) -> R {
        self.live.with(|version| {
            // Relaxed: as in `take_from`.
            let full_at = version.word.load(Ordering::Relaxed);
            (full_at != CLOSED).then(|| read(&version.settings, full_at))
        })
    }
}

/// Takes `permits` tokens, at least one.
#[inline(always)]
#[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
fn take_from(version: &Version<Fill>, now: u64, permits: u64) -> Result<(), NotAdmitted> {
    // Relaxed: the modification order of the time decides.
    let mut full_at = version.word.load(Ordering::Relaxed);
    loop {
        let then = version.settings.take(full_at, now, permits)?;
        // Release: pairs with the Acquire in `give_back_to`.
        match version.word.compare_exchange_weak(
            full_at,
            then,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Ok(()),
            Err(found) => full_at = found,
        }
    }
}

/// Returns the decision; `None` if the word is closed.
#[inline]
fn decision(taken: Result<(), NotAdmitted>) -> Option<Decision> {
    match taken {
        Ok(()) => Some(Decision::Admitted(())),
        Err(NotAdmitted::Until(nanos)) => {
            let retry_at = Timestamp::from_nanos(nanos);
            Some(Decision::Refused(Refusal::due(Reason::LimitReached, retry_at)))
        }
        Err(not) => not.refusal(Reason::LimitReached).map(Decision::Refused),
    }
}

/// Gives `permits` tokens back that were taken at `now`. Returns whether any was given back; `None`
/// if the word is closed.
///
/// Each attempt loads the word first, then reads the clock, and then replaces that word. So the
/// reading is not older than any request in the word. With a reading from before the load, this
/// interleaving would exceed a capacity of 5, at 10 tokens a second:
///
/// 1. A thread takes 5 tokens at 60.0 s, so the bucket is full at 60.5 s. To give them back, the
///    thread reads the clock, and is stopped.
/// 2. At 60.5 s, another thread takes 2 of the 5 tokens that were added. The bucket is full at 60.7
///    s.
/// 3. The first thread goes on. It takes the bucket to have been empty at 60.2 s, and deducts the
///    tokens added until then. The bucket is full at 60.4 s, and 5 more tokens are taken at 60.5 s:
///    7 at one time.
fn give_back_to(
    version: &Version<Fill>,
    clock: &impl Clock,
    now: u64,
    permits: u64,
) -> Option<bool> {
    // Acquire: pairs with the Release in `take_from`. The steps of a thread before it took tokens,
    // such as a read of the clock, happen before the read below. A compare-exchange continues the
    // release sequences of those before.
    let mut full_at = version.word.load(Ordering::Acquire);
    while full_at != CLOSED {
        let reading = clock.now().as_nanos();
        let Some(then) = version.settings.give_back(full_at, now, permits, reading) else {
            return Some(permits == 0);
        };
        match version.word.compare_exchange_weak(
            full_at,
            then,
            Ordering::Relaxed,
            Ordering::Acquire,
        ) {
            Ok(_) => return Some(true),
            Err(found) => full_at = found,
        }
    }
    None
}

impl<C: Clock> Limiter for TokenBucket<C> {
    type Permit = ();

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision {
        let (now, permits) = (ask.now().as_nanos(), ask.permits());
        let now = self.horizon.bound(now, &self.clock);
        if permits == 0 {
            return Decision::Admitted(());
        }
        match take_from(self.live.first(), now, permits) {
            Ok(()) => Decision::Admitted(()),
            Err(NotAdmitted::Until(nanos)) => {
                let retry_at = Timestamp::from_nanos(nanos);
                Decision::Refused(Refusal::due(Reason::LimitReached, retry_at))
            }
            // After the first change, for more permits than the capacity, or at the end of time.
            Err(_) => self.take_later(now, permits),
        }
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        if ask.permits() == 0 {
            return Some(Decision::Admitted(()));
        }
        let now = self.horizon.bounded(ask.now().as_nanos(), &self.clock);
        let peek = self.live.with(|version| {
            let full_at = version.word.load(Ordering::Relaxed);
            decision(version.settings.take(full_at, now, ask.permits()).map(drop))
        });
        Some(peek)
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<C: Clock> Account for TokenBucket<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Gives tokens back to the bucket. It never has more tokens than the capacity, and the
    /// requests that go ahead never exceed the capacity and the rate, also if other requests were
    /// admitted since. For this, no request's time may be ahead of the limiter's clock; see below.
    ///
    /// Reads the limiter's clock. While the tokens were taken, the bucket may have been full, and
    /// tokens that were added in that time do not count twice. So as many tokens are deducted as
    /// are added from `now` to the time of the clock. Tokens that are given back at once are given
    /// back in full. If as many would have been added in the meantime, none is given back, and the
    /// result is `false`.
    ///
    /// Tokens that were taken before the rate or the capacity was changed are not given back. Nor
    /// are tokens that were taken at the time of the change, before or after it.
    ///
    /// # Times ahead of the clock
    ///
    /// If a request after `now` was ahead of the clock, and the clock has not reached its time,
    /// tokens that were added from the reading of the clock to that time may count twice. There are
    /// at most as many as are given back, and as are added in the
    /// [lead](TokenBucket::with_max_lead). None counts twice if that request left the bucket empty.
    /// In a simulation, whose times are not those of the clock, give tokens back before a later
    /// request asks.
    ///
    /// A request whose time was further ahead of the clock than the lead took its tokens at an
    /// earlier time than `now`. They are not given back, since too few tokens would be deducted.
    /// Nor are those of other requests between the earliest and the latest such time.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    /// use leaparray::{Clock, ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 5, clock.clone());
    /// let now = clock.now();
    /// assert!(bucket.try_acquire_at(now, 5).is_admitted());
    /// assert!(bucket.refund_at(now, 2, Duration::ZERO));
    /// assert_eq!(bucket.available_at(now), 2);
    /// clock.advance(Duration::from_millis(100));
    /// assert!(bucket.refund_at(now, 3, Duration::ZERO), "two of the three");
    /// assert_eq!(bucket.available(), 5);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    fn refund(&self, ask: &Ask<'_>, _wait: Duration) -> bool {
        let (now, permits) = (ask.now().as_nanos(), ask.permits());
        // The tokens of a later time were taken at an earlier one, which is not known.
        if !self.horizon.decided_at(now) {
            return permits == 0;
        }
        self.live.with(|version| give_back_to(version, &self.clock, now, permits))
    }

    /// Returns the capacity, the tokens in the bucket, and the time at which it is full; `None` if
    /// that is after the end of time.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.read(|fill, full_at| {
            let reset = (full_at < SATURATED).then_some(Timestamp::from_nanos(full_at));
            let remaining = fill.available(full_at, now.as_nanos());
            Some(fill.quota(remaining, reset))
        })
    }

    /// Returns whether the bucket is full at `now`, which is bounded as for a request.
    fn is_as_new(&self, now: Timestamp) -> bool {
        let now = Timestamp::from_nanos(self.horizon.bounded(now.as_nanos(), &self.clock));
        self.quota(now).is_some_and(|quota| quota.is_whole_at(now))
    }
}
