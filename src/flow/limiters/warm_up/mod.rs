//! A limiter whose limit is lower while the service is cold.

mod config;
mod curve;
mod error;
mod ration;
mod view;
mod warmth;

pub use config::WarmUpConfig;
pub use error::WarmUpError;

use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, LimitError, Limiter, Quota};
use crate::flow::permits::{BucketPermits, PermitWindow};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};
use ration::CurveRation;
use view::View;

/// A [`SlidingWindowLimiter`](crate::flow::SlidingWindowLimiter) whose limit is lower while the
/// service is cold, that is, after its start and after a time with few requests, when caches are
/// empty and connections are closed.
///
/// # The curve
///
/// A token bucket measures how cold the service is, as in Guava's `SmoothWarmingUp` and in
/// Sentinel's warm-up controller. Admitted requests take tokens. Up to a *warning line* of tokens,
/// the rate is the limit. From the line to the full bucket, the time between two permits rises
/// linearly, to the cold factor times as much. The size of the bucket follows from the period:
/// under full demand, the full bucket falls to the line in that time.
///
/// Under full demand, the permits that were admitted up to the end of a bucket of the window are
/// those of this curve, and less than one request more, for any period and also for periods shorter
/// than the window. So if no request asks for more than 2 % of the permits of a period, the sum of
/// the period differs from the curve by less than 2 %. With the default factor of 3, the period has
/// half of the permits of a warm service. After it, the whole rate is admitted. A window then has
/// the whole limit one interval later.
///
/// # Credit and debt
///
/// *Credit* is the part of the curve that no request has taken, in at most one window including the
/// current bucket. So a burst after an idle time is at most the permits of the curve in a window. A
/// warm service whose credit is full decides exactly as a sliding window of the whole limit does.
/// Before its first permit, a service has no credit.
///
/// A request for several permits is admitted if any permit is free, and if the window has as many
/// left of the whole limit. If it takes more than the curve has given, this is *debt*: later
/// requests are refused until it is paid. So a request for the whole limit is admitted at any cold
/// factor, and the mean rate follows the curve.
///
/// In all cases, any window has at most the limit. A refusal tells the first time at which the same
/// request is admitted, if no other request asks until then.
///
/// # Cooling
///
/// Above the line, tokens are added at the rate of the limit, in each bucket without a refusal and
/// without debt whose window has fewer permits than a cold service admits at first. A refusal
/// counts until its bucket has left the window. A request for more than the limit can never
/// succeed, and is no demand. An idle service is cold again after `2 / (1 + cold factor)` of the
/// period. A service is cold at the beginning.
///
/// The state is replaced when a bucket of the window is closed, which allocates once.
///
/// ```
/// use leaparray::flow::{LimiterExt, WarmUp, WarmUpConfig};
/// use leaparray::{ManualClock, Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let window = WindowConfig::new(10, Duration::from_secs(1))?;
/// let limiter = WarmUp::with_clock(window, 90, WarmUpConfig::default(), clock.clone())?;
/// // A hundred requests arrive every 100 ms.
/// let burst = || {
///     clock.advance(Duration::from_millis(100));
///     (0..100).filter(|_| limiter.try_acquire().is_admitted()).count()
/// };
/// let admitted: Vec<usize> = (0..12).map(|_| (0..10).map(|_| burst()).sum()).collect();
/// assert_eq!(admitted, [31, 32, 34, 37, 38, 42, 47, 52, 61, 76, 90, 90]);
/// assert_eq!(admitted[..10].iter().sum::<usize>(), 450, "half of 900");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WarmUp<C = MonotonicClock> {
    window: PermitWindow,
    ration: CurveRation,
    clock: C,
}

impl WarmUp {
    /// Creates a limiter with its own [`MonotonicClock`]. `limit` is the number of permits in any
    /// window when the service is warm.
    ///
    /// # Errors
    ///
    /// Returns a [`LimitError`] if `limit` is zero, or above the
    /// [maximum](crate::flow::SlidingWindowLimiter::max_limit) for that geometry.
    pub fn new(window: WindowConfig, limit: u64, config: WarmUpConfig) -> Result<Self, LimitError> {
        Self::with_clock(window, limit, config, MonotonicClock::new())
    }
}

