//! The geometry of new nodes, and how a node that is listed during a change gets the new one.

use crate::node::NodeConfig;
use crate::sync::{Arc, AtomicU64, Ordering, Slot};

/// The geometry, and the number of times that a change of it has begun or ended.
///
/// A thread that changes the geometry stores it, counts the start of the change, visits the listed nodes, and counts the
/// end. A thread that makes a node lists it and then reads the count. Both access `turns` by read-modify-writes, so one is
/// ordered before the other. If the change comes first, the thread that made the node sees it; otherwise, the thread that
/// makes the change finds the node.
#[derive(Debug)]
pub(crate) struct Geometry {
    config: Slot<NodeConfig>,
    /// Odd during a change.
    turns: AtomicU64,
}

/// The count of changes at the time at which a node was made.
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

    /// The count of changes. Call this before you read the geometry for a new node.
    pub(crate) fn as_of(&self) -> AsOf {
        AsOf(self.take_turn())
    }

    /// Changes the geometry. `tell` passes it to the listed nodes. One thread at a time calls this.
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

    /// Passes each change that began or ended since a node was made, or was in progress then, to that node, which was just
    /// listed. Returns the count of changes after that.
    pub(crate) fn catch_up(&self, made: AsOf, tell: impl Fn(NodeConfig)) -> AsOf {
        let mut seen = Some(made.0).filter(|turns| turns.is_multiple_of(2));
        loop {
            let turns = self.take_turn();
            if seen == Some(turns) {
                return AsOf(turns);
            }
            seen = Some(turns);
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
