//! The identities of resources and contexts.

use super::Resource;
use crate::sync::{AtomicU64, Ordering};

/// The identity of a resource, or of a context of a resource. Returned by [`Resource::id`].
///
/// It is unique in a registry, for as long as the registry exists.
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
    /// A name has another identity once its resource was evicted or removed and is listed again. So an exporter that
    /// keeps the last counts by identity notices that they begin at 0 again.
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
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> ResourceId {
        self.kept_context().map_or_else(|| self.listed().id(), |context| context.id())
    }
}
