//! A histogram in fewer bytes.

use std::time::Duration;

use super::bins::Bins;
use super::config::HistogramConfig;
use super::from_buckets::HistogramBuckets;
use super::latency::LatencyHistogram;
use super::layout::MAX_NANOS;
use crate::time::saturating_nanos;

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
        let mut histogram = Self::empty(buckets.bins);
        histogram.merge_buckets(buckets);
        histogram
    }
}

impl CompactHistogram {
    /// Creates an empty histogram. Allocates nothing.
    ///
    /// ```
    /// use leaparray::HistogramConfig;
    /// use leaparray::histogram::CompactHistogram;
    ///
    /// let sum = CompactHistogram::new(HistogramConfig::default());
    /// assert!(sum.to_histogram().is_empty());
    /// ```
    #[must_use]
    pub const fn new(config: HistogramConfig) -> Self {
        Self::empty(config.bins())
    }

    const fn empty(bins: Bins) -> Self {
        Self { bins, first: 0, counts: Counts::Small(Vec::new()), nanos: 0, min: 0, max: 0 }
    }

    /// Adds a response time that was recorded at a scale, as a histogram of this one response time.
    /// The result has the coarser of the two scales.
    ///
    /// ```
    /// use leaparray::HistogramConfig;
    /// use leaparray::histogram::CompactHistogram;
    /// use std::time::Duration;
    ///
    /// let [fine, coarse] = [5, 4].map(|it| HistogramConfig::with_scale(it).unwrap());
    /// let mut sum = CompactHistogram::new(fine);
    /// sum.record(coarse, Duration::from_millis(2));
    /// let histogram = sum.to_histogram();
    /// assert_eq!((histogram.scale(), histogram.count()), (4, 1));
    /// ```
    pub fn record(&mut self, config: HistogramConfig, rt: Duration) {
        let nanos = saturating_nanos(rt).min(MAX_NANOS);
        self.coarsen(config.bins());
        self.widen(nanos, nanos);
        self.nanos = self.nanos.saturating_add(nanos.into());
        let index = self.bins.index(nanos);
        if self.ends().is_none_or(|(first, last)| index < first || index > last) {
            self.cover(index, index);
        }
        self.counts.add(self.first.abs_diff(index) as usize, 1);
    }

    /// Adds the response times of another histogram. The result has the coarser of the two scales,
    /// as after [`LatencyHistogram::merge`].
    pub fn merge_buckets(&mut self, other: &HistogramBuckets<'_>) {
        let steps = self.coarsen(other.bins);
        if let [(first, _), ..] = other.buckets
            && let [.., (last, _)] = other.buckets
        {
            self.widen(other.min, other.max);
            self.nanos = self.nanos.saturating_add(other.nanos);
            self.cover(first >> steps, last >> steps);
            let mut buckets = other.buckets;
            if let Counts::Small(counts) = &mut self.counts {
                while let [(index, count), rest @ ..] = buckets {
                    let at = &mut counts[self.first.abs_diff(index >> steps) as usize];
                    let Ok(sum) = u64::from(*at).saturating_add(*count).try_into() else { break };
                    (*at, buckets) = (sum, rest);
                }
            }
            for (index, count) in buckets {
                self.counts.add(self.first.abs_diff(index >> steps) as usize, *count);
            }
        }
    }

    /// As [`LatencyHistogram::widen`].
    fn widen(&mut self, min: u64, max: u64) {
        self.min = if self.counts.len() == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(max);
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
    #[inline]
    fn coarsen(&mut self, other: Bins) -> u32 {
        if self.bins == other { 0 } else { self.change_scale(other) }
    }

    #[cold]
    fn change_scale(&mut self, other: Bins) -> u32 {
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
