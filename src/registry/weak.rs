//! A reference to a resource that does not prevent its eviction.

use std::fmt;
use std::sync::Weak;

use super::Resource;
use super::handle::Handle;
use crate::sync::Arc;
use crate::time::MonotonicClock;

/// A reference to a resource that does not prevent its eviction, for a cache of look-ups: an
/// [`upgrade`](Self::upgrade) hashes no name, and is one read-modify-write of a count that few
/// threads share.
///
/// It refers to the clones of one handle. A registry keeps the handle that [`Registry::get`]
/// returns, for further look-ups of the thread, at least until the resource is idle and an eviction
/// looks at it. So a reference to such a handle can usually be upgraded. If it cannot, look the
/// name up again: the name may be listed, also as another resource.
///
/// After the last clone of the handle is dropped, the reference keeps 128 bytes of memory, and
/// neither the resource nor its data.
///
/// ```
/// use leaparray::Registry;
///
/// let registry = Registry::new();
/// registry.resource("GET /orders")?;
/// let orders = registry.get("GET /orders").expect("listed").downgrade();
/// assert_eq!(orders.upgrade().expect("kept by the registry").name(), "GET /orders");
/// registry.remove("GET /orders");
/// assert!(orders.upgrade().is_none());
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
///
/// [`Registry::get`]: crate::Registry::get
pub struct WeakResource<C = MonotonicClock>(Weak<Handle<C>>);

impl<C> Resource<C> {
    /// Returns a reference to this handle and its clones that does not prevent the eviction of the
    /// resource.
    #[must_use]
    pub fn downgrade(&self) -> WeakResource<C> {
        WeakResource(Arc::downgrade(self.handle()))
    }
}

impl<C> WeakResource<C> {
    /// Returns a clone of the handle, in the same context if it has one; `None` if the last clone
    /// is dropped, or if the resource was evicted or removed. It waits for no other thread.
    ///
    /// The clone is a handle like any other: the resource is not evicted while it exists, but may
    /// be [removed](crate::Registry::remove).
    #[must_use]
    #[inline]
    pub fn upgrade(&self) -> Option<Resource<C>> {
        // The handle has been a holder since before this, so the resource is not evicted: see
        // `Holders`. It may have been removed.
        let resource = Resource::of(self.0.upgrade()?);
        if resource.is_removed() { None } else { Some(resource) }
    }
}

impl<C> Clone for WeakResource<C> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<C> fmt::Debug for WeakResource<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakResource").finish_non_exhaustive()
    }
}
