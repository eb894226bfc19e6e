//! The configuration of a circuit breaker.

use std::time::Duration;

use super::ratio::RatioLimit;
use super::wait::Wait;
use super::word::Probes;
use crate::count_window::CountWindow;
use crate::flow::feedback::circuit::CircuitConfigError;
use crate::node::OnDrop;
use crate::time::{WindowConfig, saturating_nanos};

/// The configuration of a [`CircuitBreaker`](super::CircuitBreaker): which calls count, when it
/// opens, for how long, and how it closes again.
///
/// ```
/// use leaparray::WindowConfig;
/// use leaparray::flow::CircuitConfig;
/// use leaparray::flow::circuit::{RatioLimit, Wait};
/// use std::time::Duration;
///
/// let config = CircuitConfig::default()
///     .window(WindowConfig::new(10, Duration::from_secs(20))?)?
///     .min_calls(50)
///     .exception_ratio(RatioLimit::at_least(0.3)?)
///     .slow_ratio(RatioLimit::at_least(0.8)?, Duration::from_secs(2))
///     .wait(Wait::new(Duration::from_secs(1)).growing(2.0, Duration::from_secs(60))?)
///     .probes(5)?;
/// # let _ = config;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct CircuitConfig {
    pub(super) calls: Calls,
    pub(super) min_calls: u64,
    pub(super) exception_ratio: Option<RatioLimit>,
    pub(super) slow: Option<SlowLimit>,
    pub(super) exceptions: Option<u64>,
    pub(super) consecutive_exceptions: Option<u64>,
    pub(super) wait: Wait,
    pub(super) probes: u16,
    pub(super) half_open_timeout: Option<Duration>,
    pub(super) on_drop: OnDrop,
}

/// The calls that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    InWindow(WindowConfig),
    Last(u32),
}

/// A limit of slow calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SlowLimit {
    pub(super) ratio: RatioLimit,
    /// The response time in nanoseconds above which a call is slow.
    pub(super) above: u64,
}

impl CircuitConfig {
    /// The longest interval of a window.
    pub const MAX_INTERVAL: Duration = Duration::from_secs(3_600);

    /// The highest number of exceptions in a row.
    pub(super) const MAX_CONSECUTIVE: u64 = (1 << 24) - 1;

    /// Counts the calls of a window of time. The default is the last 10 seconds, in 10 buckets.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::Interval`] if the interval is longer than
    /// [`MAX_INTERVAL`](Self::MAX_INTERVAL).
    pub const fn window(self, window: WindowConfig) -> Result<Self, CircuitConfigError> {
        let (interval, max) = (window.interval(), Self::MAX_INTERVAL);
        if interval.as_nanos() > max.as_nanos() {
            return Err(CircuitConfigError::Interval { interval, max });
        }
        Ok(self.in_window(window))
    }

    pub(super) const fn in_window(self, window: WindowConfig) -> Self {
        Self { calls: Calls::InWindow(window), ..self }
    }

    /// Counts the last `calls` calls, instead of those of a window of time.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::Calls`] if the number is 0 or above [`CountWindow::MAX_LEN`].
    pub const fn last_calls(self, calls: u32) -> Result<Self, CircuitConfigError> {
        if calls == 0 || calls > CountWindow::MAX_LEN {
            return Err(CircuitConfigError::Calls { calls, max: CountWindow::MAX_LEN });
        }
        Ok(Self { calls: Calls::Last(calls), ..self })
    }

    /// Sets the minimum number of calls for a ratio. The default is 20. With
    /// [`last_calls`](Self::last_calls), a higher number counts as the number of these calls.
    pub const fn min_calls(self, min_calls: u64) -> Self {
        Self { min_calls, ..self }
    }

    /// Opens the breaker if the share of the calls that end with an exception reaches a limit. The
    /// default is half of the calls.
    pub const fn exception_ratio(self, limit: RatioLimit) -> Self {
        Self { exception_ratio: Some(limit), ..self }
    }

    /// Does not open the breaker for a share of exceptions.
    pub const fn no_exception_ratio(self) -> Self {
        Self { exception_ratio: None, ..self }
    }

