//! Times, serialized: strings of seconds in a format for people, integers of nanoseconds in a
//! binary format.
//!
//! A number in JSON is an `f64` to many readers, for example in JavaScript, so a time of day in
//! nanoseconds would lose its last digits, as would a large sum of response times. A string keeps
//! all digits, and nine decimals are exact.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::decimal_seconds::{self, DecimalSeconds};
use super::timestamp::{Timestamp, saturating_nanos};

/// A time in nanoseconds, a `u64` or a `u128`.
#[derive(Clone, Copy)]
pub(crate) struct Nanos<T>(pub(crate) T);

/// An integer of nanoseconds.
pub(crate) trait Integer: Copy + From<u64> + Into<u128> {
    /// Reads seconds with at most nine decimals.
    fn parse<E: de::Error>(text: &str) -> Result<Self, E>;
}

impl Integer for u64 {
    fn parse<E: de::Error>(text: &str) -> Result<Self, E> {
        text.parse::<Timestamp>().map(Timestamp::as_nanos).map_err(E::custom)
    }
}

impl Integer for u128 {
    fn parse<E: de::Error>(text: &str) -> Result<Self, E> {
        let refused =
            || E::invalid_value(de::Unexpected::Str(text), &TimeVisitor::<Self>(PhantomData));
        decimal_seconds::parse(text).map_err(|_| refused())
    }
}

impl<T: Integer + Serialize> Serialize for Nanos<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.collect_str(&DecimalSeconds(self.0.into()))
        } else {
            self.0.serialize(to)
        }
    }
}

impl<'de, T: Integer + Deserialize<'de>> Deserialize<'de> for Nanos<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let nanos = if from.is_human_readable() {
            from.deserialize_any(TimeVisitor(PhantomData))
        } else {
            T::deserialize(from)
        };
        nanos.map(Self)
    }
}

/// Reads a string of seconds, or an integer of nanoseconds. A floating-point number is refused: it
/// may have lost digits.
struct TimeVisitor<T>(PhantomData<T>);

impl<T: Integer> Visitor<'_> for TimeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a string of seconds with at most nine decimals, such as \"0.025\", or an integer of nanoseconds",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::parse(text)
    }

    fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<T, E> {
        Ok(nanos.into())
    }

    /// Some formats, such as TOML, have signed integers only.
    fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<T, E> {
        let refused = |_| E::invalid_value(de::Unexpected::Signed(nanos), &self);
        u64::try_from(nanos).map(T::from).map_err(refused)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Nanos(self.as_nanos()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Nanos::deserialize(from).map(|it| Self::from_nanos(it.0))
    }
}

/// Writes a duration, cut at `u64::MAX` nanoseconds. For `#[serde(with = …)]`, like the function
/// below.
pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    Nanos(saturating_nanos(*span)).serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Nanos::deserialize(from).map(|it| Duration::from_nanos(it.0))
}
