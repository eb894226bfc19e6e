//! The serialized form of a node's configuration.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::config::NodeConfig;
use crate::time::WindowConfig;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a node with the windows `short` and `long`")]
struct NodeForm {
    short: WindowConfig,
    long: WindowConfig,
}

impl From<NodeConfig> for NodeForm {
    fn from(config: NodeConfig) -> Self {
        Self { short: *config.short(), long: *config.long() }
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
        let NodeForm { short, long } = NodeForm::deserialize(from)?;
        Self::new(short, long).map_err(D::Error::custom)
    }
}