impl<C: Clock> WarmUp<C> {
    /// Creates a limiter that reads `clock`.
    ///
    /// # Errors
    ///
    /// As for [`new`](WarmUp::new).
    pub fn with_clock(
        window: WindowConfig,
        limit: u64,
        config: WarmUpConfig,
        clock: C,
    ) -> Result<Self, LimitError> {
        Self::check(&window, limit)?;
        let ration = CurveRation::new(&window, limit, config);
        Ok(Self { window: PermitWindow::new(window), ration, clock })
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
    /// use leaparray::flow::{LimiterExt, WarmUp, WarmUpConfig};
    /// use leaparray::{ManualClock, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let (t, second) = (Timestamp::from_secs, Duration::from_secs(1));
    /// let window = WindowConfig::new(10, second)?;
    /// let clock = ManualClock::new(t(60));
    /// let limiter =
    ///     WarmUp::with_clock(window, 90, WarmUpConfig::default(), clock)?.with_max_lead(second);
    /// // An hour ahead: the permits are taken at 61 s, and cost a cold service nearly a second.
    /// assert!(limiter.try_acquire_at(t(3_660), 30).is_admitted());
    /// assert_eq!([t(61), t(62)].map(|now| limiter.quota_at(now).unwrap().remaining), [0, 4]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        Self { window: self.window.with_max_lead(lead), ..self }
    }

    /// Returns the number of permits in any window when the service is warm.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.ration.limit()
    }

    /// Returns the period and the cold factor.
    #[must_use]
    pub fn config(&self) -> WarmUpConfig {
        self.ration.config()
    }

    /// [Changes](crate::flow#changes-in-place) the limit, the period and the cold factor, now. The
    /// service stays as warm as it is, as a share: a service in the middle of its tokens is in the
    /// middle of the new ones. A debt takes the same time as before. Permits that were taken stay
    /// taken, until their bucket leaves the window. Those of the present bucket are paid by the
    /// former curve, or by the new one if that takes less time.
    ///
    /// # Errors
    ///
    /// As for [`new`](WarmUp::new). Nothing is changed then.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, WarmUp, WarmUpConfig};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let limiter = WarmUp::new(second, 90, WarmUpConfig::default())?;
    /// let now = Timestamp::from_secs(60);
    /// assert_eq!(limiter.current_limit_at(now), 30, "cold: a third");
    /// limiter.reconfigure(180, WarmUpConfig::new(Duration::from_secs(30), 9.0)?)?;
    /// assert_eq!(limiter.current_limit_at(now), 20, "as cold as before: a ninth");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, limit: u64, config: WarmUpConfig) -> Result<(), LimitError> {
        self.reconfigure_at(self.clock.now(), limit, config)
    }

    /// Like [`reconfigure`](Self::reconfigure), at a time that the caller knows. Until then, the
    /// service has warmed up or cooled down under the former settings.
    ///
    /// # Errors
    ///
    /// As for [`new`](WarmUp::new). Nothing is changed then.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, WarmUp, WarmUpConfig};
    /// use leaparray::{ManualClock, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let limiter = WarmUp::with_clock(second, 90, WarmUpConfig::default(), clock.clone())?;
    /// assert!(limiter.try_acquire_at(Timestamp::from_secs(60), 90).is_admitted());
    /// clock.advance(Duration::from_secs(10));
    /// let now = Timestamp::from_secs(70);
    /// assert_eq!(limiter.current_limit_at(now), 30, "it is cold again");
    /// limiter.reconfigure_at(now, 90, WarmUpConfig::new(Duration::from_secs(100), 3.0)?)?;
    /// assert_eq!(limiter.current_limit_at(now), 30, "and stays so");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure_at(
        &self,
        now: Timestamp,
        limit: u64,
        config: WarmUpConfig,
    ) -> Result<(), LimitError> {
        Self::check(self.window.config(), limit)?;
        // Closes the buckets before under the former settings.
        let number = self.window.open_bucket_of(now, &self.ration, &self.clock);
        self.ration.reconfigure(&self.window, number, limit, config);
        Ok(())
    }

    /// Returns the permits that were taken in each bucket of the window at `now`, as a
    /// [sliding window](crate::flow::SlidingWindowLimiter::permits_by_bucket_at) does.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, WarmUp, WarmUpConfig};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let limiter = WarmUp::new(second, 90, WarmUpConfig::default())?;
    /// let now = Timestamp::from_secs(60);
    /// assert!(limiter.try_acquire_at(now, 12).is_admitted());
    /// let taken: u64 = limiter.permits_by_bucket_at(now).iter().map(|it| it.permits).sum();
    /// assert_eq!(taken, 12);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn permits_by_bucket_at(&self, now: Timestamp) -> Vec<BucketPermits> {
        self.window.permits_by_bucket(now)
    }

    fn check(window: &WindowConfig, limit: u64) -> Result<(), LimitError> {
        if limit == 0 {
            return Err(LimitError::Zero);
        }
        PermitWindow::check(window, limit)
    }

    /// Returns the permits of a window at the rate of the service at `now`, if no more permits are
    /// taken until then: from the [limit](Self::limit) divided by the cold factor, when the service
    /// is cold, to the limit. It is rounded down, and at least one. If a request has asked in a
    /// later bucket than `now`, the result is for that bucket.
    pub fn current_limit_at(&self, now: Timestamp) -> u64 {
        self.view_at(now).limit()
    }
}

