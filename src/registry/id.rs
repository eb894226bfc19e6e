//! The identities of resources and contexts.

use super::Resource;
use crate::sync::{AtomicU64, Ordering};

/// The identity of a resource, or of a context of a resource. Returned by [`Resource::id`].
///
/// A registry never uses an identity again. Resources of different registries may have equal
/// identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceId(u64);

/// The source of the identities of a registry.
#[derive(Debug)]
pub(super) struct NextId(AtomicU64);

impl NextId {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn take(&self) -> ResourceId {
        // Relaxed: the identities have to be distinct and order nothing.
        ResourceId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl<C> Resource<C> {
    /// Returns the identity of the resource, or of the context if the handle is to a context.
    ///
    /// If a resource is evicted or removed, and its name is listed again, the new resource has
    /// another identity. An exporter that keeps the last counts by identity can tell that the new
    /// resource counts from 0.
    ///
    /// ```
    /// use leaparray::Registry;
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("GET /orders")?;
    /// assert_eq!(registry.resource("GET /orders")?.id(), orders.id());
    /// assert_ne!(orders.in_context("web")?.id(), orders.id());
    /// registry.remove("GET /orders");
    /// assert_ne!(registry.resource("GET /orders")?.id(), orders.id());
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> ResourceId {
        self.kept_context().map_or_else(|| self.listed().id(), |context| context.id())
    }
}
