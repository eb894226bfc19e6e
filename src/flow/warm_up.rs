//! A limit that a cold service grows into.

use std::time::Duration;

use super::permit_window::{Full, PermitWindow};
use super::word::Layout;
use super::{Decision, LimitError, Limiter, Reason, Refusal, WarmUpError};
use crate::clock::{Clock, MonotonicClock};
use crate::geometry::WindowConfig;
use crate::sync::{AtomicU64, Ordering};
use crate::timestamp::Timestamp;

/// How a service warms up: how long it takes, and how much less it admits when it is cold.
///
/// The default is Sentinel's: 10 seconds, and a third.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUpConfig {
    period: Duration,
    cold_factor: f64,
}

impl WarmUpConfig {
    /// Under full demand, a cold service admits `1 / cold_factor` of its limit at first, and all of it
    /// after `period`.
    ///
    /// # Errors
    ///
    /// If `period` is zero, or `cold_factor` is not a number above 1.
    ///
    /// ```
    /// use leaparray::flow::{WarmUpConfig, WarmUpError};
    /// use std::time::Duration;
    ///
    /// let period = Duration::from_secs(10);
    /// assert_eq!(WarmUpConfig::new(period, 3.0)?, WarmUpConfig::default());
    /// let refused = WarmUpConfig::new(period, 1.0);
    /// assert_eq!(refused, Err(WarmUpError::ColdFactor { cold_factor: 1.0 }));
    /// # Ok::<_, WarmUpError>(())
    /// ```
    pub const fn new(period: Duration, cold_factor: f64) -> Result<Self, WarmUpError> {
        if period.is_zero() {
            return Err(WarmUpError::ZeroPeriod { cold_factor });
        }
        if !(cold_factor > 1.0 && cold_factor.is_finite()) {
            return Err(WarmUpError::ColdFactor { cold_factor });
        }
        Ok(Self { period, cold_factor })
    }

    /// How long it takes under full demand.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// How many times less it admits when it is cold.
    #[must_use]
    pub const fn cold_factor(&self) -> f64 {
        self.cold_factor
    }
}

impl Default for WarmUpConfig {
    fn default() -> Self {
        Self { period: Duration::from_secs(10), cold_factor: 3.0 }
    }
}

/// A [`SlidingWindowLimiter`](super::SlidingWindowLimiter) whose limit is lower while the service is cold:
/// after it was started, and after there was little to do, when caches and connections have gone.
///
/// How cold it is, a token bucket says, as in Sentinel's warm-up controller and Guava's
/// `SmoothWarmingUp`. Tokens drop into it at the rate of the limit, and who is admitted takes some out. Up
/// to a *warning line* the limit is whole. From there to the full bucket the time between two permits
/// rises in a straight line, to `cold_factor` times as much. Above the line tokens come only while less
/// is asked for than a cold service admits. The bucket's size follows from the period: under full demand
/// it takes so long from full to the line.
///
/// The tokens are counted when a bucket of the window ends, and the limit holds for the whole of the next
/// one. It begins cold.
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
    limit: u64,
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
        let max = PermitWindow::max_permits(&window);
        let bucket_len = window.bucket_len();
        if limit > max {
            return Err(LimitError::TooHigh { limit, max, bucket_len });
        }
        if limit == 0 {
            return Err(LimitError::Zero);
        }
        let tokens = Tokens::new(&window, limit, config);
        Ok(Self { limit, window: PermitWindow::new(window), tokens, clock })
    }

    /// How many permits there are in any window when it is warm.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// How many permits there are now in a window.
    pub fn current_limit(&self) -> u64 {
        self.current_limit_at(self.now())
    }

    /// How many permits there are at `now` in a window.
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
        let free = |number, taken| self.tokens.limit_in(number).saturating_sub(taken);
        let close = |number, of_window, of_bucket| self.tokens.close(number, of_window, of_bucket);
        match self.window.take(now, permits, free, close) {
            Ok(()) => Decision::Admitted(()),
            Err(_) if permits > self.limit => Decision::Refused(Refusal::never()),
            Err(Full { number, missing }) => {
                // If the limit were whole by then, so many would still have to leave.
                let rise = self.limit - self.tokens.limit_in(number);
                let retry_at = match missing.saturating_sub(rise) {
                    0 => self.window.begins(number + 1),
                    missing => self.window.leave_at(number, missing),
                };
                Decision::Refused(Refusal::new(Reason::LimitReached, Some(retry_at)))
            }
        }
    }
}

/// The bucket of tokens.
///
/// A token is the permit's worth; they are kept as a share of the full bucket, in so many parts as there is
/// room for in a word beside the number of a bucket of the window, at whose beginning they were counted.
#[derive(Debug)]
struct Tokens {
    /// The flag of a word says that less was asked for than a cold service admits.
    layout: Layout,
    counted: AtomicU64,
    /// The bucket that was last asked for, if there is the flag, and its limit.
    known: AtomicU64,
    /// Permits a window.
    limit: f64,
    /// How many times less when it is full.
    cold_factor: f64,
    /// How many permits a window has when it is full.
    cold_limit: u64,
    /// Where the line is: tokens above it make the limit lower.
    warning: f64,
    full: f64,
    /// How many come in a bucket of the window.
    refill: f64,
    /// Until so many buckets after one with permits, the window may have them.
    remembers: u64,
    /// How many parts a token has.
    parts: f64,
}

