//! The limiter of a rule: plain data.

use std::fmt;
use std::time::Duration;

use leaparray::WindowConfig;
use leaparray::flow::adaptive::{Headroom, LimitRange};
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::circuit::{CircuitConfigError, RatioLimit, Wait};
use leaparray::flow::{CircuitConfig, WarmUpConfig, WarmUpError};
use leaparray::time::ConfigError;

use crate::overload::Overload;
use crate::quantity::{Per, Time};
use crate::rule::Quoted;

/// The limiter of a rule, with its numbers. Its text is the part of the rule that names it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Limit {
    /// A limit of the requests in any interval: a
    /// [`SlidingWindowLimiter`](leaparray::flow::SlidingWindowLimiter).
    #[non_exhaustive]
    Window {
        /// The requests of an interval.
        rate: Per,
        /// The number of buckets of the window, which then has the length of the interval. `None`
        /// for a limit that holds in any interval.
        buckets: Option<usize>,
    },
    /// A limit of the requests of all processes of a fleet together, in any interval: a
    /// [`LeasedLimiter`](leaparray_redis::LeasedLimiter).
    #[cfg(feature = "fleet")]
    Fleet(crate::fleet::FleetLimit),
    /// A rate, and bursts up to a size: a [`TokenBucket`](leaparray::flow::TokenBucket).
    #[non_exhaustive]
    Bucket {
        /// The rate.
        rate: Per,
        /// The greatest burst.
        burst: u64,
        /// Whether the bucket is empty at the beginning: when the rule is added. A change of the
        /// rule makes it neither empty nor full.
        starts_empty: bool,
    },
    /// A limit that a cold service reaches after a time: a [`WarmUp`](leaparray::flow::WarmUp).
    #[non_exhaustive]
    WarmUp {
        /// The requests of an interval when the service is warm.
        rate: Per,
        /// The number of buckets of the window.
        buckets: usize,
        /// The time in which the service warms up.
        period: Duration,
        /// The share of the limit that a cold service takes, as the divisor of the limit.
        cold_factor: f64,
    },
    /// Requests evenly spaced: a [`LeakyBucket`](leaparray::flow::LeakyBucket).
    #[non_exhaustive]
    Pace {
        /// The rate.
        rate: Per,
        /// The longest time for which a request waits.
        max_wait: Duration,
    },
    /// A limit of the requests in flight: a
    /// [`ConcurrencyLimiter`](leaparray::flow::ConcurrencyLimiter).
    #[non_exhaustive]
    InFlight {
        /// The limit.
        limit: u64,
    },
    /// As many requests in flight as the backend can serve: an
    /// [`AdaptiveLimiter`](leaparray::flow::AdaptiveLimiter).
    #[non_exhaustive]
    AdaptiveInFlight {
        /// The lowest limit.
        min: u64,
        /// The first limit.
        first: u64,
        /// The highest limit.
        max: u64,
    },
    /// Refuses all requests while a backend fails: a
    /// [`CircuitBreaker`](leaparray::flow::CircuitBreaker).
    Breaker(Breaker),
    /// Refuses the share of requests that a failing backend would reject: an
    /// [`AdaptiveBreaker`](leaparray::flow::AdaptiveBreaker).
    #[non_exhaustive]
    AdaptiveBreaker {
        /// How many requests are admitted for each that succeeds.
        k: f64,
        /// The number of requests up to which none is refused.
        min_requests: u64,
    },
    /// Refuses requests by a measure of something else than what it has admitted.
    Refuse(Overload),
}

/// A circuit breaker.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Breaker {
    /// The failures that open it; `None` if it does not open for failures.
    pub failures: Option<Failures>,
    /// The share of slow calls that opens it, and the time above which a call is slow.
    pub slow: Option<(Percent, Duration)>,
    /// The number of calls from which a share counts.
    pub min_calls: u64,
    /// The calls that count.
    pub counted: Counted,
    /// The time for which it stays open.
    pub wait: Duration,
    /// The longest time to which the wait doubles, if it does.
    pub max_wait: Option<Duration>,
    /// The number of requests that a half-open breaker admits.
    pub probes: u16,
}

/// The failures that open a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Failures {
    /// This share of the calls that count.
    Share(Percent),
    /// At least this number of the calls that count.
    Number(u64),
    /// This number of calls in a row.
    InRow(u64),
}

/// A share of the calls that opens a circuit breaker, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Percent {
    /// This share opens it.
    AtLeast(f64),
    /// Only more than this share opens it.
    Above(f64),
}

/// The calls that count for a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// Those of the last interval.
    #[non_exhaustive]
    Within {
        /// The interval.
        interval: Duration,
        /// The number of buckets in which it is counted: 10 unless the rule says otherwise.
        buckets: usize,
    },
    /// The last calls.
    Last(u32),
}

