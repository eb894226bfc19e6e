//! A second of a process, as a reader adds it to others.

use std::mem;

use leaparray::Timestamp;
use leaparray::histogram::HistogramBuckets;

use super::super::codec::{Decoder, FormatError};
use super::numbers::{Numbers, Sparse, Times};
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
    pub(crate) sum: Numbers,
}

/// The rows of a second, and the histogram of their sum. The numbers of all rows are in one list,
/// and the buckets of all histograms in another.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodedRows {
    rows: Vec<StoredRow>,
    numbers: Vec<u64>,
    of_sum: Option<histogram::Decoded>,
    buckets: Vec<(i32, u64)>,
}

#[derive(Clone, Debug)]
struct StoredRow {
    name: u32,
    /// The bits of the numbers that are not 0, and the position of the first of them.
    mask: u32,
    first: usize,
    histogram: Option<histogram::Decoded>,
}

/// A row of a [`DecodedSecond`].
#[derive(Clone, Debug)]
pub(crate) struct DecodedRow<'a> {
    pub(crate) name: u32,
    /// The counts without the histogram.
    pub(crate) counts: Sparse<'a>,
    /// The buckets of the histogram, if it is known.
    pub(crate) buckets: Option<HistogramBuckets<'a>>,
}

impl DecodedSecond {
    /// Reads a second as it is stored, instead of what was read before. The histograms of its rows
    /// are yet to be [checked](DecodedRows::checked).
    pub(crate) fn decode(&mut self, second: u64, bytes: &[u8]) -> Result<(), FormatError> {
        let Self { rows: DecodedRows { rows, numbers, of_sum, buckets }, left_out, sum } = self;
        rows.clear();
        numbers.clear();
        buckets.clear();
        (*of_sum, *left_out, *sum) = (None, None, Numbers::default());
        let mut from = Decoder::new(bytes)?;
        let count: usize = from.get()?;
        rows.reserve(count.min(MAX_RESERVED));
        let (mut before, mut counts) = (None, Numbers::default());
        for _ in 0..count {
            let name = next_name(before, from.get()?)?;
            before = Some(name);
            row::decode(&mut from, &mut counts)?;
            let first = numbers.len();
            let mask = counts.push_to(numbers);
            sum.add(Sparse { mask, numbers: &numbers[first..] });
            let histogram = histogram::decode(&mut from, || counts.times(), buckets)?;
            rows.push(StoredRow { name, mask, first, histogram });
        }
        let count = from.get()?;
        if count > 0 {
            let names = from_gaps(from.get()?)?;
            row::decode(&mut from, &mut counts)?;
            if count < names.len() as u64 {
                return Err(FormatError::Damaged);
            }
            let first = numbers.len();
            let mask = counts.push_to(numbers);
            sum.add(Sparse { mask, numbers: &numbers[first..] });
            let sum = counts.to_counts(Timestamp::from_secs(second));
            *left_out = Some(LeftOut { count, names, sum });
        }
        *of_sum = histogram::decode(&mut from, || sum.times(), buckets)?;
        from.finish()
    }

    /// Returns how many names of the process are needed: one more than the highest number.
    pub(crate) fn names(&self) -> u32 {
        // Both are in ascending order.
        let row = self.rows.rows.last().map(|it| it.name);
        let left_out = self.left_out.as_ref().and_then(|it| it.names.last().copied());
        row.max(left_out).map_or(0, |it| it.saturating_add(1))
    }

    /// Returns the contents, in memory of their own. What is left is empty.
    pub(crate) fn take(&mut self) -> Self {
        let mut taken = mem::take(self);
        taken.rows.rows.shrink_to_fit();
        taken.rows.numbers.shrink_to_fit();
        taken.rows.buckets.shrink_to_fit();
        taken
    }
}

impl DecodedRows {
    /// Returns the rows, by ascending name, and the buckets of the histogram of their `sum`, if it
    /// is known. Checks all histograms.
    pub(crate) fn checked(
        &self,
        sum: &Numbers,
    ) -> Result<(Vec<DecodedRow<'_>>, Option<HistogramBuckets<'_>>), FormatError> {
        let mut rows = Vec::with_capacity(self.rows.len());
        for StoredRow { name, mask, first, histogram } in &self.rows {
            let numbers = &self.numbers[*first..][..mask.count_ones() as usize];
            let counts = Sparse { mask: *mask, numbers };
            let buckets = self.buckets(histogram.as_ref(), || counts.times())?;
            rows.push(DecodedRow { name: *name, counts, buckets });
        }
        Ok((rows, self.buckets(self.of_sum.as_ref(), || sum.times())?))
    }

    fn buckets(
        &self,
        histogram: Option<&histogram::Decoded>,
        times: impl Fn() -> Times,
    ) -> Result<Option<HistogramBuckets<'_>>, FormatError> {
        histogram.map(|it| it.buckets(&times(), &self.buckets)).transpose()
    }
}
