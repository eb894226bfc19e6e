//! The fleet, its faults, and the rules that can be broken.

use std::borrow::Cow;

use leaparray_redis::fleet::FleetConfig;

/// A fleet of processes with two readers.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The settings of the fleet.
    pub config: FleetConfig,
    /// The number of processes that run at a time.
    pub processes: usize,
    /// The length of the run, in seconds.
    pub secs: u64,
    /// The number of resources.
    pub resources: u32,
    /// The bytes of the rows of a second.
    pub second_bytes: usize,
    /// The bytes of the seconds that wait in a process.
    pub outbox_bytes: usize,
    /// The faults.
    pub faults: Faults,
    /// The rule that is broken, to show that a check finds it.
    pub broken: Option<Broken>,
}

/// The faults of a scenario. All probabilities are from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// The probability that a request is lost, and that an answer is.
    pub loss: f64,
    /// The probability that a request arrives again, up to a minute later.
    pub duplicates: f64,
    /// The probability that a message takes up to 400 ms.
    pub slow: f64,
    /// The clocks of the processes.
    pub clocks: Clocks,
    /// How often a process crashes, in each second. Another one starts after up to 3 s.
    pub crashes: f64,
    /// How often a process is closed, in each second. Another one starts after up to 3 s.
    pub leaves: f64,
    /// How often a process reads no seconds for 2 to 20 s, in each second.
    pub stalls: f64,
    /// The outages of the server, one after the other.
    pub outages: Cow<'static, [Outage]>,
}

/// The clocks of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// None has an error.
    Exact,
    /// Each is up to 1 s ahead or behind.
    Skewed,
    /// As [`Skewed`](Self::Skewed), except that every fifth process is 10 s behind, and the second
    /// one is 10 s ahead.
    Far,
}

/// A time in which the server does not answer, and what has become of its data then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins, in seconds after the start.
    pub at: u64,
    /// Its length, in seconds.
    pub secs: u64,
    /// The data after it.
    pub after: After,
}

/// The data of a server after an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// All of them.
    Same,
    /// None.
    Blank,
    /// Those of a replica, which is behind by this time in milliseconds.
    Replica(u64),
}

/// A rule of the protocol that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The server takes a delivery whatever version it builds on.
    TakesAnyVersion,
    /// A reader takes a second for final once all processes that it knows have delivered it.
    NoGrace,
    /// A process counts the seconds of a delivery without an answer as missed.
    UnansweredIsMissed,
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        loss: 0.0,
        duplicates: 0.0,
        slow: 0.0,
        clocks: Clocks::Exact,
        crashes: 0.0,
        leaves: 0.0,
        stalls: 0.0,
        outages: Cow::Borrowed(&[]),
    };

    /// The faults of the network and of the clocks.
    pub const NETWORK: Self =
        Self { loss: 0.05, duplicates: 0.05, slow: 0.05, clocks: Clocks::Skewed, ..Self::NONE };

    /// All faults of the network and of the processes.
    pub const PROCESSES: Self =
        Self { crashes: 0.002, leaves: 0.002, stalls: 0.002, ..Self::NETWORK };

    /// Returns whether the server loses data.
    #[must_use]
    pub fn loses_data(&self) -> bool {
        self.outages.iter().any(|it| it.after != After::Same)
    }
}
