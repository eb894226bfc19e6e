//! A limiter whose limit is lower while the service is cold.

mod config;
mod curve;
mod ration;
mod view;
mod warmth;

pub use config::WarmUpConfig;

use std::time::Duration;

use super::permit_window::PermitWindow;
use super::{BucketPermits, Decision, LimitError, Limiter, Quota};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};
use ration::CurveRation;
use view::View;

/// A [`SlidingWindowLimiter`](super::SlidingWindowLimiter) whose limit is lower while the service is cold, that is,
/// after its start and after a time with few requests, when caches are empty and connections are closed.
///
/// A token bucket measures how cold the service is, as in Sentinel's warm-up controller and Guava's `SmoothWarmingUp`.
/// Tokens are added at the rate of the limit, and admitted requests take tokens. Up to a *warning line* of tokens, the
/// limit is whole. From the line to the full bucket, the time between two permits rises linearly, to `cold_factor`
/// times as much. Above the line, tokens are added only while no request is refused and fewer permits are taken than a
/// cold service admits. The size of the bucket follows from the period: under full demand, the full bucket falls to the
/// line in that time.
///
/// Tokens are counted when a bucket of the window ends, and the limit is constant during the next bucket. It is a whole
/// number of permits, rounded down, and at least one. Because of the rounding, a service with a small limit warms up
/// later than the period. With a limit below the cold factor, it warms up earlier, because it has one permit even when
/// it is cold. A service is cold at the beginning.
///
/// A request for more permits than a cold service admits is admitted if the window has no other permits. Otherwise, it
/// would wait for ever.
///
/// ```
/// use leaparray::flow::{Limiter, WarmUp, WarmUpConfig};
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
/// assert_eq!(admitted, [31, 33, 35, 37, 40, 44, 49, 58, 73, 90, 90, 90]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WarmUp<C = MonotonicClock> {
    window: PermitWindow,
    ration: CurveRation,
    clock: C,
}

