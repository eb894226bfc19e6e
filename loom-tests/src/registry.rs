//! A registry of a model.

use std::time::Duration;

use leaparray::MetricEvent::Block;
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use loom::sync::Arc;

use crate::{node_config, start};

/// A registry of a model.
pub type RegistryModel = Registry<ManualClock>;

/// An empty registry, whose nodes have one bucket.
#[must_use]
pub fn registry(max_resources: usize) -> Arc<RegistryModel> {
    let config = RegistryConfig::default().node(node_config(1, 1)).max_resources(max_resources);
    Arc::new(Registry::with_clock(config, ManualClock::new(Timestamp::MIN)))
}

/// Evicts every resource without a holder: all of these count as idle, whenever they were last
/// recorded in.
pub fn evict_all(registry: &RegistryModel) -> usize {
    registry.evict_idle_at(start(9), Duration::ZERO)
}

/// Returns the blocked permits of all resources that the registry has had.
#[must_use]
pub fn blocks(registry: &RegistryModel) -> u64 {
    registry.lifetime().sum(Block)
}
