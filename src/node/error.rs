//! The error of a node's configuration.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::time::ViewError;

/// The error of [`NodeConfig::new`](crate::NodeConfig::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeConfigError {
    /// The short window cannot be a view over the long window.
    NoView(ViewError),
    /// A second is not a whole number of buckets of the long window.
    NoWholeSeconds {
        /// The bucket length of the long window.
        bucket_len: Duration,
    },
}

impl fmt::Display for NodeConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoView(error) => error.fmt(f),
            Self::NoWholeSeconds { bucket_len } => {
                write!(f, "a second does not divide into buckets of {bucket_len:?}")
            }
        }
    }
}

impl Error for NodeConfigError {}
