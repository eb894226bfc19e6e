//! One second of one process, as it is delivered.

mod wire;

use std::cmp::Reverse;

use leaparray::Timestamp;

use super::codec::{FormatError, from_bytes, to_bytes};
use super::counts::FleetCounts;
use super::totals::FleetTotals;
use wire::WireRow;

/// One second of one process, as it is delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessSecond {
    /// The resources that had an event, or requests in flight.
    pub rows: Vec<Row>,
    /// The sum of further resources, for which there was no room.
    pub left_out: Option<LeftOut>,
}

/// The counts of one resource, or of one of its contexts, in one process and one second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The number of the name in its process.
    pub name: u32,
    /// The counts.
    pub counts: FleetCounts,
}

/// The resources of a second for which there was no room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The number of the resources.
    pub count: u64,
    /// The numbers of the names of some of them, in no particular order.
    pub names: Vec<u32>,
    /// The sum of their counts.
    pub sum: FleetCounts,
}

/// The encoded form: the rows; and the number, the names and the sum of the resources without one.
#[derive(serde::Serialize, serde::Deserialize)]
struct WireSecond(Vec<WireRow>, Option<(u64, Vec<u32>, WireRow)>);

/// The most names of a [`LeftOut`]. Each takes up to three bytes.
const MAX_LEFT_OUT_NAMES: usize = 256;

impl ProcessSecond {
    /// Returns the sum of all rows, and of the resources that were left out.
    #[must_use]
    pub fn totals(&self) -> FleetTotals {
        let mut sum = FleetTotals::default();
        for counts in self.all() {
            sum += &FleetTotals::from(&counts.metrics);
        }
        sum
    }

    /// Returns the counts of all rows, and of the resources that were left out.
    pub(crate) fn all(&self) -> impl Iterator<Item = &FleetCounts> {
        let rows = self.rows.iter().map(|it| &it.counts);
        rows.chain(self.left_out.as_ref().map(|it| &it.sum))
    }

    /// Encodes as many of the busiest resources as fit into `max_bytes`, and the sum of all others. Rows with a name from
    /// `names` on have no name, and go into the sum. Returns also the number of the resources in the sum.
    pub(crate) fn encode(
        second: u64,
        mut rows: Vec<Row>,
        names: u32,
        max_bytes: usize,
    ) -> (Vec<u8>, u64) {
        rows.sort_by_key(|it| Reverse((it.name < names, it.counts.requests())));
        let mut wire = WireSecond(Vec::with_capacity(rows.len()), None);
        let mut left = max_bytes;
        let mut out = LeftOut { sum: FleetCounts::new(second), ..LeftOut::default() };
        for row in rows {
            let encoded = WireRow::new(row.name, &row.counts);
            let size = encoded.size();
            if out.count == 0 && row.name < names && size <= left {
                left -= size;
                wire.0.push(encoded);
                continue;
            }
            // All rows after the first one without room, so that those in the sum are the least busy.
            out.count += 1;
            out.sum.add(&row.counts);
            if row.name < names && out.names.len() < MAX_LEFT_OUT_NAMES {
                out.names.push(row.name);
            }
        }
        // Close numbers follow each other, and a reader finds them close in memory.
        wire.0.sort_by_key(WireRow::name);
        let count = out.count;
        if count > 0 {
            wire.1 = Some((count, out.names, WireRow::new(0, &out.sum)));
        }
        (to_bytes(&wire), count)
    }

    /// Reads a second as it is stored.
    ///
    /// # Errors
    ///
    /// Returns a [`FormatError`] if it is of another version, or damaged.
    pub fn decode(second: u64, bytes: &[u8]) -> Result<Self, FormatError> {
        let second = Timestamp::from_secs(second);
        let WireSecond(rows, left_out) = from_bytes(bytes)?;
        let rows = rows.into_iter().map(|it| it.row(second)).collect::<Result<_, _>>()?;
        let left_out = left_out.map(|(count, names, sum)| {
            Ok::<_, FormatError>(LeftOut { count, names, sum: sum.row(second)?.counts })
        });
        Ok(Self { rows, left_out: left_out.transpose()? })
    }
}
