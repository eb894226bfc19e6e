//! The state of a limiter, as its user sees it.

use std::fmt;
use std::time::Duration;

use leaparray::Timestamp;

/// Whether a limiter gets leases.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The server has not answered yet.
    Connecting,
    /// The server answers, and grants what is free.
    Leasing,
    /// The server answers, and grants nothing before this time: it may have lost its state, and
    /// nodes may still use leases of that state. A limit also begins with a quarantine.
    Quarantine {
        /// The end, in time of the limiter's clock.
        until: Timestamp,
    },
    /// The server's clock has stepped back, and nothing leaves the window before this time. The
    /// server grants what was free before.
    Standstill {
        /// The end, in time of the limiter's clock.
        until: Timestamp,
    },
    /// A round trip takes as long as a lease, or longer: permits arrive after they have ended. A
    /// limit with a longer [validity](crate::lease::LeaseConfig::with_validity) works, of more than
    /// the round trip.
    TooSlow {
        /// The last round trip.
        round_trip: Duration,
        /// The time for which a lease is valid.
        lease: Duration,
    },
    /// The server does not answer.
    Away {
        /// The time of the first ask that got no answer.
        since: Timestamp,
        /// Why the last ask got none.
        error: String,
    },
    /// The task of the limiter has not run since this time, by more than a second and the
    /// [timeout of an answer](super::LimiterBuilder::with_answer_timeout): the runtime in which the
    /// limiter was started is not driven, or is blocked. A request that finds no permit notes it.
    Stalled {
        /// The time at which the task had to run.
        since: Timestamp,
    },
    /// The limiter was [closed](super::LeasedLimiter::close).
    Closed,
    /// This process is a forked child of the one that has started the limiter. Nothing is admitted:
    /// the permits are those of the parent. Start a limiter in the child.
    Forked,
}

impl LeaseState {
    /// Returns the name of the state in one word, such as for a label of a metric.
    ///
    /// ```
    /// use leaparray_redis::LeaseState;
    ///
    /// assert_eq!(LeaseState::Leasing.name(), "leasing");
    /// ```
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Leasing => "leasing",
            Self::Quarantine { .. } => "quarantine",
            Self::Standstill { .. } => "standstill",
            Self::TooSlow { .. } => "too slow",
            Self::Away { .. } => "away",
            Self::Stalled { .. } => "stalled",
            Self::Closed => "closed",
            Self::Forked => "forked",
        }
    }

    /// Returns whether the server grants nothing, so that [`WhenAway`](super::WhenAway) decides on
    /// requests without a lease.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        matches!(
            self,
            Self::Connecting
                | Self::Quarantine { .. }
                | Self::Standstill { .. }
                | Self::TooSlow { .. }
                | Self::Away { .. }
                | Self::Stalled { .. }
        )
    }
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("connecting"),
            Self::Leasing => f.write_str("leasing"),
            Self::Quarantine { until } => write!(f, "in quarantine until {until}"),
            Self::Standstill { until } => {
                write!(f, "the server's clock has stepped back and catches up at {until}")
            }
            Self::TooSlow { round_trip, lease } => write!(
                f,
                "a round trip of {round_trip:?} is not shorter than a lease of {lease:?}: a longer validity would work"
            ),
            Self::Away { since, error } => write!(f, "away since {since}: {error}"),
            Self::Stalled { since } => write!(f, "its runtime is not driven since {since}"),
            Self::Closed => f.write_str("closed"),
            Self::Forked => f.write_str("in a forked child of the process that has started it"),
        }
    }
}

/// Counts of a limiter since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseCounts {
    /// Asks that were answered.
    pub answers: u64,
    /// Asks that got no answer.
    pub losses: u64,
    /// Permits that the server granted.
    pub granted: u64,
    /// Permits that were admitted from the reserve of [`WhenAway::Share`](super::WhenAway::Share).
    pub reserved: u64,
    /// Permits that were admitted beyond the limit, by [`WhenAway::Open`](super::WhenAway::Open).
    pub unlimited: u64,
    /// Epochs of the server's state after the first one: each is a loss of state, with a
    /// quarantine.
    pub new_epochs: u64,
    /// Answers that another process asks with the number of this one. It has another number since,
    /// and has given up the permits in hand. A fork, or clones of one image, lead to it.
    pub taken: u64,
}
