//! A limiter that admits requests at a rate, with bursts.

mod fill;

use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, Limiter, Rate};
use crate::flow::permits::Metered;
use crate::time::{Clock, MonotonicClock, Timestamp};
pub(in crate::flow) use fill::Fill;

/// A limiter that admits requests at a rate, with bursts. Tokens are added to a bucket at the rate
/// until it is full. A request takes one token for each permit, or is refused. The bucket is full
/// at the beginning, unless it [starts empty](TokenBucket::starting_empty).
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
/// - If n tokens [remain](crate::flow::LimiterExt::quota_at), a request for n permits is admitted,
///   and one for n + 1 is refused, at every rate and time. If the tokens are taken one by one and a
///   token does not take a whole number of nanoseconds, the last one may be there a nanosecond
///   later, and one more may fit before the end of time.
///
/// ```
/// use leaparray::flow::{Limiter, LimiterExt, Rate, Reason, Retry, TokenBucket};
/// use std::time::Duration;
///
/// let slowest = TokenBucket::new(Rate::new(1, Duration::from_nanos(u64::MAX))?, 5);
/// let quota = slowest.quota_at(slowest.account().now()).unwrap();
/// assert_eq!(quota.remaining, 1);
/// assert!(slowest.try_acquire().is_admitted());
/// assert_eq!(slowest.try_acquire().refusal().unwrap().retry(), Retry::Never);
/// let closed = TokenBucket::new(Rate::per_second(10)?, 0);
/// assert_eq!(closed.try_acquire().refusal().unwrap().reason, Reason::MoreThanLimit);
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
///
/// # Refunds
///
/// Tokens can be given back ([`refund_at`](crate::flow::LimiterExt::refund_at)). The bucket never
/// has more tokens than the capacity, and the requests that go ahead never exceed the capacity and
/// the rate, also if other requests were admitted since. For this, no request's time may be ahead
/// of the limiter's clock; see below.
///
/// A refund reads the limiter's clock. While the tokens were taken, the bucket may have been full,
/// and tokens that were added in that time do not count twice. So as many tokens are deducted as
/// are added from the time of the request to the time of the clock. Tokens that are given back at
/// once are given back in full. If as many would have been added in the meantime, none is given
/// back, and the result is `false`.
///
/// Tokens that were taken before the rate or the capacity was changed are not given back. Nor are
/// tokens that were taken at the time of the change, before or after it.
///
/// If a later request was ahead of the clock, and the clock has not reached its time, tokens that
/// were added from the reading of the clock to that time may count twice. There are at most as many
/// as are given back, and as are added in the [lead](Self::with_max_lead). None counts twice if
/// that request left the bucket empty. In a simulation, whose times are not those of the clock,
/// give tokens back before a later request asks.
///
/// A request whose time was further ahead of the clock than the lead took its tokens at an earlier
/// time than its own. They are not given back, since too few tokens would be deducted. Nor are
/// those of other requests between the earliest and the latest such time.
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
/// assert_eq!(bucket.quota_at(now).unwrap().remaining, 2);
/// clock.advance(Duration::from_millis(100));
/// assert!(bucket.refund_at(now, 3, Duration::ZERO), "two of the three");
/// assert_eq!(bucket.quota_at(clock.now()).unwrap().remaining, 5);
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Debug)]
pub struct TokenBucket<C = MonotonicClock>(pub(in crate::flow) Metered<Fill, C>);

impl<C> TokenBucket<C> {
    /// The offset of the 64 bytes that a decision reads, in bytes. `leaparray-rules` puts them into
    /// one cache line.
    #[doc(hidden)]
    pub const DECISION_OFFSET: usize = Metered::<Fill, C>::DECISION_OFFSET;
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
        Self(Metered::new(Fill::new(rate, capacity), clock))
    }

    /// Lets the bucket start empty, and fill at the rate from now on, by its clock: for a backend
    /// that is cold after a start, or a service that restarts often and would give out a full
    /// bucket each time.
    ///
    /// The keys of a [`Keyed`](crate::flow::Keyed) limiter that is made with the bucket have full
    /// ones: an idle key is forgotten once its bucket is full, so one that was never seen has a
    /// full bucket as well.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 5, clock.clone());
    /// let bucket = bucket.starting_empty();
    /// let refusal = bucket.try_acquire().refusal().expect("it is empty");
    /// assert_eq!(refusal.retry_at(), Some(Timestamp::from_millis(60_100)));
    /// clock.advance(Duration::from_secs(10));
    /// assert!(bucket.try_acquire_many(5).is_admitted());
    /// assert!(bucket.try_acquire().is_refused());
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    #[must_use]
    pub fn starting_empty(self) -> Self {
        // A change of the capacity adds no tokens.
        let without_tokens = Fill::new(self.rate(), 0);
        Self(self.0.changed_from(&without_tokens))
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
        Self(self.0.with_max_lead(lead))
    }

    /// Returns the rate at which tokens are added.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.0.rule().rate
    }

    /// Returns the number of tokens in a full bucket.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.0.rule().capacity
    }

    /// Changes the rate and the capacity now; see [`reconfigure_at`](Self::reconfigure_at).
    pub fn reconfigure(&self, rate: Rate, capacity: u64) {
        self.reconfigure_at(self.0.now(), rate, capacity);
    }

    /// [Changes](crate::flow#changes-in-place) the rate and the capacity at `now`.
    ///
    /// The tokens in the bucket stay, up to the new capacity, and so does the fraction of the next
    /// token that has been added: after half of the old interval, the next token comes after half
    /// of the new one. A higher capacity adds no tokens: they are added at the rate.
    ///
    /// After the first change, a decision takes some nanoseconds longer, because it has to find the
    /// current settings.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    /// use leaparray::{Clock, ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let ms = Duration::from_millis;
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 5, clock.clone());
    /// assert!(bucket.try_acquire_many(4).is_admitted());
    /// clock.advance(ms(50));
    /// bucket.reconfigure(Rate::per_second(1)?, 6);
    /// let tokens = || bucket.quota_at(clock.now()).unwrap().remaining;
    /// assert_eq!((bucket.capacity(), tokens()), (6, 1));
    /// clock.advance(ms(499));
    /// assert_eq!(tokens(), 1);
    /// clock.advance(ms(1));
    /// assert_eq!(tokens(), 2);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    pub fn reconfigure_at(&self, now: Timestamp, rate: Rate, capacity: u64) {
        self.0.set_at(now, Fill::new(rate, capacity));
    }
}

impl<C: Clock> Limiter for TokenBucket<C> {
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