    /// Opens the breaker if the share of slow calls reaches a limit: of the calls whose response
    /// time, from the admission to the outcome, is above `slow_above`. By default, it does not. If
    /// another limiter makes an admitted request [wait](crate::flow::Decision::Wait), the wait is
    /// part of the response time.
    pub const fn slow_ratio(self, limit: RatioLimit, slow_above: Duration) -> Self {
        let above = saturating_nanos(slow_above);
        Self { slow: Some(SlowLimit { ratio: limit, above }), ..self }
    }

    /// Opens the breaker if at least `exceptions` of the calls that count end with an exception,
    /// whatever the number of calls. By default, it does not. 0 counts as 1. With
    /// [`last_calls`](Self::last_calls), a higher number counts as the number of these calls.
    pub const fn exceptions(self, exceptions: u64) -> Self {
        Self { exceptions: Some(exceptions), ..self }
    }

    /// Opens the breaker if `exceptions` calls in a row end with an exception. By default, it does
    /// not. 0 counts as 1, and a number above 16,777,215 counts as this number.
    pub const fn consecutive_exceptions(self, exceptions: u64) -> Self {
        Self { consecutive_exceptions: Some(exceptions), ..self }
    }

    /// Sets how long the breaker stays open. The default is a [`Wait`] of 5 seconds.
    pub const fn wait(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }

    /// Sets the number of probes: of the requests that a half-open breaker admits. The default
    /// is 3.
    ///
    /// When all of them have ended, the breaker opens again if the share of exceptions or of slow
    /// calls among them reaches its limit, and closes otherwise. If
    /// [`exceptions`](Self::exceptions) or [`consecutive_exceptions`](Self::consecutive_exceptions)
    /// is set and no ratio of exceptions, the first probe that ends with an exception opens it. If
    /// only a ratio of slow calls is set, probes that fail quickly close it.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::Probes`] if the number is 0 or above 255.
    pub const fn probes(self, probes: u16) -> Result<Self, CircuitConfigError> {
        if probes == 0 || probes > Probes::MAX {
            return Err(CircuitConfigError::Probes { probes, max: Probes::MAX });
        }
        Ok(Self { probes, ..self })
    }

    /// Sets the time after which a half-open breaker opens again, if a probe is still in flight
    /// then. Without one, a probe that never ends would keep it half-open. The default is 10
    /// seconds. The time begins with the last probe, rounded up to a millisecond. While no probe is
    /// in flight, the breaker stays half-open and waits for the next request.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::Timeout`] if the time is 0.
    pub const fn half_open_timeout(
        self,
        timeout: Option<Duration>,
    ) -> Result<Self, CircuitConfigError> {
        if let Some(Duration::ZERO) = timeout {
            return Err(CircuitConfigError::Timeout);
        }
        Ok(Self { half_open_timeout: timeout, ..self })
    }

    /// Sets the outcome of a request whose [`FeedbackPermit`](crate::flow::FeedbackPermit) is
    /// dropped without a report: an exception, which is the default, or a cancellation. A cancelled
    /// probe gives its place to another one.
    pub const fn on_drop(self, policy: OnDrop) -> Self {
        Self { on_drop: policy, ..self }
    }
}

impl CircuitConfig {
    /// Half of at least 20 calls in ten buckets of a second; open for 5 seconds.
    const DEFAULT: Self = {
        let Ok(window) = WindowConfig::new(10, Duration::from_secs(10)) else {
            panic!("a second each")
        };
        Self {
            calls: Calls::InWindow(window),
            min_calls: 20,
            exception_ratio: Some(RatioLimit::HALF),
            slow: None,
            exceptions: None,
            consecutive_exceptions: None,
            wait: Wait::new(Duration::from_secs(5)),
            probes: 3,
            half_open_timeout: Some(Duration::from_secs(10)),
            on_drop: OnDrop::Exception,
        }
    };

    /// The default, with one probe, for which it waits without a time-out.
    pub(super) const WITH_ONE_PROBE: Self =
        Self { probes: 1, half_open_timeout: None, ..Self::DEFAULT };
}

impl Default for CircuitConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}
