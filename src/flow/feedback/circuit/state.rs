//! The states of a circuit breaker, and the transitions between them.

use std::fmt;

use crate::time::Timestamp;

/// The state of a [`CircuitBreaker`](super::CircuitBreaker).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CircuitState {
    /// All requests are admitted, and their outcomes are counted.
    Closed,
    /// All requests are refused, until a wait is over.
    Open,
    /// A limited number of requests is admitted, as probes. Their outcomes decide whether the
    /// breaker closes.
    HalfOpen,
    /// All requests are refused, until the state is [set](super::CircuitBreaker::set_state_at)
    /// again.
    ForcedOpen,
    /// All requests are admitted, and nothing is counted, until the state is set again.
    Disabled,
    /// All requests are admitted, and their outcomes are counted but trip nothing, until the state
    /// is set again.
    MetricsOnly,
}

impl fmt::Display for CircuitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
            Self::ForcedOpen => "forced open",
            Self::Disabled => "disabled",
            Self::MetricsOnly => "metrics only",
        })
    }
}

/// A change of the state of a [`CircuitBreaker`](super::CircuitBreaker). Delivered by
/// [`Transitions`](super::Transitions).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The state before.
    pub from: CircuitState,
    /// The state after.
    pub to: CircuitState,
    /// The time of the request that has caused the change. A time-out has the time at which it was
    /// over.
    pub at: Timestamp,
    /// The cause.
    pub cause: Cause,
}

/// The cause of a [`Transition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The [share of exceptions](super::CircuitConfig::exception_ratio), of the calls in the window
    /// or of the probes.
    ExceptionRatio,
    /// The [share of slow calls](super::CircuitConfig::slow_ratio), of the calls in the window or
    /// of the probes.
    SlowRatio,
    /// The [number of exceptions](super::CircuitConfig::exceptions) in the window, or the exception
    /// of a probe.
    Exceptions,
    /// The [number of consecutive exceptions](super::CircuitConfig::consecutive_exceptions).
    ConsecutiveExceptions,
    /// The wait is over, and a probe was admitted.
    WaitOver,
    /// The probes have succeeded.
    Probes,
    /// The [time for the probes](super::CircuitConfig::half_open_timeout) is over.
    Timeout,
    /// The state was [set](super::CircuitBreaker::set_state_at).
    Set,
}
