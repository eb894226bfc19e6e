//! The encoding of what is stored: a byte with the version of the format, and then numbers of
//! variable length, as the crate `postcard` writes them.

use std::error::Error;
use std::{fmt, mem};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the format. Raise it with each change of the bytes: also if the core has another
/// event or reason, or lists them in another order. The test `format_has_these_bytes` fails then.
const VERSION: u8 = 1;

/// The bit of a byte of a number that another byte of it follows.
const CONTINUED: u8 = 0x80;

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
///
/// Most values are plain numbers. They are read here, as `postcard` reads them: a reader of a fleet
/// reads some millions in a second.
pub(super) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// Begins after the version.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, FormatError> {
        match bytes {
            [VERSION, rest @ ..] => Ok(Self(rest)),
            _ => Err(FormatError::Version { found: bytes.first().copied(), expected: VERSION }),
        }
    }

    /// Reads a value of any type.
    pub(super) fn get<T: Deserialize<'a>>(&mut self) -> Result<T, FormatError> {
        let (value, rest) = take(self.0)?;
        self.0 = rest;
        Ok(value)
    }

    /// Reads a `u8`.
    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, FormatError> {
        let (byte, rest) = self.0.split_first().ok_or(FormatError::Damaged)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// Reads a `u32`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the rest stays in registers")]
    pub(super) fn u32(&mut self) -> Result<u32, FormatError> {
        let (number, rest) = match self.0 {
            [byte @ ..CONTINUED, rest @ ..] => ((*byte).into(), rest),
            bytes => take(bytes)?,
        };
        self.0 = rest;
        Ok(number)
    }

    /// Reads a `u64`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the rest stays in registers")]
    pub(super) fn u64(&mut self) -> Result<u64, FormatError> {
        let (number, rest) = match self.0 {
            [byte @ ..CONTINUED, rest @ ..] => ((*byte).into(), rest),
            bytes => match long(bytes) {
                Some(it) => it,
                None => take(bytes)?,
            },
        };
        self.0 = rest;
        Ok(number)
    }

    /// Reads a `u64` whose lowest bit tells whether another one follows. Without a branch for that,
    /// if both are short: it is as random as what is sent.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the rest stays in registers")]
    pub(super) fn flagged(&mut self) -> Result<(u64, Option<u64>), FormatError> {
        if let [number @ ..CONTINUED, next, ..] = self.0 {
            let is_followed = number % 2 == 1;
            if *next < CONTINUED || !is_followed {
                self.0 = &self.0[1 + usize::from(is_followed)..];
                return Ok(((*number).into(), is_followed.then_some((*next).into())));
            }
        }
        let number = self.u64()?;
        let next = if number % 2 == 1 { Some(self.u64()?) } else { None };
        Ok((number, next))
    }

    /// Checks that there is nothing after the last value.
    pub(super) const fn finish(self) -> Result<(), FormatError> {
        if self.0.is_empty() { Ok(()) } else { Err(FormatError::Damaged) }
    }
}

fn take<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), FormatError> {
    postcard::take_from_bytes(bytes).map_err(|_| FormatError::Damaged)
}

/// Takes a number of up to eight bytes, if at least eight are there. Without a branch for each
/// byte: the lengths of response times vary.
#[inline(always)]
const fn long(bytes: &[u8]) -> Option<(u64, &[u8])> {
    const LAST: u64 = u64::from_ne_bytes([CONTINUED; 8]);
    let Some((word, _)) = bytes.split_first_chunk() else { return None };
    let word = u64::from_le_bytes(*word);
    // Only the last byte has no such bit.
    let ends = !word & LAST;
    if ends == 0 {
        return None;
    }
    // Seven bits of each byte up to the last one, then 14 of each two, and 28 of each four.
    let bits = word & (ends ^ (ends - 1)) & !LAST;
    let bits = bits & 0x007f_007f_007f_007f | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let bits = bits & 0x0000_3fff_0000_3fff | (bits & 0x3fff_0000_3fff_0000) >> 2;
    let bits = bits & 0x0000_0000_0fff_ffff | (bits & 0x0fff_ffff_0000_0000) >> 4;
    let (_, rest) = bytes.split_at(ends.trailing_zeros() as usize / 8 + 1);
    Some((bits, rest))
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// Each number is read as `postcard` reads it, at each place, and damaged ones are refused.
    #[test]
    fn numbers_are_read_as_postcard_reads_them() {
        let rng = &mut Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bytes = vec![VERSION];
            put(&mut bytes, &(rng.u64(..) >> rng.u32(..64)));
            bytes.extend((0..rng.usize(..12)).map(|_| rng.u8(..) | rng.u8(..2) << 7));
            bytes.truncate(rng.usize(1..=bytes.len()));
            let all = || Decoder::new(&bytes).expect("a version");
            let (mut ours, mut theirs) = (all(), all());
            assert_eq!(ours.u64(), theirs.get::<u64>(), "{bytes:?}");
            assert_eq!(ours.u64(), theirs.get::<u64>(), "{bytes:?}");
            assert_eq!(ours.0, theirs.0);
            let (mut ours, mut theirs) = (all(), all());
            let flagged = theirs.get::<u64>().and_then(|number| match number % 2 {
                0 => Ok((number, None)),
                _ => Ok((number, Some(theirs.get()?))),
            });
            assert_eq!(ours.flagged(), flagged, "{bytes:?}");
            assert!(flagged.is_err() || ours.0 == theirs.0);
            let (mut ours, mut theirs) = (all(), all());
            assert_eq!(ours.u32(), theirs.get::<u32>(), "{bytes:?}");
            assert_eq!(ours.byte(), theirs.get::<u8>(), "{bytes:?}");
            assert_eq!(ours.0, theirs.0);
        }
    }
}