impl Limit {
    /// The number of buckets of a limit that warms up, and of a breaker.
    pub(crate) const BUCKETS: usize = 10;

    /// The cold factor of a limit that warms up.
    pub(crate) const COLD_FACTOR: f64 = 3.0;

    /// Returns a limit of this kind that admits no request that either of the two refuses: what
    /// the limiter has while a change from the one to the other is made. `None` if the one cannot
    /// be changed to the other in place: it is of another kind, or has windows of another geometry.
    ///
    /// Settings that have no order, those of breakers and adaptive limits, are the old ones.
    pub(crate) fn strictest(&self, new: &Self) -> Option<Self> {
        Some(match (self, new) {
            (&Self::Window { rate, buckets }, &Self::Window { rate: to, buckets: of })
                if (rate.interval, buckets) == (to.interval, of) =>
            {
                Self::Window { rate: rate.slower(to), buckets }
            }
            #[cfg(feature = "fleet")]
            (Self::Fleet(limit), Self::Fleet(other)) => Self::Fleet(limit.strictest(other)?),
            (
                &Self::Bucket { rate, burst, starts_empty },
                &Self::Bucket { rate: to, burst: other, starts_empty: _ },
            ) => Self::Bucket { rate: rate.slower(to), burst: burst.min(other), starts_empty },
            (
                &Self::WarmUp { rate, buckets, period, cold_factor },
                &Self::WarmUp { rate: to, buckets: of, period: other, cold_factor: factor },
            ) if (rate.interval, buckets) == (to.interval, of) => Self::WarmUp {
                rate: rate.slower(to),
                buckets,
                period: period.max(other),
                cold_factor: cold_factor.max(factor),
            },
            (&Self::Pace { rate, max_wait }, &Self::Pace { rate: to, max_wait: other }) => {
                Self::Pace { rate: rate.slower(to), max_wait: max_wait.min(other) }
            }
            (&Self::InFlight { limit }, &Self::InFlight { limit: other }) => {
                Self::InFlight { limit: limit.min(other) }
            }
            (Self::AdaptiveInFlight { .. }, Self::AdaptiveInFlight { .. })
            | (Self::Breaker(_), Self::Breaker(_))
            | (Self::AdaptiveBreaker { .. }, Self::AdaptiveBreaker { .. }) => self.clone(),
            // It has no state to keep.
            (Self::Refuse(overload), Self::Refuse(to)) if overload == to => self.clone(),
            _ => return None,
        })
    }

    /// Returns whether a request may have to wait for it.
    pub(crate) const fn may_make_wait(&self) -> bool {
        matches!(self, Self::Pace { .. }) || self.is_over_fleet()
    }

    /// Returns whether it needs a fleet.
    pub(crate) const fn is_over_fleet(&self) -> bool {
        #[cfg(feature = "fleet")]
        let is_over_fleet = matches!(self, Self::Fleet(_));
        #[cfg(not(feature = "fleet"))]
        let (is_over_fleet, _) = (false, self);
        is_over_fleet
    }
}

/// The window of a limit of buckets.
pub(crate) fn window(interval: Duration, buckets: usize) -> Result<WindowConfig, ConfigError> {
    WindowConfig::new(buckets, interval)
}

pub(crate) fn warm_up(period: Duration, cold_factor: f64) -> Result<WarmUpConfig, WarmUpError> {
    WarmUpConfig::new(period, cold_factor)
}

pub(crate) fn headroom(
    (min, first, max): (u64, u64, u64),
) -> Result<Headroom, leaparray::flow::adaptive::AdaptiveConfigError> {
    LimitRange::new(min, first, max).map(Headroom::new)
}

pub(crate) fn adaptive_breaker(
    k: f64,
    min_requests: u64,
) -> Result<AdaptiveBreakerConfig, leaparray::flow::breaker::AdaptiveBreakerConfigError> {
    AdaptiveBreakerConfig::default().min_requests(min_requests).k(k)
}

impl Breaker {
    /// Returns the configuration of the breaker.
    pub(crate) fn config(&self) -> Result<CircuitConfig, BreakerError> {
        let share = |percent| match percent {
            Percent::AtLeast(percent) => RatioLimit::at_least(percent / 100.0),
            Percent::Above(percent) => RatioLimit::above(percent / 100.0),
        };
        let config = CircuitConfig::default().min_calls(self.min_calls).probes(self.probes)?;
        let config = match self.counted {
            Counted::Within { interval, buckets } => config.window(window(interval, buckets)?)?,
            Counted::Last(calls) => config.last_calls(calls)?,
        };
        let config = match self.failures {
            Some(Failures::Share(percent)) => config.exception_ratio(share(percent)?),
            Some(Failures::Number(number)) => config.no_exception_ratio().exceptions(number),
            Some(Failures::InRow(number)) => {
                config.no_exception_ratio().consecutive_exceptions(number)
            }
            None => config.no_exception_ratio(),
        };
        let config = match self.slow {
            Some((percent, above)) => config.slow_ratio(share(percent)?, above),
            None => config,
        };
        let wait = Wait::new(self.wait);
        Ok(config.wait(match self.max_wait {
            Some(max) => wait.growing(2.0, max)?,
            None => wait,
        }))
    }
}

