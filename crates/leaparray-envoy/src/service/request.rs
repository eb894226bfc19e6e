//! Requests for a decision.

use crate::config::Unit;

/// A request for a decision: one or more descriptors in a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The domain.
    pub domain: String,
    /// The descriptors.
    pub descriptors: Vec<Descriptor>,
    /// The hits of each descriptor that has no [number of its own](Descriptor::hits). 0 counts as
    /// 1, as in the protocol.
    pub hits: u32,
}

/// A descriptor: entries of a key and a value, from the top of the tree down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// The entries.
    pub entries: Vec<(String, String)>,
    /// A limit in place of the one of the configuration.
    pub limit: Option<LimitOverride>,
    /// The hits of this descriptor. 0 hits are charged nothing, and are refused if no hit is left.
    pub hits: Option<u64>,
}

/// A limit of a request, in place of the one of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOverride {
    /// The number of requests.
    pub requests_per_unit: u32,
    /// The unit.
    pub unit: Unit,
}

impl Request {
    /// Creates a request for one hit of each descriptor.
    pub fn new(
        domain: impl Into<String>,
        descriptors: impl IntoIterator<Item = Descriptor>,
    ) -> Self {
        let descriptors = descriptors.into_iter().collect();
        Self { domain: domain.into(), descriptors, hits: 1 }
    }

    /// Sets the hits of each descriptor.
    #[must_use]
    pub fn with_hits(self, hits: u32) -> Self {
        Self { hits, ..self }
    }

    /// Returns the hits of a descriptor.
    pub(crate) fn hits_of(&self, descriptor: &Descriptor) -> u64 {
        descriptor.hits.unwrap_or_else(|| self.hits.max(1).into())
    }
}

impl Descriptor {
    /// Creates a descriptor of these entries.
    pub fn new<K: Into<String>, V: Into<String>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { entries, limit: None, hits: None }
    }

    /// Sets the hits.
    #[must_use]
    pub fn with_hits(self, hits: u64) -> Self {
        Self { hits: Some(hits), ..self }
    }

    /// Sets a limit in place of the one of the configuration.
    #[must_use]
    pub fn with_limit(self, requests_per_unit: u32, unit: Unit) -> Self {
        Self { limit: Some(LimitOverride { requests_per_unit, unit }), ..self }
    }
}
