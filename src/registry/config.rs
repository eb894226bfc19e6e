//! What a registry and its resources are made with.

use crate::node::NodeConfig;

/// What a [`Registry`](crate::Registry) is made with.
///
/// ```
/// use leaparray::{NodeConfig, Registry, RegistryConfig};
///
/// let config = RegistryConfig::default()
///     .node(NodeConfig::default())
///     .max_resources(100_000)
///     .max_contexts(8);
/// assert_eq!(Registry::with_config(config).max_resources(), 100_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct RegistryConfig {
    pub(super) node: NodeConfig,
    pub(super) max_resources: usize,
    pub(super) max_contexts: usize,
}

impl RegistryConfig {
    /// The geometry of its nodes; a second and a minute unless set.
    pub const fn node(self, node: NodeConfig) -> Self {
        Self { node, ..self }
    }

    /// How many resources are listed at most; 10,000 unless set. With 0 all are refused.
    ///
    /// A name that comes with each request, such as a path with a number in it, would otherwise take all
    /// the memory there is.
    pub const fn max_resources(self, max_resources: usize) -> Self {
        Self { max_resources, ..self }
    }

    /// How many contexts one resource has at most; 64 unless set. With 0 all are refused.
    ///
    /// They are for the few entrances that lead to a resource: one is found by looking at each.
    pub const fn max_contexts(self, max_contexts: usize) -> Self {
        Self { max_contexts, ..self }
    }
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self { node: NodeConfig::default(), max_resources: 10_000, max_contexts: 64 }
    }
}

/// What one resource is made with.
///
/// A [`NodeConfig`] or a [`TrafficType`] can take its place where only one of them differs.
///
/// ```
/// use leaparray::{NodeConfig, Registry, ResourceConfig, TrafficType};
///
/// let registry = Registry::new();
/// let config = ResourceConfig::default().traffic_type(TrafficType::Outbound).node(NodeConfig::default());
/// assert_eq!(registry.resource_with("database", config)?.traffic_type(), TrafficType::Outbound);
/// # Ok::<_, leaparray::RegistryError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ResourceConfig {
    pub(super) node: Option<NodeConfig>,
    pub(super) traffic: TrafficType,
}

impl ResourceConfig {
    /// The geometry; the registry's unless set.
    pub const fn node(self, node: NodeConfig) -> Self {
        Self { node: Some(node), ..self }
    }

    /// The direction; inbound unless set.
    pub const fn traffic_type(self, traffic: TrafficType) -> Self {
        Self { traffic, ..self }
    }
}

impl From<NodeConfig> for ResourceConfig {
    fn from(node: NodeConfig) -> Self {
        Self::default().node(node)
    }
}

impl From<TrafficType> for ResourceConfig {
    fn from(traffic: TrafficType) -> Self {
        Self::default().traffic_type(traffic)
    }
}

/// Who calls whom: what protects the service as a whole counts what comes in, and not what it asks of
/// others on the way.
///
/// Who comes from Sentinel: there an entry is outbound unless said otherwise; here a resource is inbound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrafficType {
    /// Others call this service.
    #[default]
    Inbound,
    /// This service calls others.
    Outbound,
}