impl Counted {
    pub(crate) const fn within(interval: Duration, buckets: usize) -> Self {
        Self::Within { interval, buckets }
    }
}

impl Default for Breaker {
    /// Half of at least 20 calls in the last 10 seconds; open for 5 seconds, with 3 probes.
    fn default() -> Self {
        Self {
            failures: Some(Failures::Share(Percent::AtLeast(50.0))),
            slow: None,
            min_calls: 20,
            counted: Counted::within(Duration::from_secs(10), Limit::BUCKETS),
            wait: Duration::from_secs(5),
            max_wait: None,
            probes: 3,
        }
    }
}

/// Why no breaker has a configuration.
#[derive(Debug)]
pub(crate) enum BreakerError {
    Window(ConfigError),
    Circuit(CircuitConfigError),
}

impl From<ConfigError> for BreakerError {
    fn from(error: ConfigError) -> Self {
        Self::Window(error)
    }
}

impl From<CircuitConfigError> for BreakerError {
    fn from(error: CircuitConfigError) -> Self {
        Self::Circuit(error)
    }
}

impl fmt::Display for BreakerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(error) => error.fmt(f),
            Self::Circuit(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window { rate, buckets: None } => write!(f, "limit = \"{rate}\""),
            Self::Window { rate, buckets: Some(buckets) } => {
                write!(f, "limit = \"{rate}\"\nbuckets = {buckets}")
            }
            #[cfg(feature = "fleet")]
            Self::Fleet(limit) => limit.fmt(f),
            Self::Bucket { rate, burst, starts_empty } => {
                write!(f, "limit = \"{rate}, bursts of {burst}\"")?;
                if *starts_empty { f.write_str("\nstarts = \"empty\"") } else { Ok(()) }
            }
            Self::WarmUp { rate, buckets, period, cold_factor } => {
                write!(f, "limit = \"{rate}\"\nwarm_up = \"{}\"", Time(*period))?;
                if *buckets != Self::BUCKETS {
                    write!(f, "\nbuckets = {buckets}")?;
                }
                if cold_factor.to_bits() != Self::COLD_FACTOR.to_bits() {
                    write!(f, "\ncold_factor = {cold_factor:?}")?;
                }
                Ok(())
            }
            Self::Pace { rate, max_wait } => {
                write!(f, "pace = \"{rate}\"\nmax_wait = \"{}\"", Time(*max_wait))
            }
            Self::InFlight { limit } => write!(f, "in_flight = {limit}"),
            Self::AdaptiveInFlight { min, first, max } => {
                write!(f, "in_flight = {{ min = {min}, first = {first}, max = {max} }}")
            }
            Self::Breaker(breaker) => write!(f, "breaker = {breaker}"),
            Self::AdaptiveBreaker { k, min_requests } => {
                write!(f, "breaker = {{ k = {k:?}, min_requests = {min_requests} }}")
            }
            Self::Refuse(overload) => write!(f, "refuse = {}", Quoted(overload)),
        }
    }
}

/// As a file has it: `50 %`, or `above 50 %`.
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(percent) => write!(f, "{percent} %"),
            Self::Above(percent) => write!(f, "above {percent} %"),
        }
    }
}

impl fmt::Display for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = format!("of {}", self.min_calls);
        f.write_str("{ ")?;
        match self.failures {
            Some(Failures::Share(it)) => write!(f, "failures = \"{it} {of}\", ")?,
            Some(Failures::Number(it)) => write!(f, "failures = {it}, ")?,
            Some(Failures::InRow(it)) => write!(f, "failures = \"{it} in a row\", ")?,
            None => {}
        }
        if let Some((percent, above)) = self.slow {
            write!(f, "slow = \"{percent} {of} above {}\", ", Time(above))?;
        }
        match self.counted {
            Counted::Within { interval, buckets } => {
                write!(f, "within = \"{}\", ", Time(interval))?;
                if buckets != Limit::BUCKETS {
                    write!(f, "buckets = {buckets}, ")?;
                }
            }
            Counted::Last(calls) => write!(f, "last_calls = {calls}, ")?,
        }
        write!(f, "wait = \"{}", Time(self.wait))?;
        if let Some(max) = self.max_wait {
            write!(f, ", doubling up to {}", Time(max))?;
        }
        write!(f, "\", probes = {} }}", self.probes)
    }
}
