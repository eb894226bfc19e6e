//! A histogram in fewer bytes.

use super::bins::Bins;
use super::from_buckets::HistogramBuckets;
use super::latency::LatencyHistogram;

/// A [`LatencyHistogram`] in fewer bytes, for a program that keeps many of them: two for each bin
/// between the shortest and the longest response time, or eight if a count is 2¹⁶ or more. A
/// program that adds to many of them, one after the other, also reads fewer cache lines.
///
/// Its response times are read by [merging](LatencyHistogram::merge_compact) it.
///
/// ```
/// use leaparray::histogram::{CompactHistogram, HistogramBuckets};
/// use leaparray::LatencyHistogram;
/// use std::time::Duration;
///
/// let [min, max] = [2, 3].map(Duration::from_secs);
/// let buckets = HistogramBuckets::new(0, min + max, min, max, &[(0, 1), (1, 1)])?;
/// let mut sum = CompactHistogram::from(&buckets);
/// sum.merge_buckets(&buckets);
///
/// let mut histogram = LatencyHistogram::default();
/// histogram.merge_compact(&sum);
/// assert_eq!((histogram.scale(), histogram.count()), (0, 4));
/// assert_eq!((histogram.sum(), histogram.max()), (Duration::from_secs(10), Some(max)));
/// # Ok::<_, leaparray::histogram::HistogramBucketsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompactHistogram {
    pub(super) bins: Bins,
    /// The index of the first count; 0 if there is none.
    first: i32,
    counts: Counts,
    pub(super) nanos: u128,
    pub(super) min: u64,
    pub(super) max: u64,
}

/// The counts of neighbouring bins. The first and the last one are above zero.
#[derive(Clone, Debug)]
enum Counts {
    Small(Vec<u16>),
    Large(Vec<u64>),
}

impl From<&HistogramBuckets<'_>> for CompactHistogram {
    /// Creates a histogram at the scale of the buckets.
    fn from(buckets: &HistogramBuckets<'_>) -> Self {
        let (bins, counts) = (buckets.bins, Counts::Small(Vec::new()));
        let mut histogram = Self { bins, first: 0, counts, nanos: 0, min: 0, max: 0 };
        histogram.merge_buckets(buckets);
        histogram
    }
}

impl CompactHistogram {
    /// Adds the response times of another histogram. The result has the coarser of the two scales,
    /// as after [`LatencyHistogram::merge`].
    pub fn merge_buckets(&mut self, other: &HistogramBuckets<'_>) {
        let steps = self.coarsen(other.bins);
        if let [(first, _), ..] = other.buckets
            && let [.., (last, _)] = other.buckets
        {
            let is_empty = self.ends().is_none();
            self.min = if is_empty { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
            self.nanos = self.nanos.saturating_add(other.nanos);
            self.cover(first >> steps, last >> steps);
            for (index, count) in other.buckets {
                self.counts.add(self.first.abs_diff(index >> steps) as usize, *count);
            }
        }
    }

    /// Returns the same histogram in the bytes that it usually takes.
    #[must_use]
    pub fn to_histogram(&self) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::at(self.bins);
        histogram.merge_compact(self);
        histogram
    }

    /// Returns the index of each bin that is not empty, ascending, and its count.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (i32, u64)> {
        (self.first..).zip(self.counts.iter()).filter(|(_, count)| *count > 0)
    }

    /// Returns the indices of the first and the last bin; `None` if all are empty.
    pub(super) fn ends(&self) -> Option<(i32, i32)> {
        let beyond_first = i32::try_from(self.counts.len().checked_sub(1)?).ok()?;
        Some((self.first, self.first + beyond_first))
    }

    /// Changes to the coarser of two scales. Returns by how many steps the other one is finer.
    fn coarsen(&mut self, other: Bins) -> u32 {
        let (scale, before) = (self.bins.scale().min(other.scale()), self.bins.scale());
        if scale < before
            && let Some((first, last)) = self.ends()
        {
            let steps = before.abs_diff(scale);
            let mut coarser = Self { counts: Counts::Small(Vec::new()), ..self.clone() };
            coarser.cover(first >> steps, last >> steps);
            for (index, count) in self.buckets() {
                coarser.counts.add(coarser.first.abs_diff(index >> steps) as usize, count);
            }
            *self = coarser;
        }
        self.bins = Bins::at(scale);
        other.scale().abs_diff(scale).into()
    }

    /// Makes room for the counts of the bins from one index to another, both of which are about to
    /// be counted.
    fn cover(&mut self, low: i32, high: i32) {
        let (first, last) = self.ends().unwrap_or((low, low));
        self.first = first.min(low);
        let bins = self.first.abs_diff(last.max(high)) as usize + 1;
        self.counts.cover(first.abs_diff(self.first) as usize, bins);
    }
}

impl Counts {
    fn len(&self) -> usize {
        match self {
            Self::Small(counts) => counts.len(),
            Self::Large(counts) => counts.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let (small, large) = match self {
            Self::Small(counts) => (counts.as_slice(), [].as_slice()),
            Self::Large(counts) => ([].as_slice(), counts.as_slice()),
        };
        small.iter().map(|&count| count.into()).chain(large.iter().copied())
    }

    /// Adds a count, which may be too large for the bytes so far.
    fn add(&mut self, at: usize, count: u64) {
        match self {
            Self::Small(counts) => {
                let sum = u16::try_from(count).ok().and_then(|it| counts[at].checked_add(it));
                match sum {
                    Some(sum) => counts[at] = sum,
                    None => self.enlarge(at, count),
                }
            }
            Self::Large(counts) => counts[at] = counts[at].saturating_add(count),
        }
    }

    #[cold]
    fn enlarge(&mut self, at: usize, count: u64) {
        *self = Self::Large(self.iter().collect());
        self.add(at, count);
    }

    /// Adds that number of zeros before the first count, and others after the last one up to that
    /// number of counts. Allocates no more than is needed.
    fn cover(&mut self, before: usize, bins: usize) {
        match self {
            Self::Small(counts) => cover(counts, before, bins),
            Self::Large(counts) => cover(counts, before, bins),
        }
    }
}

fn cover<T: Copy + Default>(counts: &mut Vec<T>, before: usize, bins: usize) {
    if bins > counts.len() {
        let after = bins - counts.len() - before;
        let zeros = |len| std::iter::repeat_n(T::default(), len);
        counts.reserve_exact(before + after);
        if before > 0 {
            counts.splice(0..0, zeros(before));
        }
        counts.extend(zeros(after));
    }
}