impl WarmUp {
    /// Creates a limiter with its own [`MonotonicClock`]. `limit` is the number of permits in any window when the
    /// service is warm.
    ///
    /// # Errors
    ///
    /// Returns a [`LimitError`] if `limit` is zero, or above the [maximum](super::SlidingWindowLimiter::max_limit) for
    /// that geometry.
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
        PermitWindow::check(&window, limit)?;
        if limit == 0 {
            return Err(LimitError::Zero);
        }
        let ration = CurveRation::new(&window, limit, config);
        Ok(Self { window: PermitWindow::new(window), ration, clock })
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
    /// use leaparray::flow::{Limiter, WarmUp, WarmUpConfig};
    /// use leaparray::{ManualClock, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let (t, second) = (Timestamp::from_secs, Duration::from_secs(1));
    /// let window = WindowConfig::new(10, second)?;
    /// let clock = ManualClock::new(t(60));
    /// let limiter = WarmUp::with_clock(window, 90, WarmUpConfig::default(), clock)?.with_max_lead(second);
    /// // An hour ahead: the permits are taken at 61 s.
    /// assert!(limiter.try_acquire_at(t(3_660), 30).is_admitted());
    /// assert_eq!([t(61), t(62)].map(|now| limiter.available_at(now)), [0, 30]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        Self { window: self.window.with_max_lead(lead), ..self }
    }

    /// Returns the [lead](Self::with_max_lead).
    #[must_use]
    pub const fn max_lead(&self) -> Duration {
        self.window.max_lead()
    }

    /// Returns the number of permits in any window when the service is warm.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.ration.limit()
    }

    /// Changes the limit at once. Other threads may ask for permits at the same time. The service stays as warm as it is,
    /// as a share, and a debt takes the same time as before. If the new limit is lower, permits above it are not taken
    /// back: they leave the window with their buckets.
    ///
    /// # Errors
    ///
    /// As for [`new`](WarmUp::new). The limit is then unchanged.
    ///
    /// ```
    /// use leaparray::flow::{Limiter, WarmUp, WarmUpConfig};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let limiter = WarmUp::new(second, 100, WarmUpConfig::default())?;
    /// let times = (0..1_100).map(|tenths| Timestamp::from_millis(60_000 + tenths * 100));
    /// times.for_each(|now| while limiter.try_acquire_at(now, 1).is_admitted() {});
    /// let now = Timestamp::from_secs(170);
    /// assert_eq!(limiter.current_limit_at(now), 100, "warm");
    /// limiter.set_limit(200)?;
    /// assert_eq!(limiter.current_limit_at(now), 200, "as warm as before");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(&self, limit: u64) -> Result<(), LimitError> {
        self.ration.set_limit(self.window.config(), limit)
    }

    /// Returns the period and the cold factor.
    #[must_use]
    pub fn config(&self) -> WarmUpConfig {
        self.ration.config()
    }

    /// Changes the period and the cold factor at once. Other threads may ask for permits at the same time. The service
    /// stays as warm as it is, as a share: a service in the middle of its tokens is in the middle of the new ones.
    ///
    /// ```
    /// use leaparray::flow::{WarmUp, WarmUpConfig};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let limiter = WarmUp::new(second, 90, WarmUpConfig::default())?;
    /// assert_eq!(limiter.current_limit_at(Timestamp::from_secs(60)), 30, "cold");
    /// limiter.set_config(WarmUpConfig::new(Duration::from_secs(30), 9.0)?);
    /// assert_eq!(limiter.current_limit_at(Timestamp::from_secs(60)), 10, "as cold as before");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_config(&self, config: WarmUpConfig) {
        self.ration.set_config(self.window.config(), config);
    }

    /// Returns the number of permits in the current window; see [`current_limit_at`](Self::current_limit_at).
    pub fn current_limit(&self) -> u64 {
        self.current_limit_at(self.now())
    }

    /// Returns the number of permits in the window at `now`, from the tokens that have been counted. Permits that were
    /// taken in the last bucket are counted when a request asks in a later bucket.
    pub fn current_limit_at(&self, now: Timestamp) -> u64 {
        self.view_at(now).limit()
    }

    /// Returns the number of permits that are left in the current window; see [`available_at`](Self::available_at).
    pub fn available(&self) -> u64 {
        self.available_at(self.now())
    }

    /// Returns the number of permits that are left in the window at `now`: the [limit](Self::current_limit_at) of that
    /// time, less the permits that were taken. The result is exact if no request asks during the call.
    ///
    /// If none was taken, a request for more permits than these is admitted, up to the [limit](Self::limit) of a warm
    /// service.
    ///
    /// ```
    /// use leaparray::flow::{Limiter, WarmUp, WarmUpConfig};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let limiter = WarmUp::new(second, 90, WarmUpConfig::default())?;
    /// let now = Timestamp::from_secs(60);
    /// assert!(limiter.try_acquire_at(now, 12).is_admitted());
    /// assert_eq!((limiter.current_limit_at(now), limiter.available_at(now)), (30, 18));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.view_at(now).available()
    }

    /// Returns the buckets of the current window and their permits; see
    /// [`permits_by_bucket_at`](Self::permits_by_bucket_at).
    pub fn permits_by_bucket(&self) -> Vec<BucketPermits> {
        self.permits_by_bucket_at(self.now())
    }

    /// Returns the buckets of the window at `now` and the permits that were taken in each, from the oldest bucket to the
    /// newest, as [`SlidingWindowLimiter::permits_by_bucket_at`](super::SlidingWindowLimiter::permits_by_bucket_at)
    /// does.
    pub fn permits_by_bucket_at(&self, now: Timestamp) -> Vec<BucketPermits> {
        self.window.permits_by_bucket(now)
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
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        self.window.take(now, permits, &self.ration, &self.clock)
    }

    /// Returns the decision that a request would get. Takes no permits, and does not count a refusal as demand.
    fn peek_at(&self, now: Timestamp, permits: u64) -> Option<Decision> {
        let number = self.window.config().bucket_number(now);
        let number = self.window.within_horizon(number, &self.clock);
        Some(View::peek(&self.ration, &self.window, number, permits))
    }

    /// Returns the current limit, which rises and falls with the load, and the permits that are left of it in the window. A
    /// request for more may be admitted, if the window has no permits. The time at which the whole limit remains is not
    /// known.
    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        let view = self.view_at(now);
        Some(Quota::new(view.burst(), view.available(), None))
    }
}
