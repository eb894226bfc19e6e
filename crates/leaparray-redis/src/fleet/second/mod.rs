//! One second of one process, as it is delivered.

mod decoded;
mod histogram;
mod numbers;
mod room;
mod row;

use std::time::Duration;

use leaparray::{EventCounts, Timestamp};

use super::codec::FormatError;
use super::counts::FleetCounts;
use super::names::Names;
pub(crate) use decoded::{DecodedRow, DecodedSecond};
pub(crate) use histogram::Distribution;
pub(crate) use numbers::{Numbers, RowNumbers};

/// One second of one process, as it is delivered.
///
/// ```
/// use leaparray::{MetricEvent, TrafficType};
/// use leaparray_redis::fleet::{
///     FleetConfig, FleetCounts, FormatError, Outbox, ProcessId, ProcessSecond, ResourceKey,
/// };
///
/// let mut outbox = Outbox::new(FleetConfig::default(), ProcessId(1), "web-1", 60, 1 << 20);
/// let mut counts = FleetCounts::default();
/// counts.metrics.counts[MetricEvent::Pass] = 3;
/// let key = ResourceKey::new(&"search".into(), None, TrafficType::Inbound);
/// let (delivered, _) = outbox.encode(60, [(key, counts)], 16 * 1024);
///
/// let second = ProcessSecond::decode(60, &delivered.bytes)?;
/// let row = &second.rows[0];
/// assert_eq!((row.name, row.counts.metrics.counts[MetricEvent::Pass]), (0, 3));
/// assert_eq!((second.sum.metrics.counts[MetricEvent::Pass], second.left_out), (3, None));
/// let cut = &delivered.bytes[..delivered.bytes.len() - 1];
/// assert_eq!(ProcessSecond::decode(60, cut), Err(FormatError::Damaged));
/// # Ok::<_, FormatError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessSecond {
    /// The resources that had an event, or requests in flight. If there was not room for all
    /// histograms, those of the busiest resources are there.
    pub rows: Vec<Row>,
    /// The sum of further resources, for which there was no room. It has no histogram.
    pub left_out: Option<LeftOut>,
    /// The sum of all resources. Its histogram has all response times, or is `None` if the process
    /// did not know all of them. It is coarser than those of the rows if it would take more than a
    /// quarter of the bytes.
    pub sum: FleetCounts,
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
    /// The numbers of their names, ascending: of all of them, unless these take too many bytes, or
    /// a process has more than 16,384 names.
    pub names: Vec<u32>,
    /// The sum of their counts.
    pub sum: FleetCounts,
}

impl ProcessSecond {
    /// Returns the sum of all rows, and of the resources that were left out.
    #[must_use]
    pub fn totals(&self) -> EventCounts {
        self.sum.metrics.counts
    }

    /// Encodes as many of the busiest resources as fit into `max_bytes`, and the sum of all others.
    /// Rows with a name from `names` on have no name, and go into the sum. Returns also the number
    /// of the resources in the sum.
    pub(crate) fn encode(
        second: u64,
        rows: Vec<Row>,
        names: u32,
        max_bytes: usize,
    ) -> (Vec<u8>, u64) {
        room::fit(second, rows, names, max_bytes)
    }

    /// Reads a second as it is stored.
    ///
    /// # Errors
    ///
    /// Returns a [`FormatError`] if it is of another version, or damaged.
    pub fn decode(second: u64, bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoded = DecodedSecond::default();
        decoded.decode(second, bytes)?;
        let second = Timestamp::from_secs(second);
        let counts = |numbers: RowNumbers<'_>, histogram: Option<Distribution<'_>>| {
            let mut counts = numbers.to_counts(second);
            counts.metrics.histogram = histogram.map(Distribution::to_histogram);
            counts
        };
        let checked = decoded.rows.checked()?;
        let sum = counts(decoded.sum.as_row(), checked.of_sum(&decoded.sum));
        let rows = checked.iter().map(|it| {
            let DecodedRow { name, counts: numbers, histogram } = it;
            Row { name, counts: counts(numbers, histogram) }
        });
        let rows = rows.collect();
        Ok(Self { rows, left_out: decoded.left_out, sum })
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

/// Returns the names with these distances.
fn from_gaps(mut gaps: Vec<u32>) -> Result<Vec<u32>, FormatError> {
    let mut before = None;
    for it in &mut gaps {
        *it = next_name(before, *it)?;
        before = Some(*it);
    }
    Ok(gaps)
}

/// Returns the name at a distance from the one before. Names are in ascending order, and none is
/// there twice.
fn next_name(before: Option<u32>, gap: u32) -> Result<u32, FormatError> {
    let name = before.unwrap_or(0).checked_add(gap);
    name.filter(|it| Some(*it) != before && *it < Names::MAX).ok_or(FormatError::Damaged)
}

/// Returns a time in nanoseconds, at most `u64::MAX`.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
