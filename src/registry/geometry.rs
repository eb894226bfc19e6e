//! The geometry of nodes to come, and how one that comes meanwhile gets the new one.

use super::resource::Resource;
use crate::clock::Clock;
use crate::node::NodeConfig;
use crate::sync::{Arc, AtomicU64, Ordering, Slot};

/// The geometry, and how often it was changed.
///
/// Who changes it sets it, counts the change, and then goes through what is listed. Who makes a node lists
/// it and then looks at the count. Both are read-modify-writes of `changes`: if the change comes first,
/// it is seen by who made the node; if not, the node is seen by who made the change.
#[derive(Debug)]
pub(crate) struct Geometry {
    config: Slot<NodeConfig>,
    changes: AtomicU64,
}

impl Geometry {
    pub(crate) fn new(config: NodeConfig) -> Self {
        let this = Self { config: Slot::empty(), changes: AtomicU64::new(0) };
        this.put(config);
        this
    }

    /// After which change, and the geometry of then or a newer one.
    pub(crate) fn get(&self) -> (u64, NodeConfig) {
        // Acquire: pairs with the Release in `set`.
        let as_of = self.changes.load(Ordering::Acquire);
        (as_of, *self.config.load().get().expect("set when it was made"))
    }

    /// Changes it. What is listed after this sees it for itself; what is listed is to be told.
    pub(crate) fn set(&self, config: NodeConfig) {
        self.put(config);
        // Release: who sees the change sees the geometry. Acquire: pairs with the Release in `settle`;
        // who has not seen the change is found in the map.
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn put(&self, config: NodeConfig) {
        let mut new = Arc::new(config);
        while let Err(refused) = self.config.compare_and_swap(&self.config.load(), new) {
            new = refused;
        }
    }

    /// Gives a resource that was just listed, or whose context was, what has changed since it was made.
    pub(crate) fn settle<C: Clock + Clone>(&self, resource: &Resource<C>, mut as_of: u64) {
        loop {
            // A read-modify-write, since it must see the newest. Release: that the resource is listed.
            // Acquire: pairs with the Release in `set`.
            let changes = self.changes.fetch_add(0, Ordering::AcqRel);
            if changes == as_of {
                return;
            }
            as_of = changes;
            resource.reconfigure(self.get().1);
        }
    }
}
