//! A second of a process, as a reader adds it to others.

use std::mem;

use leaparray::Timestamp;
use leaparray::histogram::HistogramBuckets;

use super::super::codec::{Decoder, FormatError};
use super::super::counts::FleetCounts;
use super::{LeftOut, from_gaps, histogram, next_name, row};

/// The most rows for which memory is reserved before they are decoded: damaged bytes may claim any
/// number.
const MAX_RESERVED: usize = 4_096;

/// A second of a process, as a reader adds it to others. The next second that is decoded uses the
/// same memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodedSecond {
    pub(crate) rows: DecodedRows,
    /// As in a [`ProcessSecond`](super::ProcessSecond).
    pub(crate) left_out: Option<LeftOut>,
    /// As in a [`ProcessSecond`](super::ProcessSecond), without the histogram.
    pub(crate) sum: FleetCounts,
}

/// The rows of a second, and the histogram of their sum. The buckets of all histograms are in one
/// list.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodedRows {
    rows: Vec<(u32, FleetCounts, Option<histogram::Decoded>)>,
    of_sum: Option<histogram::Decoded>,
    buckets: Vec<(i32, u64)>,
}

/// A row of a [`DecodedSecond`].
#[derive(Clone, Debug)]
pub(crate) struct DecodedRow<'a> {
    pub(crate) name: u32,
    /// The counts without the histogram.
    pub(crate) counts: &'a FleetCounts,
    /// The buckets of the histogram, if it is known.
    pub(crate) buckets: Option<HistogramBuckets<'a>>,
}

impl DecodedSecond {
    /// Reads a second as it is stored, instead of what was read before. The histograms of its rows
    /// are yet to be [checked](DecodedRows::checked).
    pub(crate) fn decode(&mut self, second: u64, bytes: &[u8]) -> Result<(), FormatError> {
        let Self { rows: DecodedRows { rows, of_sum, buckets }, left_out, sum } = self;
        rows.clear();
        buckets.clear();
        (*of_sum, *left_out, *sum) = (None, None, FleetCounts::new(second));
        let timestamp = Timestamp::from_secs(second);
        let mut from = Decoder::new(bytes)?;
        let count: usize = from.get()?;
        rows.reserve(count.min(MAX_RESERVED));
        let mut name = None;
        for _ in 0..count {
            let next = next_name(name, from.get()?)?;
            name = Some(next);
            let counts = row::decode(&mut from, timestamp)?;
            sum.add(&counts);
            let histogram = histogram::decode(&mut from, &counts.metrics, buckets)?;
            rows.push((next, counts, histogram));
        }
        let count = from.get()?;
        if count > 0 {
            let names = from_gaps(from.get()?)?;
            let it = LeftOut { count, names, sum: row::decode(&mut from, timestamp)? };
            if count < it.names.len() as u64 {
                return Err(FormatError::Damaged);
            }
            sum.add(&it.sum);
            *left_out = Some(it);
        }
        *of_sum = histogram::decode(&mut from, &sum.metrics, buckets)?;
        from.finish()
    }

    /// Returns how many names of the process are needed: one more than the highest number.
    pub(crate) fn names(&self) -> u32 {
        // Both are in ascending order.
        let row = self.rows.rows.last().map(|it| it.0);
        let left_out = self.left_out.as_ref().and_then(|it| it.names.last().copied());
        row.max(left_out).map_or(0, |it| it.saturating_add(1))
    }

    /// Returns the contents, in memory of their own. What is left is empty.
    pub(crate) fn take(&mut self) -> Self {
        let mut taken = mem::take(self);
        taken.rows.rows.shrink_to_fit();
        taken.rows.buckets.shrink_to_fit();
        taken
    }
}

impl DecodedRows {
    /// Returns the rows, by ascending name, and the buckets of their sum's histogram, if that is
    /// known. Checks all histograms.
    pub(crate) fn checked(
        &self,
    ) -> Result<(Vec<DecodedRow<'_>>, Option<HistogramBuckets<'_>>), FormatError> {
        let checked = |it: &Option<histogram::Decoded>| {
            it.as_ref().map(|it| it.buckets(&self.buckets)).transpose()
        };
        let rows = self.rows.iter().map(|(name, counts, histogram)| {
            Ok(DecodedRow { name: *name, counts, buckets: checked(histogram)? })
        });
        Ok((rows.collect::<Result<_, _>>()?, checked(&self.of_sum)?))
    }
}
