//! The names of the resources of a process, each sent once.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use leaparray::TrafficType;
use serde::{Deserialize, Serialize};

use super::codec::{FormatError, from_bytes, to_bytes};

/// The identity of a resource, or of one of its contexts, in all processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    /// The name of the resource.
    pub name: Arc<str>,
    /// The name of the context; `None` for the requests without a context.
    pub context: Option<Arc<str>>,
    /// Whether requests leave the process: the resource is [outbound](TrafficType::Outbound).
    pub is_outbound: bool,
}

#[derive(Serialize, Deserialize)]
struct WireName(String, Option<String>, bool);

impl ResourceKey {
    /// Creates the identity of a resource, or of one of its contexts.
    #[must_use]
    pub fn new(name: &Arc<str>, context: Option<&Arc<str>>, traffic_type: TrafficType) -> Self {
        let is_outbound = traffic_type == TrafficType::Outbound;
        Self { name: Arc::clone(name), context: context.cloned(), is_outbound }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let context = self.context.as_deref().map(str::to_owned);
        to_bytes(&WireName(self.name.to_string(), context, self.is_outbound))
    }

    /// Reads a name as it is stored.
    ///
    /// # Errors
    ///
    /// Returns a [`FormatError`] if it is of another version, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let WireName(name, context, is_outbound) = from_bytes(bytes)?;
        Ok(Self { name: name.into(), context: context.map(Into::into), is_outbound })
    }
}

/// The names that a reader knows, each once in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(HashSet<Arc<ResourceKey>>);

/// A name of a [`Pool`], compared by its address.
#[derive(Clone, Debug)]
pub(crate) struct PooledKey(Arc<ResourceKey>);

impl Pool {
    pub(crate) fn get(&mut self, key: ResourceKey) -> PooledKey {
        if let Some(it) = self.0.get(&key) {
            return PooledKey(Arc::clone(it));
        }
        let key = Arc::new(key);
        self.0.insert(Arc::clone(&key));
        PooledKey(key)
    }

    /// Forgets the names that are used no longer.
    pub(crate) fn shrink(&mut self) {
        self.0.retain(|it| Arc::strong_count(it) > 1);
    }
}

impl PooledKey {
    pub(crate) fn key(&self) -> &ResourceKey {
        &self.0
    }
}

impl PartialEq for PooledKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PooledKey {}

impl Hash for PooledKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// The names of a process, by their numbers. A number is never used for another name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<ResourceKey, u32>,
    encoded: Vec<Vec<u8>>,
}

impl Names {
    /// The most names. A resource beyond them is left out of the rows, and counted in the sum.
    pub(crate) const MAX: u32 = 16_384;

    /// Returns the number of a name; [`MAX`](Self::MAX) if there are too many.
    pub(crate) fn number(&mut self, key: ResourceKey) -> u32 {
        let next = self.len();
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        if next == Self::MAX {
            return Self::MAX;
        }
        self.encoded.push(key.encode());
        self.numbers.insert(key, next);
        next
    }

    /// Returns the number of a name that has one.
    pub(crate) fn find(&self, key: &ResourceKey) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.encoded.len()).unwrap_or(Self::MAX)
    }

    /// Returns the names from a number on, up to some bytes, and one at least.
    pub(crate) fn from(&self, first: u32, max_bytes: usize) -> Vec<Vec<u8>> {
        let mut bytes = 0;
        let fits = |it: &&Vec<u8>| {
            let is_first = bytes == 0;
            bytes += it.len();
            is_first || bytes <= max_bytes
        };
        self.encoded.iter().skip(first as usize).take_while(fits).cloned().collect()
    }
}
