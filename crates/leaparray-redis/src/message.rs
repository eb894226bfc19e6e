//! The messages between a node and the server.

/// The identity of one incarnation of a node. A process that starts again is another node: nothing that it leased before is
/// known to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u128);

/// The identity of one run of the server as the primary. It has to change when the server starts, and also when it is promoted:
/// a server that was demoted and is promoted again may have an older state. In Redis, it is a digest of `run_id` and `master_replid`;
/// `run_id` alone does not change with a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub [u8; 20]);

/// The time during which the server has known all leases: from one start, promotion or loss of its state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// The run of the server.
    pub run: RunId,
    /// When it began: microseconds of the server's time. The state may be lost more than once in a run.
    pub since: u64,
}

/// A message from a node to the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The node.
    pub node: NodeId,
    /// The number of this ask. A node raises it with each ask whose answer it has got: an ask whose answer is lost is sent
    /// again with its number and its moves, so that the server moves permits once.
    pub seq: u64,
    /// The epoch of the permits in `moves`; `None` before the first answer.
    pub epoch: Option<Epoch>,
    /// The number of permits to lease. 0 only moves permits.
    pub want: u64,
    /// The permits of former leases whose use is known.
    pub moves: Vec<Move>,
}

/// Permits that were charged in the last bucket of their lease, and whose use is known now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// The bucket in which they are charged: [`Answer::bucket`] of their lease.
    pub from: u64,
    /// The bucket in which they were used, or a later one up to `from`; `None` if they were not used and never will be.
    pub to: Option<u64>,
    /// The number of permits.
    pub count: u64,
}

/// The server's answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The epoch of the lease.
    pub epoch: Epoch,
    /// The server's time in microseconds since the Unix epoch.
    pub now: u64,
    /// The number of leased permits, at most [`Ask::want`].
    pub granted: u64,
    /// The last bucket in which they may be used. They are charged in it until the node tells more.
    pub bucket: u64,
    /// The number of permits that are free after this lease.
    pub free: u64,
    /// The microseconds until permits may be free again, if none are; 0 otherwise.
    pub retry_in: u64,
}