impl Tokens {
    #[expect(clippy::cast_precision_loss, reason = "a limit of 2⁵³ is not told from the next")]
    fn new(window: &WindowConfig, limit: u64, config: WarmUpConfig) -> Self {
        let layout = Layout::of(window);
        let limit = limit as f64;
        let WarmUpConfig { period, cold_factor } = config;
        // In the time of a period the whole limit is as many.
        let of_period = limit * period.as_secs_f64() / window.interval().as_secs_f64();
        // The mean time between two permits, from the line to the full bucket, is half of what it is at
        // both ends together; so the tokens above the line are these, to last for the period. The line
        // is Guava's, and Sentinel's.
        let above = 2.0 * of_period / (1.0 + cold_factor);
        let warning = of_period / (cold_factor - 1.0);
        let full = warning + above;
        Self {
            layout,
            counted: AtomicU64::new(layout.word(0, layout.max_count())),
            known: AtomicU64::new(0),
            limit,
            cold_factor,
            cold_limit: whole(limit / cold_factor).max(1),
            warning,
            full,
            refill: limit / window.sample_count() as f64,
            remembers: window.sample_count() as u64 - 1,
            parts: layout.max_count() as f64 / full,
        }
    }

    /// How many permits there are in the window that ends with the newest bucket.
    #[inline]
    fn limit_in(&self, number: u64) -> u64 {
        // Relaxed: the value is all there is.
        let known = self.layout.read(self.known.load(Ordering::Relaxed));
        if known.flag && known.number == number { known.count } else { self.know(number) }
    }

    #[cold]
    fn know(&self, number: u64) -> u64 {
        let limit = self.find_limit(number);
        let known = self.layout.flagged(self.layout.word(number, limit));
        // Relaxed: as above. Of one bucket that is open all find the same; who has an older one in mind puts
        // it in the place of a newer, and that is found again.
        self.known.store(known, Ordering::Relaxed);
        limit
    }

    /// How many permits there are in the window that ends with a bucket, from the tokens.
    fn find_limit(&self, number: u64) -> u64 {
        // Relaxed: who finds the bucket open finds what was counted before, as with what is noted there.
        let tokens = self.tokens_in(self.counted.load(Ordering::Relaxed), number);
        let above = (tokens - self.warning).max(0.0) / (self.full - self.warning);
        whole(self.limit / (1.0 + (self.cold_factor - 1.0) * above)).max(1)
    }

    /// The tokens at the beginning of a bucket, if nobody was admitted since they were counted.
    #[expect(
        clippy::cast_precision_loss,
        reason = "more than 2⁵³ buckets fill it, whatever they do"
    )]
    fn tokens_in(&self, counted: u64, number: u64) -> f64 {
        let counted = self.layout.read(counted);
        let tokens = counted.count as f64 / self.parts;
        let since = number.saturating_sub(counted.number);
        // It cools if it did, or when the window is empty.
        let busy = if counted.flag { 0 } else { since.min(self.remembers) };
        let tokens = self.refilled(tokens, busy, tokens.max(self.warning));
        self.refilled(tokens, since - busy, self.full)
    }

    /// The tokens after so many buckets, up to a line.
    #[expect(
        clippy::cast_precision_loss,
        reason = "more than 2⁵³ buckets fill it, whatever they do"
    )]
    fn refilled(&self, tokens: f64, buckets: u64, up_to: f64) -> f64 {
        (tokens + buckets as f64 * self.refill).min(up_to)
    }

    /// Counts the tokens at the end of a bucket, unless somebody has.
    ///
    /// Should others have gone on, and what this is told be nonsense, then they have counted before.
    #[cold]
    #[expect(clippy::cast_precision_loss, reason = "permits of a window, well below 2⁵³")]
    fn close(&self, number: u64, of_window: u64, of_bucket: u64) {
        let mut found = self.counted.load(Ordering::Relaxed);
        while self.layout.read(found).number <= number {
            let before = self.tokens_in(found, number);
            let cools = of_window < self.cold_limit;
            let up_to = if cools { self.full } else { before.max(self.warning) };
            let tokens = self.refilled(before, 1, up_to) - of_bucket as f64;
            let parts = whole(tokens.max(0.0) * self.parts).min(self.layout.max_count());
            let counted = self.layout.word(number + 1, parts);
            let counted = if cools { self.layout.flagged(counted) } else { counted };
            // Relaxed, as in `limit_in`.
            match self.counted.compare_exchange(
                found,
                counted,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(newer) => found = newer,
            }
        }
    }
}

/// Rounded down, but for what a division is short of by its rounding.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
fn whole(number: f64) -> u64 {
    (number + 1e-9) as u64
}
