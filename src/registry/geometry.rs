//! The geometry of new nodes, and how a node that is listed during a change gets the new one.

use crate::node::NodeConfig;
use crate::sync::{Arc, AtomicU64, Ordering, Slot};

/// The geometry, and a count of the times that a change of it has begun or ended.
///
/// A thread that changes the geometry stores it, counts the start of the change, visits the listed
/// nodes, and counts the end. A thread that makes a node lists it and then reads the count. Both
/// access `turns` by read-modify-writes, so one is ordered before the other. If the change comes
/// first, the thread that made the node reads that count; otherwise, the thread that makes the
/// change finds the node.
///
/// # Orderings
///
/// The read-modify-writes of `turns` acquire and release, and `config` is released when it is
/// stored and acquired when it is loaded. So a thread that reads the count of a change finds the
/// geometry of that change.
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

    /// Returns the geometry.
    pub(crate) fn get(&self) -> NodeConfig {
        *self.config.load().get().expect("set when it was made")
    }

    /// Returns the count of changes. Call this before you read the geometry for a new node.
    pub(crate) fn as_of(&self) -> AsOf {
        AsOf(self.take_turn())
    }

    /// Changes the geometry. `tell` passes it to the listed nodes. Only one thread at a time may
    /// call this.
    pub(crate) fn change(&self, config: NodeConfig, tell: impl FnOnce()) {
        /// Counts the end of the change when it is dropped, also if `tell` panics, for example
        /// because a clock panics in `clone`.
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

    /// Passes to a node, which was just listed, each change that began or ended since the node was
    /// made, or that was in progress then. Returns the count of changes after that.
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

    /// Orders two threads: if each acts, then calls this, and then looks for the other's action, at
    /// least one of them finds it.
    pub(crate) fn take_turn(&self) -> u64 {
        self.count(0)
    }

    /// Adds to the count, and returns the count before.
    fn count(&self, turns: u64) -> u64 {
        // A read-modify-write in each case, because it must read the newest count. Release: a
        // thread that reads the start of a change finds the new geometry; a thread that reads the
        // end of a change finds it made in every node that was listed before the change; a thread
        // that makes a change finds each resource that was listed before. Acquire: pairs with the
        // Releases here.
        self.turns.fetch_add(turns, Ordering::AcqRel)
    }
}
