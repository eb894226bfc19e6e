//! A fleet, its demand and its faults.

use leaparray_redis::lease::LeaseConfig;

/// A fleet and what happens to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// The parameters of the limit.
    pub config: LeaseConfig,
    /// The number of nodes.
    pub nodes: usize,
    /// The permits that the requests of all nodes want in a second.
    pub demand: f64,
    /// The workers of each node, 0 for none. Each has one request at a time, and the next one as
    /// soon as that is decided. With workers, there are no other requests.
    pub workers: usize,
    /// The permits of a request.
    pub sizes: Sizes,
    /// For how long a request waits.
    pub waits: Waits,
    /// The round trips of the nodes.
    pub round_trips: RoundTrips,
    /// The seconds that are measured, after the first quarantine and a window.
    pub secs: u64,
    /// The faults.
    pub faults: Faults,
}

/// How requests are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The nodes lease permits from the server, by the protocol of `leaparray-redis`.
    Leases,
    /// A node asks the server for each request. The server counts in a sliding window.
    RoundTrips,
    /// Each node has an equal share of the limit, and a sliding window of its own.
    Shares,
    /// Each node sends its counts in intervals, gets those of all nodes, and decides by its own
    /// counts and the last ones that it got.
    Counts {
        /// The interval in milliseconds.
        every: u64,
    },
}

/// The permits that a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One.
    One,
    /// From one to a tenth of the limit, by a heavy tail: k or more with a probability of about
    /// 1 / k.
    HeavyTail,
}

/// For how long a request waits that finds too few permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It is refused at once.
    Not,
    /// Until the server answers, unless it has told the node to ask later.
    Answer,
    /// For the length of the window.
    Window,
}

/// The mean round trips of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundTrips {
    /// 50 ms for all.
    Even,
    /// From 0.2 ms on, evenly on a logarithmic scale, by the number of the node.
    ByNode {
        /// The longest one, in milliseconds.
        longest: u32,
    },
    /// From 0.2 to 250 ms in the same way, and each node has another one every 5 s.
    ByNodeAndTime,
}

impl RoundTrips {
    /// From 0.2 to 100 ms: less than half of a window of a second.
    pub const BELOW_HALF_A_WINDOW: Self = Self::ByNode { longest: 100 };
}

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The share of the messages that are lost.
    pub loss: f64,
    /// The share of the messages that are delivered a second time.
    pub repeats: f64,
    /// The share of the deliveries that take from 0 to 2 s, longer than a node waits.
    pub late: f64,
    /// The share of the nodes that crash in a second. A node starts again at once, without its
    /// state. The requests that wait on it are lost.
    pub crashes: f64,
    /// The failovers of the server.
    pub failovers: Failover,
    /// The seconds between two of them.
    pub failover_secs: u64,
    /// The rate error of each node's clock, in millionths: half of the clocks are fast by it, and
    /// half are slow.
    pub drift_ppm: u32,
    /// By how many microseconds the server's clock steps back each 2.3 s, after which it goes on.
    /// Less than that.
    pub step_back: u64,
    /// Whether a server that is promoted has the identity of the one before it: a fault of the
    /// embedding, against the rules of the protocol.
    pub keeps_identity: bool,
    /// Whether each two nodes start with the same number, as clones of one image would if they drew
    /// it from their memory.
    pub twins: bool,
}

/// The effect of a failover on the state of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// There is none.
    Never,
    /// Each restart loses the state.
    Restart,
    /// A replica is promoted whose state is 300 ms old.
    Promotion,
    /// In turn a restart and a promotion.
    InTurn,
}

impl Scenario {
    /// Returns a scenario whose nodes and requests are all alike, of one node without demand and
    /// without faults.
    #[must_use]
    pub const fn alike(config: LeaseConfig, secs: u64) -> Self {
        Self {
            config,
            nodes: 1,
            demand: 0.0,
            workers: 0,
            sizes: Sizes::One,
            waits: Waits::Answer,
            round_trips: RoundTrips::Even,
            secs,
            faults: Faults::NONE,
        }
    }
}

impl Strategy {
    /// The strategies of the page.
    pub const ALL: [Self; 5] = [
        Self::Leases,
        Self::RoundTrips,
        Self::Shares,
        Self::Counts { every: 100 },
        Self::Counts { every: 500 },
    ];

    /// Returns its name on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::RoundTrips => "a round trip per request",
            Self::Shares => "static shares",
            Self::Counts { every: 100 } => "counts, every 100 ms",
            Self::Counts { every: 500 } => "counts, every 500 ms",
            Self::Counts { .. } => "counts",
        }
    }
}

impl Faults {
    /// No faults, and clocks without an error.
    pub const NONE: Self = Self {
        loss: 0.0,
        repeats: 0.0,
        late: 0.0,
        crashes: 0.0,
        failovers: Failover::Never,
        failover_secs: 5,
        drift_ppm: 0,
        step_back: 0,
        keeps_identity: false,
        twins: false,
    };

    /// All faults at once.
    pub const ALL: Self = Self {
        loss: 0.05,
        repeats: 0.05,
        late: 0.01,
        crashes: 0.2,
        failovers: Failover::InTurn,
        failover_secs: 5,
        drift_ppm: 500,
        step_back: 0,
        keeps_identity: false,
        twins: false,
    };
}
