//! The messages: asks of nodes, and answers of the server.

/// The bound on numbers that travel, 2^53: a double holds all whole numbers below it.
pub const MAX_EXACT: u64 = 1 << 53;

/// The most moves of an ask. The cost of an ask grows with them.
pub const MAX_MOVES: usize = 64;

/// A stretch of the server's state without a loss: charges of one epoch say nothing about leases of
/// another.
///
/// An epoch is named for the server process that began it and for the time at which it did. A
/// counter would not do: a server that has lost its state would count from the start, and take the
/// moves of an old epoch for those of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch {
    /// The identity of the server process, below [`MAX_EXACT`]. It changes when the process
    /// restarts *and* when it is promoted.
    pub identity: u64,
    /// The server's time at which the epoch began, in microseconds.
    pub since: u64,
}

/// An ask of a node: for permits, and with a report on permits of earlier leases.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ask {
    /// The incarnation of the node: a random number below [`MAX_EXACT`], chosen at its start.
    pub node: u64,
    /// The number of the ask, from 1. An ask that the transport repeats keeps its number.
    pub seq: u64,
    /// A number below [`MAX_EXACT`] that the sender draws for each ask, from the randomness of the
    /// operating system: not from memory, of which a clone of the process has a copy. An ask that
    /// the transport repeats keeps it. [`Holdings::ask`](super::Holdings::ask) leaves it at 0.
    pub nonce: u64,
    /// The epoch that the moves are about, if the node knows of one.
    pub epoch: Option<Epoch>,
    /// The server's time of the latest answer to the node in that epoch, in microseconds; 0 if
    /// there is none. A server that does not know that ask, although it has not expired, was
    /// restored from a snapshot, or has evicted it: it begins a new epoch.
    pub seen: u64,
    /// The permits that the node would like to have, 0 for a report.
    pub want: u64,
    /// The number of buckets from the bucket of the grant to the last bucket of the lease. The
    /// server takes at most the validity of the limit. A lease for a request that already waits
    /// needs fewer buckets, and is charged in an earlier one.
    pub validity: u32,
    /// For how long permits that become free are granted ahead, from the time at which the ask
    /// arrives, in buckets: until the answer to the next ask is there. 0 for none. The
    /// server takes less than a window, and at most the validity of the limit.
    pub horizon: u64,
    /// The permits that requests of the node wait for: the weight by which permits that become free
    /// are shared.
    pub weight: u64,
    /// The charges to move, at most [`MAX_MOVES`].
    pub moves: Vec<Move>,
}

/// A change of charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Move {
    /// The bucket in which the permits are charged: the last one of their lease.
    pub from: u64,
    /// The bucket in which the permits were used, or a later one, and at most `from`; `None` if
    /// they are returned unused.
    pub to: Option<u64>,
    /// The number of permits.
    pub count: u64,
}

/// The server's answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Answer {
    /// The number of the ask.
    pub seq: u64,
    /// The epoch of the server's state.
    pub epoch: Epoch,
    /// The server's time of the answer in microseconds. It never decreases within an epoch.
    pub now: u64,
    /// The permits that were granted, from 0 to `want`.
    pub granted: u64,
    /// The last bucket in which they may be used.
    pub bucket: u64,
    /// The permits that were granted ahead: each from the start of a bucket on.
    pub ahead: Vec<Ahead>,
    /// The time until another ask may be granted more, in microseconds: 0 if all that was wanted
    /// was granted, and in a repeated answer.
    pub retry_in: u64,
    /// The time until the end of the quarantine, in microseconds: 0 if there is none. Nothing is
    /// granted before.
    pub open_in: u64,
    /// The permits that are left to grant.
    pub free: u64,
    /// By how many microseconds the server's clock is behind [`now`](Self::now): it has stepped
    /// back, and nothing leaves the window before it has caught up.
    pub behind: u64,
    /// Whether another process asks with the number of this node: the server knows a later ask of
    /// the node, or another one with the number of this one. Nothing is granted.
    pub is_taken: bool,
}

/// Permits that are granted before they are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ahead {
    /// The first bucket in which they may be used.
    pub from: u64,
    /// The last bucket.
    pub bucket: u64,
    /// The number of permits.
    pub count: u64,
}

impl Answer {
    /// Returns for how many microseconds from [`now`](Self::now) the lease is valid, with buckets
    /// of `bucket_micros`.
    ///
    /// ```
    /// use leaparray_redis::lease::{Answer, Epoch};
    ///
    /// let epoch = Epoch { identity: 1, since: 0 };
    /// let answer = Answer {
    ///     seq: 1,
    ///     epoch,
    ///     now: 1_250,
    ///     granted: 5,
    ///     bucket: 2,
    ///     retry_in: 0,
    ///     open_in: 0,
    ///     free: 5,
    ///     behind: 0,
    ///     ahead: Vec::new(),
    ///     is_taken: false,
    /// };
    /// assert_eq!(answer.valid_for(1_000), 1_750);
    /// ```
    #[must_use]
    pub const fn valid_for(&self, bucket_micros: u64) -> u64 {
        let end = self.bucket.saturating_add(1).saturating_mul(bucket_micros);
        end.saturating_sub(self.now)
    }
}
