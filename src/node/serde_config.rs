//! The serialized form of a node's configuration.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::config::NodeConfig;
use crate::histogram::HistogramConfig;
use crate::time::WindowConfig;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a node with the windows `short` and `long`, and `histogram`"
)]
struct NodeForm {
    short: WindowConfig,
    long: WindowConfig,
    histogram: Option<HistogramConfig>,
}

impl From<NodeConfig> for NodeForm {
    fn from(config: NodeConfig) -> Self {
        Self { short: *config.short(), long: *config.long(), histogram: config.histogram() }
    }
}

impl Default for NodeForm {
    fn default() -> Self {
        NodeConfig::default().into()
    }
}

impl Serialize for NodeConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        NodeForm::from(*self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for NodeConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let NodeForm { short, long, histogram } = NodeForm::deserialize(from)?;
        let windows = Self::new(short, long).map_err(D::Error::custom)?;
        Ok(histogram.map_or(windows, |histogram| windows.with_histogram(histogram)))
    }
}