impl<C: Clock> WarmUp<C> {
    /// Closes no bucket, and does not advance the horizon.
    fn view_at(&self, now: Timestamp) -> View {
        View::read(&self.ration, &self.window, self.window.config().bucket_number(now))
    }
}

impl<C: Clock> Limiter for WarmUp<C> {
    type Permit = ();

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.window.take(ask.now(), ask.permits(), &self.ration, &self.clock)
    }

    /// Returns the decision that a request would get. Takes no permits, and does not count a
    /// refusal as demand.
    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        let number = self.window.config().bucket_number(ask.now());
        let number = self.window.within_horizon(number, &self.clock);
        Some(View::peek(&self.ration, &self.window, number, ask.permits()))
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<C: Clock> Account for WarmUp<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns `false`: permits are not given back, since they have warmed the service up as far as
    /// the limiter knows. In an [`AllOf`](crate::flow::AllOf), put a warm-up last: it is then asked
    /// after the other limiters have given their permits.
    fn refund(&self, _ask: &Ask<'_>, _wait: Duration) -> bool {
        false
    }

    /// Returns two numbers of permits. The limit is how many can be taken at once when the credit
    /// is full; it rises and falls with the load. The remaining ones can be taken at `now`, one by
    /// one: the credit and the permits of the curve in the bucket, but not more than the window has
    /// left of the [limit](WarmUp::limit). The result is exact if no request asks during the call.
    /// If any permit remains, a request for more than the remaining ones is admitted, as long as
    /// the window has as many left. The time at which the whole limit remains is not known.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, WarmUp, WarmUpConfig};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let limiter = WarmUp::new(second, 90, WarmUpConfig::default())?;
    /// let now = Timestamp::from_secs(60);
    /// let remaining = || limiter.quota_at(now).map(|quota| quota.remaining);
    /// // 30 a second are 3 in a bucket, and the rate rises within the bucket.
    /// assert_eq!((limiter.current_limit_at(now), remaining()), (30, Some(4)));
    /// assert!(limiter.try_acquire_at(now, 12).is_admitted());
    /// assert_eq!(remaining(), Some(0), "until the 12 are paid");
    /// let refusal = limiter.try_acquire_at(now, 1).refusal().expect("they are not");
    /// assert_eq!(refusal.retry_at(), Some(Timestamp::from_millis(60_300)));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let view = self.view_at(now);
        let quota = Quota::new(view.burst(), view.available(), None);
        Some(quota.with_window(self.window.config().interval()))
    }

    /// Returns whether the service is cold and the window has no permits. A new service then admits
    /// no more than this one, which has [credit](WarmUp#credit-and-debt).
    fn is_as_new(&self, now: Timestamp) -> bool {
        let now = self.window.bounded(now, &self.clock);
        self.window.is_as_new(now) && self.view_at(now).is_cold()
    }
}
