//! One second of one process, as it is delivered.

mod histogram;
mod room;
mod wire;

use std::time::Duration;

use leaparray::{LatencyHistogram, SecondMetrics, Timestamp};
use serde::{Deserialize, Serialize};

use super::codec::{FormatError, from_bytes, to_bytes};
use super::counts::FleetCounts;
use super::totals::FleetTotals;
use histogram::Buckets;
use wire::WireRow;

/// One second of one process, as it is delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessSecond {
    /// The resources that had an event, or requests in flight. If there was not room for all histograms, those of the busiest
    /// resources are there.
    pub rows: Vec<Row>,
    /// The sum of further resources, for which there was no room. It has no histogram.
    pub left_out: Option<LeftOut>,
    /// The response times that are in no histogram of a row; `None` if there are none, or if the process did not know
    /// all of their histograms.
    pub rest: Option<LatencyHistogram>,
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
    /// The numbers of their names, ascending: of all of them, unless these take too many bytes, or a process has more
    /// than 16,384 names.
    pub names: Vec<u32>,
    /// The sum of their counts.
    pub sum: FleetCounts,
}

/// The encoded form. Each name is the distance from the one before.
#[derive(Debug, Serialize, Deserialize)]
struct WireSecond {
    rows: Vec<WireRow>,
    left_out: Option<WireLeftOut>,
    rest: Option<Buckets>,
}

/// The encoded form of a [`LeftOut`].
#[derive(Debug, Serialize, Deserialize)]
struct WireLeftOut {
    count: u64,
    names: Vec<u32>,
    sum: WireRow,
}

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
    fn all(&self) -> impl Iterator<Item = &FleetCounts> {
        let rows = self.rows.iter().map(|it| &it.counts);
        rows.chain(self.left_out.as_ref().map(|it| &it.sum))
    }

    /// Returns how many names of the process are needed: one more than the highest number.
    pub(crate) fn names(&self) -> u32 {
        let left_out = self.left_out.iter().flat_map(|it| it.names.iter().copied());
        let all = self.rows.iter().map(|it| it.name).chain(left_out);
        all.max().map_or(0, |it| it.saturating_add(1))
    }

    /// Returns the sum of everything, with all response times in its histogram if they are known.
    pub(crate) fn sum(&mut self, second: u64) -> FleetCounts {
        let mut sum = FleetCounts::new(second);
        let mut histogram = self.rest.clone();
        let mut is_known = true;
        let rows = self.rows.iter_mut().map(|it| &mut it.counts);
        for counts in rows.chain(self.left_out.as_mut().map(|it| &mut it.sum)) {
            // Histograms are merged here. The rest has the response times of the rows without one.
            let own = counts.metrics.histogram.take();
            sum.add(counts);
            match (&own, &mut histogram) {
                (Some(it), Some(histogram)) => histogram.merge(it),
                (Some(it), None) => histogram = Some(it.clone()),
                (None, _) => is_known &= counts.metrics.rt_count == 0 || self.rest.is_some(),
            }
            counts.metrics.histogram = own;
        }
        sum.metrics.histogram = histogram.filter(|_| is_known);
        sum
    }

    /// Encodes as many of the busiest resources as fit into `max_bytes`, and the sum of all others. Rows with a name from
    /// `names` on have no name, and go into the sum. Returns also the number of the resources in the sum.
    pub(crate) fn encode(
        second: u64,
        rows: Vec<Row>,
        names: u32,
        max_bytes: usize,
    ) -> (Vec<u8>, u64) {
        let (wire, left_out) = room::fit(second, rows, names, max_bytes);
        (to_bytes(&wire), left_out)
    }

    /// Reads a second as it is stored.
    ///
    /// # Errors
    ///
    /// Returns a [`FormatError`] if it is of another version, or damaged.
    pub fn decode(second: u64, bytes: &[u8]) -> Result<Self, FormatError> {
        let timestamp = Timestamp::from_secs(second);
        let WireSecond { rows, left_out, rest } = from_bytes(bytes)?;
        let mut name = 0_u32;
        let rows = rows.into_iter().map(|it| {
            name = name.checked_add(it.name).ok_or(FormatError::Damaged)?;
            Ok::<_, FormatError>(Row { name, counts: it.counts(timestamp)? })
        });
        let rows = rows.collect::<Result<_, _>>()?;
        let left_out = left_out.map(|it| {
            let names = from_gaps(it.names).ok_or(FormatError::Damaged)?;
            Ok::<_, FormatError>(LeftOut { count: it.count, names, sum: it.sum.counts(timestamp)? })
        });
        let rest = rest.map(|it| it.decode(&SecondMetrics::new(timestamp)));
        Ok(Self { rows, left_out: left_out.transpose()?, rest: rest.transpose()? })
    }
}

/// Returns the distances of numbers, in ascending order.
fn gaps(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    let mut before = 0;
    for number in &mut numbers {
        (*number, before) = (*number - before, *number);
    }
    numbers
}

/// Returns the numbers with these distances; `None` if they are too high.
fn from_gaps(mut gaps: Vec<u32>) -> Option<Vec<u32>> {
    let mut before = 0_u32;
    for number in &mut gaps {
        before = before.checked_add(*number)?;
        *number = before;
    }
    Some(gaps)
}

/// Returns a time in nanoseconds, at most `u64::MAX`.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
