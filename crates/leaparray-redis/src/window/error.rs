//! Why a task of a fleet could not be started.

use std::error::Error;
use std::fmt;

use crate::lease::LeaseNameError;

/// The error of the start of a [`FleetReporter`](super::FleetReporter) or a [`FleetReader`](super::FleetReader).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FleetStartError {
    /// The name of the fleet is not valid.
    Name(LeaseNameError),
    /// There is no runtime of Tokio.
    NoRuntime,
    /// The long window of the registry is too short: its seconds would be lost while a delivery waits for an answer.
    ShortWindow {
        /// The length of the window in seconds.
        seconds: u64,
        /// The shortest length.
        min: u64,
    },
}

impl fmt::Display for FleetStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::NoRuntime => f.write_str("a fleet needs a runtime of Tokio: start it in a task"),
            Self::ShortWindow { seconds, min } => write!(
                f,
                "the long window of the registry has {seconds} seconds, and a fleet needs {min} or more"
            ),
        }
    }
}

impl Error for FleetStartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            Self::NoRuntime | Self::ShortWindow { .. } => None,
        }
    }
}
