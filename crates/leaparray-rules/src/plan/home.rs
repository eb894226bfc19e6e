//! The newest version of the rules of a registry.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use leaparray::Registry;

use super::{Plan, PlanRef, Version};
use crate::limiter::RuleClock;

/// The registry of rules, and their newest version. Each version has a weak reference to it, by
/// which a decision finds the newer one.
pub(crate) struct Home<C: RuleClock> {
    pub(crate) registry: Arc<Registry<C>>,
    version: ArcSwap<Version>,
    /// The number of the version.
    newest: Arc<AtomicU64>,
}

impl<C: RuleClock> Home<C> {
    /// Creates the home of rules that have none yet.
    pub(crate) fn new(registry: Arc<Registry<C>>) -> Arc<Self> {
        Arc::new_cyclic(|home| {
            let first = Version::new(Plan::first(home));
            let newest = Arc::clone(first.number.newest());
            Self { registry, version: ArcSwap::from_pointee(first), newest }
        })
    }

    /// Returns the number of the newest version.
    #[inline]
    pub(crate) const fn newest(&self) -> &Arc<AtomicU64> {
        &self.newest
    }

    /// Returns the newest plan.
    pub(crate) fn plan(&self) -> PlanRef<C> {
        PlanRef::of(self.version.load_full())
    }

    /// Makes a version the newest one. Threads that change the rules take turns.
    pub(crate) fn publish(&self, version: Version) {
        let version = Arc::new(version);
        self.version.store(Arc::clone(&version));
        version.number.set_newest();
    }
}
