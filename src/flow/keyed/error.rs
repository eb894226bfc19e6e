//! The error of a keyed limiter.

use std::error::Error;
use std::fmt;

/// The error of [`Keyed::new`](super::Keyed::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyedError {
    /// The limiter would have no room for a key.
    ZeroKeys,
    /// The limiter would have room for more keys than it can.
    TooManyKeys {
        /// The number of keys that was asked for.
        max_keys: usize,
        /// The greatest number of keys.
        max: usize,
    },
}

impl fmt::Display for KeyedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroKeys => f.write_str("a keyed limiter needs room for at least one key, not 0"),
            Self::TooManyKeys { max_keys, max } => {
                write!(f, "a keyed limiter has room for at most {max} keys, not {max_keys}")
            }
        }
    }
}

impl Error for KeyedError {}
