//! Why a task of a fleet could not be started.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::lease::LeaseNameError;
use crate::runtime::NoRuntime;

/// The error of the start of a [`FleetReporter`](super::FleetReporter) or a
/// [`FleetReader`](super::FleetReader).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FleetStartError {
    /// The name of the fleet is not valid.
    Name(LeaseNameError),
    /// There is no runtime of Tokio.
    NoRuntime,
    /// The runtime of Tokio has no timers: it was built without `enable_time`.
    NoTimers,
    /// The name of the process is too long.
    ProcessName {
        /// The length of the name in bytes.
        len: usize,
        /// The longest length.
        max: usize,
    },
    /// The operating system gave no random number.
    NoRandomness,
    /// The long window of the registry is too short: its seconds would be lost while a delivery
    /// waits for an answer.
    ShortWindow {
        /// The length of the window in seconds.
        seconds: u64,
        /// The shortest length.
        min: u64,
    },
    /// The time between two polls of a reader is too short or too long.
    Period {
        /// The time that was asked for.
        period: Duration,
        /// The shortest time.
        min: Duration,
        /// The longest time: the [`history`](crate::fleet::FleetConfig::history) of the fleet.
        max: Duration,
    },
    /// The time for which an answer is waited for is too short or too long.
    AnswerTimeout {
        /// The time that was asked for.
        timeout: Duration,
        /// The shortest time.
        min: Duration,
        /// The longest time: [`lost_after`](crate::fleet::FleetConfig::lost_after) for a reporter,
        /// and the [`history`](crate::fleet::FleetConfig::history) for a reader.
        max: Duration,
    },
    /// The bytes of the seconds that wait for the server are too few or too many.
    WaitingBytes {
        /// The number that was asked for.
        bytes: usize,
        /// The lowest number beside the [`Budget`](crate::fleet::Budget).
        min: usize,
        /// The highest number.
        max: usize,
    },
}

/// The shortest time for which an answer is waited for.
pub(super) const MIN_ANSWER_TIMEOUT: Duration = Duration::from_millis(1);

/// Checks for how long an answer is waited for.
pub(super) fn check_answer_timeout(
    timeout: Duration,
    max: Duration,
) -> Result<(), FleetStartError> {
    let min = MIN_ANSWER_TIMEOUT;
    if timeout < min || timeout > max {
        return Err(FleetStartError::AnswerTimeout { timeout, min, max });
    }
    Ok(())
}

impl From<NoRuntime> for FleetStartError {
    fn from(error: NoRuntime) -> Self {
        match error {
            NoRuntime::None => Self::NoRuntime,
            NoRuntime::NoTimers => Self::NoTimers,
        }
    }
}

impl fmt::Display for FleetStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::NoRuntime => f.write_str("a fleet needs a runtime of Tokio: start it in a task"),
            Self::NoTimers => {
                f.write_str("a fleet needs a runtime of Tokio with timers: enable them")
            }
            Self::ProcessName { len, max } => {
                write!(f, "the name of a process has up to {max} bytes, not {len}")
            }
            Self::NoRandomness => f.write_str("the operating system gives no random numbers"),
            Self::ShortWindow { seconds, min } => write!(
                f,
                "the long window of the registry has {seconds} seconds, and a fleet needs {min} or more"
            ),
            Self::Period { period, min, max } => {
                write!(f, "the period of a reader is from {min:?} to {max:?}, not {period:?}")
            }
            Self::AnswerTimeout { timeout, min, max } => {
                write!(f, "an answer is waited for from {min:?} to {max:?}, not {timeout:?}")
            }
            Self::WaitingBytes { bytes, min, max } => write!(
                f,
                "with this budget, the limit of waiting bytes is from {min} to {max}, not {bytes}"
            ),
        }
    }
}

impl Error for FleetStartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            Self::NoRuntime
            | Self::NoTimers
            | Self::ProcessName { .. }
            | Self::NoRandomness
            | Self::ShortWindow { .. }
            | Self::Period { .. }
            | Self::AnswerTimeout { .. }
            | Self::WaitingBytes { .. } => None,
        }
    }
}
