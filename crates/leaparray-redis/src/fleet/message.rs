//! The messages between processes and the server.

use super::ProcessId;

/// The second and its bytes, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondBytes {
    /// The number of the second since the Unix epoch, by the clock of the process.
    pub second: u64,
    /// The encoded [`ProcessSecond`](super::ProcessSecond).
    pub bytes: Vec<u8>,
}

/// A delivery of a process: the next version of its record, and the seconds that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The process.
    pub process: ProcessId,
    /// The version of the record on which this one builds; 0 for the first one. The version of this
    /// one is by one higher.
    pub base: u64,
    /// The first second of the process.
    pub first: u64,
    /// The encoded [`Record`](super::Record).
    pub record: Vec<u8>,
    /// The seconds, the oldest first.
    pub seconds: Vec<SecondBytes>,
    /// The number of names that the process has sent before.
    pub names_before: u32,
    /// The next names.
    pub names: Vec<Vec<u8>>,
}

/// The answer of the server to a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The time of the server, in microseconds.
    pub now: u64,
    /// The number of names that it has of the process.
    pub names: u32,
    /// The number of processes that have delivered in the last
    /// [`lost_after`](super::FleetConfig::lost_after).
    pub processes: u32,
    /// The outcome of the delivery.
    pub outcome: Outcome,
}

/// The outcome of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All of it is stored.
    Taken,
    /// Nothing is stored: the server has another version.
    Conflict {
        /// The version that it has.
        version: u64,
        /// The encoded [`Record`](super::Record).
        record: Vec<u8>,
    },
    /// Nothing is stored: the deadline of the first second has passed, or the process joins with
    /// too early a second.
    TooLate,
    /// Nothing is stored: the clock of the process is too far ahead.
    TooEarly,
    /// Nothing is stored: the server has lost names.
    NamesLost,
}

/// The record of a process, as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The process.
    pub process: ProcessId,
    /// The version of the record.
    pub version: u64,
    /// The time of the last delivery, in microseconds of the server's clock.
    pub contact: u64,
    /// The encoded [`Record`](super::Record).
    pub record: Vec<u8>,
}

/// The records of all processes on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The time of the server, in microseconds.
    pub now: u64,
    /// Since when the server has heard of the fleet, in microseconds: since a process reached it
    /// for the first time, or again after it had lost its data or after a time without any
    /// delivery.
    pub since: u64,
    /// The processes, in no particular order.
    pub processes: Vec<Known>,
}
