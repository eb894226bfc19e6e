//! The encoding of what is stored: a byte with the version of the format, and then numbers of variable length, as the crate
//! `postcard` writes them.

use std::error::Error;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the format.
const VERSION: u8 = 1;

/// The error of bytes that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes were written by a later or an earlier version of the crate.
    Version {
        /// The version of the format, if there is one byte at least.
        found: Option<u8>,
        /// The version that is read.
        expected: u8,
    },
    /// The bytes are damaged.
    Damaged,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { found: Some(found), expected } => {
                write!(f, "the data of a process has format {found}, and not {expected}")
            }
            Self::Version { found: None, .. } => f.write_str("the data of a process is empty"),
            Self::Damaged => f.write_str("the data of a process is damaged"),
        }
    }
}

impl Error for FormatError {}

/// Encodes a value, after the version.
pub(super) fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    let bytes = postcard::to_extend(value, vec![VERSION]);
    bytes.expect("memory is the only limit of these values")
}

/// Decodes a value, after the version. Bytes at the end are ignored.
pub(super) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    match bytes {
        [VERSION, rest @ ..] => postcard::from_bytes(rest).map_err(|_| FormatError::Damaged),
        _ => Err(FormatError::Version { found: bytes.first().copied(), expected: VERSION }),
    }
}
