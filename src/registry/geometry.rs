//! The geometry of nodes to come, and how one that comes meanwhile gets the new one.

use crate::node::NodeConfig;
use crate::sync::{Arc, AtomicU64, Ordering, Slot};

/// The geometry, and how often a change of it has begun or ended.
///
/// Who changes it sets it, counts that the change has begun, goes through what is listed, and counts that
/// it has ended. Who makes a node lists it and then looks at the count. Both are read-modify-writes of
/// `turns`: if the change comes first, it is seen by who made the node; if not, the node is seen by who
/// made the change.
#[derive(Debug)]
pub(crate) struct Geometry {
    config: Slot<NodeConfig>,
    /// Odd while a change is under way.
    turns: AtomicU64,
}

/// What was known of changes when a node was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsOf(u64);

impl Geometry {
    pub(crate) fn new(config: NodeConfig) -> Self {
        let this = Self { config: Slot::empty(), turns: AtomicU64::new(0) };
        this.put(config);
        this
    }

    /// The geometry.
    pub(crate) fn get(&self) -> NodeConfig {
        *self.config.load().get().expect("set when it was made")
    }

    /// What is known of changes. Call this before you read the geometry for a new node.
    pub(crate) fn as_of(&self) -> AsOf {
        AsOf(self.take_turn())
    }

    /// Changes it, and has what is listed told. One thread at a time does this.
    pub(crate) fn change(&self, config: NodeConfig, tell: impl FnOnce()) {
        /// Counts the end of the change when it is dropped, so also if `tell` panics, as when a clock panics in `clone`.
        struct End<'a>(&'a Geometry);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.count(1);
            }
        }
        self.put(config);
        self.count(1);
        let _end = End(self);
        tell();
    }

    fn put(&self, config: NodeConfig) {
        let mut new = Arc::new(config);
        while let Err(refused) = self.config.compare_and_swap(&self.config.load(), new) {
            new = refused;
        }
    }

    /// Passes to a node that was just listed each change that began or ended since it was made, or was in
    /// flight then. Returns what is known of changes after that.
    pub(crate) fn settle(&self, made: AsOf, tell: impl Fn(NodeConfig)) -> AsOf {
        let mut settled = Some(made.0).filter(|turns| turns.is_multiple_of(2));
        loop {
            let turns = self.take_turn();
            if settled == Some(turns) {
                return AsOf(turns);
            }
            settled = Some(turns);
            tell(self.get());
        }
    }

    /// Of two threads that each act, then call this, and then look for the other's action, at least one finds it.
    pub(crate) fn take_turn(&self) -> u64 {
        self.count(0)
    }

    /// Adds to the count, and returns what it was before.
    fn count(&self, turns: u64) -> u64 {
        // A read-modify-write in each case, since it must see the newest. Release: a thread that sees that a change has
        // begun sees the geometry; one that sees that a change has ended finds it in every node that was there; and one
        // that makes a change finds each resource that was listed before. Acquire: pairs with the Releases here.
        self.turns.fetch_add(turns, Ordering::AcqRel)
    }
}
