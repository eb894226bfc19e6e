//! The state of a limiter, as its user sees it.

use std::fmt;

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
    /// The server does not answer.
    Away {
        /// The time of the first ask that got no answer.
        since: Timestamp,
        /// Why the last ask got none.
        error: String,
    },
    /// The limiter was [closed](super::LeasedLimiter::close).
    Closed,
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
            Self::Away { .. } => "away",
            Self::Closed => "closed",
        }
    }

    /// Returns whether the server grants nothing, so that [`WhenAway`](super::WhenAway) decides on
    /// requests without a lease.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        matches!(self, Self::Connecting | Self::Quarantine { .. } | Self::Away { .. })
    }
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("connecting"),
            Self::Leasing => f.write_str("leasing"),
            Self::Quarantine { until } => write!(f, "in quarantine until {until}"),
            Self::Away { since, error } => write!(f, "away since {since}: {error}"),
            Self::Closed => f.write_str("closed"),
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
}
