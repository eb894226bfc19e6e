//! Durations as whole nanoseconds, for `#[serde(with = …)]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::timestamp::saturating_nanos;

pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    saturating_nanos(*span).serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_nanos)
}

/// The same functions for an `Option<Duration>`.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, saturating_nanos};

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(crate) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(saturating_nanos).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
    }
}
