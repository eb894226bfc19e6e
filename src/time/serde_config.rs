//! The serialized form of a window configuration.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::serde_duration;
use super::window_config::WindowConfig;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a window such as { buckets = 10, interval = \"1s\" }")]
struct WindowForm {
    buckets: usize,
    #[serde(with = "serde_duration")]
    interval: Duration,
}

impl Serialize for WindowConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        WindowForm { buckets: self.sample_count(), interval: self.interval() }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for WindowConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let WindowForm { buckets, interval } = WindowForm::deserialize(from)?;
        Self::new(buckets, interval).map_err(D::Error::custom)
    }
}
