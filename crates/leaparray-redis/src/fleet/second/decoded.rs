//! A second of a process, as a reader adds it to others.

use std::mem;

use leaparray::Timestamp;
use leaparray::histogram::HistogramBuckets;

use super::super::codec::{Decoder, FormatError};
use super::histogram::{self, Decoded, DecodedBuckets, Distribution, Extremes};
use super::numbers::{Numbers, RowNumbers, USUAL};
use super::{LeftOut, from_gaps, next_name, row};

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

/// The rows of a second, and the histogram of their sum. The numbers of all rows beyond the usual
/// ones are in one list, and the buckets of all histograms in another.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodedRows {
    rows: Vec<StoredRow>,
    others: Vec<u64>,
    of_sum: Decoded,
    histograms: Vec<DecodedBuckets>,
    buckets: Vec<(i32, u64)>,
}

#[derive(Clone, Debug, Default)]
struct StoredRow {
    name: u32,
    /// The bits of the numbers that are not usual, and the position of the first of them.
    mask: u32,
    first: usize,
    usual: [u64; USUAL],
    histogram: Decoded,
}

/// A row of a [`DecodedSecond`].
#[derive(Clone, Debug)]
pub(crate) struct DecodedRow<'a> {
    pub(crate) name: u32,
    /// The counts without the histogram.
    pub(crate) counts: RowNumbers<'a>,
    /// The histogram, if it is known.
    pub(crate) histogram: Option<Distribution<'a>>,
}

/// The rows of a second whose histograms were checked.
#[derive(Debug)]
pub(crate) struct CheckedRows<'a> {
    rows: &'a DecodedRows,
    /// Those of the rows, and of the sum.
    histograms: Vec<HistogramBuckets<'a>>,
}

impl DecodedSecond {
    /// Reads a second as it is stored, instead of what was read before. The histograms of its rows
    /// are yet to be [checked](DecodedRows::checked).
    pub(crate) fn decode(&mut self, second: u64, bytes: &[u8]) -> Result<(), FormatError> {
        let Self { rows: all, left_out, sum } = self;
        let DecodedRows { rows, others, of_sum, histograms, buckets } = all;
        rows.clear();
        others.clear();
        histograms.clear();
        buckets.clear();
        (*of_sum, *left_out, *sum) = (Decoded::None, None, Numbers::default());
        let mut from = Decoder::new(bytes)?;
        let count: usize = from.get()?;
        rows.reserve(count.min(MAX_RESERVED));
        let mut before = None;
        for _ in 0..count {
            let name = next_name(before, from.u32()?)?;
            before = Some(name);
            // In place: a copy of what was just written byte by byte waits for all of it.
            rows.push(StoredRow { name, ..StoredRow::default() });
            let Some(row) = rows.last_mut() else { continue };
            row.decode(&mut from, others)?;
            let times = || row.numbers(others).times();
            row.histogram = histogram::decode(&mut from, times, histograms, buckets)?;
            sum.add(row.numbers(others));
        }
        let count = from.u64()?;
        if count > 0 {
            let names = from_gaps(from.get()?)?;
            let mut row = StoredRow::default();
            row.decode(&mut from, others)?;
            if count < names.len() as u64 {
                return Err(FormatError::Damaged);
            }
            let row = row.numbers(others);
            sum.add(row);
            let sum = row.to_counts(Timestamp::from_secs(second));
            *left_out = Some(LeftOut { count, names, sum });
        }
        let times = || sum.as_row().times();
        *of_sum = histogram::decode(&mut from, times, histograms, buckets)?;
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
        taken.rows.others.shrink_to_fit();
        taken.rows.histograms.shrink_to_fit();
        taken.rows.buckets.shrink_to_fit();
        taken
    }
}

impl StoredRow {
    /// Decodes the numbers.
    #[inline]
    fn decode(&mut self, from: &mut Decoder<'_>, others: &mut Vec<u64>) -> Result<(), FormatError> {
        self.first = others.len();
        self.mask = row::decode(from, &mut self.usual, others)?;
        Ok(())
    }

    /// Returns the numbers, with those of all rows that are not usual.
    fn numbers<'a>(&'a self, others: &'a [u64]) -> RowNumbers<'a> {
        let Self { usual, mask, first, .. } = self;
        let others = if *mask == 0 { &[] } else { &others[*first..] };
        RowNumbers { usual, mask: *mask, others }
    }
}

impl DecodedRows {
    /// Checks all histograms.
    pub(crate) fn checked(&self) -> Result<CheckedRows<'_>, FormatError> {
        let histograms = self.histograms.iter().map(|it| it.checked(&self.buckets));
        Ok(CheckedRows { rows: self, histograms: histograms.collect::<Result<_, _>>()? })
    }
}

impl CheckedRows<'_> {
    /// Returns the rows, by ascending name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = DecodedRow<'_>> {
        let mut checked = self.histograms.iter();
        self.rows.rows.iter().map(move |row| {
            let counts = row.numbers(&self.rows.others);
            let histogram = distribution(row.histogram, counts, || checked.next());
            DecodedRow { name: row.name, counts, histogram }
        })
    }

    /// Returns the histogram of the `sum`, if it is known.
    pub(crate) fn of_sum(&self, sum: &Numbers) -> Option<Distribution<'_>> {
        distribution(self.rows.of_sum, sum.as_row(), || self.histograms.last())
    }
}

fn distribution<'a>(
    decoded: Decoded,
    numbers: RowNumbers<'_>,
    next: impl FnOnce() -> Option<&'a HistogramBuckets<'a>>,
) -> Option<Distribution<'a>> {
    match decoded {
        Decoded::None => None,
        Decoded::Extremes(config) => {
            Extremes::new(config, &numbers.times()).map(Distribution::Extremes)
        }
        Decoded::Buckets => next().map(Distribution::Buckets),
    }
}
