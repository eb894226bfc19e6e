//! The record of a process on the server.

use std::fmt;

use leaparray::EventCounts;
use serde::{Deserialize, Serialize};

use super::codec::{FormatError, from_bytes, to_bytes};

/// The identity of a process, drawn at random when it starts. A process that starts again has
/// another one, and so has one that finds that another process delivers under its own: a clone.
///
/// ```
/// use leaparray_redis::fleet::ProcessId;
///
/// assert_eq!(ProcessId(255).to_string(), "00000000000000ff");
/// assert_eq!("00000000000000ff".parse(), Ok(ProcessId(255)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl std::str::FromStr for ProcessId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// The record of a process on the server, as of its last delivery.
///
/// ```
/// use leaparray::{EventCounts, MetricEvent};
/// use leaparray_redis::fleet::Record;
///
/// let totals = |pass| EventCounts::from([(MetricEvent::Pass, pass)]);
/// let mut record = Record::default();
/// (record.first, record.next) = (60, 64);
/// (record.delivered, record.missed) = ((3, totals(30)), (1, totals(9)));
/// (record.late, record.waiting, record.lifetime) = (totals(1), totals(5), totals(47));
/// // lifetime = delivered + missed + late + waiting + unfinished
/// assert_eq!(record.unfinished()[MetricEvent::Pass], 2);
/// // Each second from the first one on, until it has left.
/// assert_eq!([59, 60, 70].map(|it| record.covers(it)), [false, true, true]);
/// record.has_left = true;
/// assert_eq!([63, 64].map(|it| record.covers(it)), [true, false]);
/// assert_eq!(Record::decode(&record.encode())?, record);
/// # Ok::<_, leaparray_redis::fleet::FormatError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The name of the process.
    pub name: String,
    /// The first second of the process, by its clock.
    pub first: u64,
    /// The first second that is not decided: each one before was delivered or missed.
    pub next: u64,
    /// The number of delivered seconds, and what was recorded in them.
    pub delivered: (u64, EventCounts),
    /// The number of missed seconds, and what was recorded in them.
    pub missed: (u64, EventCounts),
    /// The counts recorded after their second had been read.
    pub late: EventCounts,
    /// The counts in seconds that will be delivered.
    pub waiting: EventCounts,
    /// All that was recorded since the first second of the process.
    pub lifetime: EventCounts,
    /// The number of resources in the last second whose counts are only in the sum.
    pub left_out: u64,
    /// By how many microseconds the clock of the process is ahead of the server's, as far as the
    /// process knows.
    pub clock_ahead: i64,
    /// Whether the process was closed: there is no second after the decided ones.
    pub has_left: bool,
    /// How often the process has found that another one delivers under its identity, as a clone of
    /// it does, and has taken [another one](super::Outbox::rename). The counts before that are in
    /// the record of the former identity.
    pub taken: u64,
    /// A number that the sender draws for each delivery, from the randomness of the operating
    /// system: not from memory, of which a clone of the process has a copy.
    pub nonce: u64,
}

impl Record {
    /// Returns what was recorded in seconds that are not over.
    #[must_use]
    pub fn unfinished(&self) -> EventCounts {
        let mut rest = self.lifetime;
        for part in [&self.delivered.1, &self.missed.1, &self.late, &self.waiting] {
            rest = rest.saturating_sub(part);
        }
        rest
    }

    /// Returns whether a second belongs to the process.
    #[must_use]
    pub const fn covers(&self, second: u64) -> bool {
        second >= self.first && !(self.has_left && second >= self.next)
    }

    /// Returns the record as it is stored.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Reads a record as it is stored.
    ///
    /// # Errors
    ///
    /// Returns a [`FormatError`] if it is of another version, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        from_bytes(bytes)
    }
}
