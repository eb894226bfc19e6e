//! The state of a task, as its user sees it.

use std::fmt;

use leaparray::Timestamp;

/// Whether a [`FleetReporter`](super::FleetReporter) or a [`FleetReader`](super::FleetReader)
/// reaches the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FleetState {
    /// The server has not answered yet.
    Connecting,
    /// The server answers.
    Connected,
    /// The server does not answer.
    Away {
        /// The time of the first call that got no answer.
        since: Timestamp,
        /// Why the last call got none.
        error: String,
    },
    /// The task was closed, or its runtime has ended.
    Closed,
    /// This process is a forked child of the one that has started the task, which does not run
    /// here. The records of the child are not delivered: start a reporter in the child.
    Forked,
}

impl FleetState {
    /// Returns the name of the state in one word, such as for a label of a metric.
    ///
    /// ```
    /// use leaparray_redis::FleetState;
    ///
    /// assert_eq!(FleetState::Connected.name(), "connected");
    /// ```
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Away { .. } => "away",
            Self::Closed => "closed",
            Self::Forked => "forked",
        }
    }

    /// Returns the state after a call at `now`.
    pub(super) fn after(&self, now: Timestamp, error: Option<String>) -> Self {
        match (error, self) {
            (None, _) => Self::Connected,
            (Some(error), Self::Away { since, .. }) => Self::Away { since: *since, error },
            (Some(error), _) => Self::Away { since: now, error },
        }
    }
}

impl fmt::Display for FleetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away { since, error } => write!(f, "away since {since}: {error}"),
            _ => f.write_str(self.name()),
        }
    }
}
