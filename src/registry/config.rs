//! The configurations of a registry and of a resource.

use crate::node::{NodeConfig, OnDrop};

/// The configuration of a [`Registry`](crate::Registry).
///
/// With the feature `serde`, it can be [read from a file](crate::guide::configuration),
/// with the fields `node`, `max_resources`, `max_contexts` and `on_drop`.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use]
pub struct RegistryConfig {
    pub(super) node: NodeConfig,
    pub(super) max_resources: usize,
    pub(super) max_contexts: usize,
    pub(super) on_drop: OnDrop,
}

impl RegistryConfig {
    /// Sets the geometry of the nodes. By default, the short window is a second and the long window
    /// a minute.
    pub const fn node(self, node: NodeConfig) -> Self {
        Self { node, ..self }
    }

    /// Sets the maximum number of listed resources. The default is 10,000. With 0, every resource
    /// is refused.
    ///
    /// Without a maximum, names that are taken from requests, such as paths with numbers, could use
    /// up all memory.
    pub const fn max_resources(self, max_resources: usize) -> Self {
        Self { max_resources, ..self }
    }

    /// Sets the maximum number of contexts of one resource. The default is 64. With 0, every
    /// context is refused.
    ///
    /// A context is found by a linear search, so a resource should have few contexts.
    pub const fn max_contexts(self, max_contexts: usize) -> Self {
        Self { max_contexts, ..self }
    }

    /// Sets the outcome of a request whose [`Entry`](crate::Entry) is dropped before it has ended.
    /// The default is [`OnDrop::Exception`].
    pub const fn on_drop(self, on_drop: OnDrop) -> Self {
        Self { on_drop, ..self }
    }
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            node: NodeConfig::default(),
            max_resources: 10_000,
            max_contexts: 64,
            on_drop: OnDrop::default(),
        }
    }
}

/// The configuration of one resource.
///
/// A [`NodeConfig`] or a [`TrafficType`] converts into a `ResourceConfig` in which everything else
/// has its default.
///
/// With the feature `serde`, it can be [read from a file](crate::guide::configuration),
/// with the fields `node`, `traffic_type` and `on_drop`.
///
/// ```
/// use leaparray::{NodeConfig, Registry, TrafficType};
/// use leaparray::registry::ResourceConfig;
///
/// let registry = Registry::new();
/// let config = ResourceConfig::default()
///     .traffic_type(TrafficType::Outbound)
///     .node(NodeConfig::default());
/// assert_eq!(
///     registry.resource_with("database", config)?.traffic_type(),
///     TrafficType::Outbound
/// );
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use]
pub struct ResourceConfig {
    pub(super) node: Option<NodeConfig>,
    #[cfg_attr(feature = "serde", serde(rename = "traffic_type"))]
    pub(super) traffic: TrafficType,
    pub(super) on_drop: Option<OnDrop>,
}

impl ResourceConfig {
    /// Sets the geometry. The default is the geometry of the registry.
    pub const fn node(self, node: NodeConfig) -> Self {
        Self { node: Some(node), ..self }
    }

    /// Sets the direction. The default is inbound.
    pub const fn traffic_type(self, traffic: TrafficType) -> Self {
        Self { traffic, ..self }
    }

    /// Sets the outcome of a request to the resource, or to one of its contexts, whose
    /// [`Entry`](crate::Entry) is dropped before it has ended. The default is the policy of the
    /// registry.
    pub const fn on_drop(self, on_drop: OnDrop) -> Self {
        Self { on_drop: Some(on_drop), ..self }
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

/// The direction of the calls to a resource. Limits that protect the service as a whole use the
/// [sum of the inbound calls](crate::registry::RegistryReading::inbound), without the calls that
/// the service itself makes.
///
/// With the feature `serde`, it is `"inbound"` or `"outbound"`.
///
/// In Sentinel, an entry is outbound by default. Here, a resource is inbound by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum TrafficType {
    /// Calls to this service.
    #[default]
    Inbound,
    /// Calls by this service to others.
    Outbound,
}
