//! The encoding of what is stored: a byte with the version of the format, and then numbers of
//! variable length, as the crate `postcard` writes them.

use std::error::Error;
use std::{fmt, mem};

use postcard::de_flavors::Slice;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the format. Raise it with each change of the bytes: also if the core has another
/// event or reason, or lists them in another order. The test `format_has_these_bytes` fails then.
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
    let mut bytes = vec![VERSION];
    put(&mut bytes, value);
    bytes
}

/// Encodes a value after others.
pub(super) fn put(bytes: &mut Vec<u8>, value: &impl Serialize) {
    let extended = postcard::to_extend(value, mem::take(bytes));
    *bytes = extended.expect("memory is the only limit of these values");
}

/// Decodes a value, after the version. Bytes at the end are ignored.
pub(super) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    Decoder::new(bytes)?.get()
}

/// Decodes values one after the other, without collecting them.
pub(super) struct Decoder<'a>(postcard::Deserializer<'a, Slice<'a>>);

impl<'a> Decoder<'a> {
    /// Begins after the version.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, FormatError> {
        match bytes {
            [VERSION, rest @ ..] => Ok(Self(postcard::Deserializer::from_bytes(rest))),
            _ => Err(FormatError::Version { found: bytes.first().copied(), expected: VERSION }),
        }
    }

    pub(super) fn get<T: Deserialize<'a>>(&mut self) -> Result<T, FormatError> {
        T::deserialize(&mut self.0).map_err(|_| FormatError::Damaged)
    }

    /// Checks that there is nothing after the last value.
    pub(super) fn finish(self) -> Result<(), FormatError> {
        let rest = self.0.finalize().map_err(|_| FormatError::Damaged)?;
        if rest.is_empty() { Ok(()) } else { Err(FormatError::Damaged) }
    }
}
