//! The configuration: the files of Envoy's reference server, read as they are.

mod error;
mod metadata;
mod unit;

use std::sync::Arc;

pub use error::{ConfigError, Problem};
pub use metadata::Metadata;
pub use unit::Unit;

/// The limits of one or more domains: a checked configuration. Plain data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub(crate) domains: Vec<Domain>,
}

/// The limits of a domain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Domain {
    /// The name of the domain.
    pub name: Arc<str>,
    /// The descriptors of the first entry.
    pub descriptors: Vec<DescriptorConfig>,
}

/// A descriptor of the configuration: a node of the tree of a domain.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DescriptorConfig {
    /// The key of the entry.
    pub key: String,
    /// The value of the entry; empty for all values. A `*` at the end stands for any text.
    pub value: String,
    /// The limit of requests whose last entry is this one.
    pub rate_limit: Option<RateLimit>,
    /// Whether the limit is in the shadow: it refuses nothing.
    pub shadow_mode: bool,
    /// Whether the limit is a quota: it refuses a request only if all quotas of the request do.
    pub quota_mode: bool,
    /// Whether each combination of values has counts of its own.
    pub detailed_metric: bool,
    /// Whether each value of this entry has counts of its own.
    pub value_to_metric: bool,
    /// Whether all values that a `*` stands for share one limit.
    pub share_threshold: bool,
    /// Data for the dynamic metadata of a response.
    pub metadata: Option<Metadata>,
    /// The descriptors of the next entry.
    pub descriptors: Vec<Self>,
}

/// A limit of the configuration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimit {
    /// The number of requests; `None` for no limit.
    pub requests: Option<(u32, Unit)>,
    /// The name by which other limits replace this one; empty if it has none.
    pub name: String,
    /// The names of the limits that do not count for a request that has this one.
    pub replaces: Vec<String>,
}

impl Config {
    /// Returns the domains, in the order of the files.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }
}
