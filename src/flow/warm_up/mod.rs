//! A limit that a cold service grows into.

mod config;
mod tokens;

pub use config::WarmUpConfig;

use super::permit_window::PermitWindow;
use super::{Decision, LimitError, Limiter};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};
use tokens::Tokens;

/// A [`SlidingWindowLimiter`](super::SlidingWindowLimiter) whose limit is lower while the service is cold:
/// after it was started, and after there was little to do, when caches and connections have gone.
///
/// How cold it is, a token bucket says, as in Sentinel's warm-up controller and Guava's
/// `SmoothWarmingUp`. Tokens drop into it at the rate of the limit, and who is admitted takes some out. Up
/// to a *warning line* the limit is whole. From there to the full bucket the time between two permits
/// rises in a straight line, to `cold_factor` times as much. Above the line tokens come only while nobody is
/// refused and less is asked for than a cold service admits. The bucket's size follows from the period: under
/// full demand it takes so long from full to the line.
///
/// The tokens are counted when a bucket of the window ends, and the limit holds for the whole of the next
/// one. It is a whole number of permits, one at least, rounded down: a small one warms up later than it
/// should, and one below the cold factor, of which a cold service has one permit nevertheless, sooner. It
/// begins cold.
///
/// Who asks for more permits than a cold service admits is admitted when nothing else is in the window: it
/// would wait for ever otherwise.
///
/// ```
/// use leaparray::flow::{Limiter, WarmUp, WarmUpConfig};
/// use leaparray::{ManualClock, Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let window = WindowConfig::new(10, Duration::from_secs(1))?;
/// let limiter = WarmUp::with_clock(window, 90, WarmUpConfig::default(), clock.clone())?;
/// // A hundred requests come every 100 ms.
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
    tokens: Tokens,
    clock: C,
}

impl WarmUp {
    /// A limiter with a precise clock of its own.
    ///
    /// # Errors
    ///
    /// If `limit` is zero, or above what there can be
    /// [with that geometry](super::SlidingWindowLimiter::max_limit).
    pub fn new(window: WindowConfig, limit: u64, config: WarmUpConfig) -> Result<Self, LimitError> {
        Self::with_clock(window, limit, config, MonotonicClock::new())
    }
}

impl<C: Clock> WarmUp<C> {
    /// A limiter that reads the given clock.
    ///
    /// # Errors
    ///
    /// As of [`new`](WarmUp::new).
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
        let tokens = Tokens::new(&window, limit, config);
        Ok(Self { window: PermitWindow::new(window), tokens, clock })
    }

    /// How many permits there are in any window when it is warm.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.tokens.limit()
    }

    /// How many permits there are now in a window.
    pub fn current_limit(&self) -> u64 {
        self.current_limit_at(self.now())
    }

    /// How many permits there are at `now` in a window, as far as is known: what was taken in the last bucket
    /// is counted when somebody asks in a later one.
    pub fn current_limit_at(&self, now: Timestamp) -> u64 {
        self.tokens.find_limit(self.window.config().bucket_number(now))
    }
}

impl<C: Clock> Limiter for WarmUp<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        self.window.take(now, permits, &self.tokens)
    }
}
