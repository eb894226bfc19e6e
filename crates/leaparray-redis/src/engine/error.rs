//! Why an ask got no answer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The error of an [`Engine`](super::Engine).
///
/// Its text has no address and no credentials, unless the text of the source has.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The server could not be reached, or it refused the script.
    Server(Box<dyn Error + Send + Sync>),
    /// No answer arrived in time.
    Timeout {
        /// The time that was waited.
        after: Duration,
    },
    /// The answer is not one of the script.
    Reply {
        /// The numbers of the answer.
        found: Vec<i64>,
    },
    /// The answer is not one of the scripts of a fleet.
    FleetReply {
        /// The part that is not.
        found: String,
    },
    /// The operating system gave no random number for an ask.
    Randomness(Box<dyn Error + Send + Sync>),
    /// The address of the server is not valid.
    Address(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "the server cannot be used: {error}"),
            Self::Timeout { after } => {
                write!(f, "the server did not answer in {after:?}")
            }
            Self::Reply { found } => {
                write!(f, "an answer has ten numbers from 0 to 2^53, and not {found:?}")
            }
            Self::FleetReply { found } => {
                write!(
                    f,
                    "an answer about a fleet has an outcome, identities and versions, and not `{found}`"
                )
            }
            Self::Randomness(error) => {
                write!(f, "the operating system gives no random numbers: {error}")
            }
            Self::Address(error) => write!(f, "the address of the server is not valid: {error}"),
        }
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Server(error) | Self::Address(error) | Self::Randomness(error) => Some(&**error),
            Self::Timeout { .. } | Self::Reply { .. } | Self::FleetReply { .. } => None,
        }
    }
}
