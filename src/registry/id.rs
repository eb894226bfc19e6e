//! The identities of resources and contexts.

use crate::sync::{AtomicU64, Ordering};

/// The identity of a resource, or of a context of a resource. Returned by
/// [`Resource::id`](super::Resource::id).
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
