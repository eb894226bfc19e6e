//! A histogram from its buckets, with the checks of each form in which a histogram is sent.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::bins::{Bins, COARSEST};
use super::config::HistogramConfig;
use super::counts::BinCounts;
use super::latency::LatencyHistogram;
use super::layout::MAX_NANOS;
use crate::time::saturating_nanos;

/// The scales that a histogram can have.
const FINEST: i8 = HistogramConfig::MAX_SCALE.cast_signed();

/// From the bin of 2^10 ns on, each bin contains a whole nanosecond, at any scale: at the finest, a
/// bin is a nanosecond wide or wider from 369 ns on.
const WIDE_OCTAVE: usize = 10;

impl LatencyHistogram {
    /// Creates a histogram from its [scale](Self::scale), the [sum](Self::sum), the
    /// [shortest](Self::min) and the [longest](Self::max) response time, and the index and the
    /// count of each [bucket](Self::buckets) that is not empty, by ascending index. The result
    /// equals the histogram that these were read from, unless its sum was above [`Duration::MAX`].
    ///
    /// A histogram without a bucket is empty: its sum is zero, and `min` and `max` are ignored.
    ///
    /// The mean may be below the shortest response time: a histogram that was read while a thread
    /// recorded can have a response time that is not in its sum yet. This call takes one pass over
    /// the buckets and allocates once, at most eight bytes for each bin of the scale (about 180 KiB
    /// at scale 8); an empty histogram allocates nothing.
    ///
    /// # Errors
    ///
    /// Returns a [`HistogramBucketsError`] if no histogram has these values:
    ///
    /// - `scale` is not between −10 and [`HistogramConfig::MAX_SCALE`];
    /// - an index is outside the bins of the scale, belongs to a bin without a whole nanosecond, or
    ///   is not above the one before it;
    /// - a count is 0;
    /// - `min` is not in the first bucket, `max` is not in the last, or `min` is above `max`;
    /// - `sum` is more than `max` times the number of response times.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use leaparray::histogram::HistogramBucketsError;
    /// use std::time::Duration;
    ///
    /// let mut sent = LatencyHistogram::default();
    /// for millis in [3, 3, 40] {
    ///     sent.record(Duration::from_millis(millis));
    /// }
    /// let (scale, sum) = (sent.scale(), sent.sum());
    /// let [min, max] = [sent.min(), sent.max()].map(Option::unwrap_or_default);
    /// let buckets: Vec<_> = sent.buckets().map(|it| (it.index, it.count)).collect();
    ///
    /// let received = LatencyHistogram::from_buckets(scale, sum, min, max, buckets)?;
    /// assert_eq!(received, sent);
    ///
    /// let error = LatencyHistogram::from_buckets(scale, sum, min, max, [(-1, 0)]).unwrap_err();
    /// assert_eq!(error, HistogramBucketsError::EmptyBucket { index: -1 });
    /// # Ok::<_, HistogramBucketsError>(())
    /// ```
    pub fn from_buckets(
        scale: i8,
        sum: Duration,
        min: Duration,
        max: Duration,
        buckets: impl IntoIterator<Item = (i32, u64)>,
    ) -> Result<Self, HistogramBucketsError> {
        let extremes = [min, max].map(saturating_nanos);
        Self::from_parts(scale, sum.as_nanos(), extremes, buckets)
            .map_err(|error| error.of([min, max]))
    }

    /// Like [`from_buckets`](Self::from_buckets), with times in nanoseconds.
    pub(super) fn from_parts(
        scale: i8,
        nanos: u128,
        extremes: [u64; 2],
        buckets: impl IntoIterator<Item = (i32, u64)>,
    ) -> Result<Self, HistogramBucketsError> {
        let mut counts = BinCounts::new();
        let ends = check(scale, nanos, extremes, buckets, |bucket| {
            if bucket.is_first {
                counts = BinCounts::zeros(bucket.index, bucket.expected_last);
            }
            // Left out if the index is above the expected last one: the longest response time is
            // then not in the last bucket.
            counts.set(bucket.index, bucket.count);
        })?;
        let [min, max] = if ends.is_some() { extremes } else { [0; 2] };
        Ok(Self { bins: Bins::at(scale), counts, nanos, min, max })
    }
}

/// The buckets of a [`LatencyHistogram`], checked as by
/// [`from_buckets`](LatencyHistogram::from_buckets). A program that adds up many histograms which
/// were sent to it [merges](LatencyHistogram::merge_buckets) their buckets, without making a
/// histogram of each.
///
/// ```
/// use leaparray::LatencyHistogram;
/// use leaparray::histogram::HistogramBuckets;
/// use std::time::Duration;
///
/// let mut sent = LatencyHistogram::default();
/// for millis in [3, 3, 40] {
///     sent.record(Duration::from_millis(millis));
/// }
/// let (scale, sum) = (sent.scale(), sent.sum());
/// let [min, max] = [sent.min(), sent.max()].map(Option::unwrap_or_default);
/// let buckets: Vec<_> = sent.buckets().map(|it| (it.index, it.count)).collect();
///
/// let received = HistogramBuckets::new(scale, sum, min, max, &buckets)?;
/// let mut histogram = LatencyHistogram::default();
/// histogram.merge_buckets(&received);
/// assert_eq!(histogram, sent);
/// # Ok::<_, leaparray::histogram::HistogramBucketsError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HistogramBuckets<'a> {
    pub(super) bins: Bins,
    pub(super) nanos: u128,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) buckets: &'a [(i32, u64)],
}

impl<'a> HistogramBuckets<'a> {
    /// Creates the buckets from what [`from_buckets`](LatencyHistogram::from_buckets) takes.
    ///
    /// # Errors
    ///
    /// Returns the [`HistogramBucketsError`] that it returns.
    pub fn new(
        scale: i8,
        sum: Duration,
        min: Duration,
        max: Duration,
        buckets: &'a [(i32, u64)],
    ) -> Result<Self, HistogramBucketsError> {
        let (nanos, extremes) = (sum.as_nanos(), [min, max].map(saturating_nanos));
        check(scale, nanos, extremes, buckets.iter().copied(), |_| ())
            .map_err(|error| error.of([min, max]))?;
        let [min, max] = extremes;
        Ok(Self { bins: Bins::at(scale), nanos, min, max, buckets })
    }

    /// Returns the histogram with these buckets, at their scale.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use leaparray::histogram::HistogramBuckets;
    /// use std::time::Duration;
    ///
    /// let rt = Duration::from_millis(700);
    /// let buckets = HistogramBuckets::new(0, rt, rt, rt, &[(-1, 1)])?;
    /// let from_buckets = LatencyHistogram::from_buckets(0, rt, rt, rt, [(-1, 1)])?;
    /// assert_eq!(buckets.to_histogram(), from_buckets);
    /// # Ok::<_, leaparray::histogram::HistogramBucketsError>(())
    /// ```
    #[must_use]
    pub fn to_histogram(&self) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::at(self.bins);
        histogram.merge_buckets(self);
        histogram
    }
}

/// A bucket that was checked.
struct Bucket {
    index: i32,
    count: u64,
    is_first: bool,
    /// The index of the last bucket, if the longest response time is right.
    expected_last: i32,
}

/// Checks the parts of a histogram, and calls `take` with each bucket. The index is within the
/// range of the scale by then, so memory may be allocated for it. Returns the indices of the first
/// and the last bucket; `None` if there is none.
fn check(
    scale: i8,
    nanos: u128,
    [min, max]: [u64; 2],
    buckets: impl IntoIterator<Item = (i32, u64)>,
    mut take: impl FnMut(Bucket),
) -> Result<Option<(i32, i32)>, HistogramBucketsError> {
    if !(COARSEST..=FINEST).contains(&scale) {
        return Err(HistogramBucketsError::Scale { scale });
    }
    let bins = Bins::at(scale);
    let [lowest, wide, highest] = [0, WIDE_OCTAVE, 62].map(|it| bins.index_of_octave(it));
    let expected_last = bins.index(max);
    let mut ends = None;
    let mut sum_of_counts = 0_u64;
    for (index, count) in buckets {
        if !(lowest..=highest).contains(&index) {
            return Err(HistogramBucketsError::Index { index, first: lowest, last: highest });
        }
        if index < wide && bins.first(index) > bins.last(index) {
            return Err(HistogramBucketsError::NoNanosecond { index });
        }
        if count == 0 {
            return Err(HistogramBucketsError::EmptyBucket { index });
        }
        let first = match ends {
            Some((_, before)) if index <= before => {
                return Err(HistogramBucketsError::Order { index, before });
            }
            Some((first, _)) => first,
            None => index,
        };
        take(Bucket { index, count, is_first: ends.is_none(), expected_last });
        ends = Some((first, index));
        sum_of_counts = sum_of_counts.saturating_add(count);
    }
    let Some((first, last)) = ends else {
        return match nanos {
            0 => Ok(None),
            sum_nanos => Err(HistogramBucketsError::SumWithoutBuckets { sum_nanos }),
        };
    };
    let [shortest, longest] = [min, max].map(Duration::from_nanos);
    if min > MAX_NANOS || bins.index(min) != first {
        return Err(HistogramBucketsError::Min { min: shortest, index: first });
    }
    if max > MAX_NANOS || expected_last != last {
        return Err(HistogramBucketsError::Max { max: longest, index: last });
    }
    if min > max {
        return Err(HistogramBucketsError::MinAboveMax { min: shortest, max: longest });
    }
    // A saturated count is less than the number of response times in the sum.
    if nanos > u128::from(sum_of_counts) * u128::from(max) && sum_of_counts < u64::MAX {
        let (sum_nanos, count) = (nanos, sum_of_counts);
        return Err(HistogramBucketsError::Sum { sum_nanos, count, max: longest });
    }
    Ok(ends)
}

/// The error of [`LatencyHistogram::from_buckets`]: no histogram has these values. Deserialized
/// histograms are checked in the same way, and their error has the same text.
///
/// ```
/// use leaparray::LatencyHistogram;
/// use std::time::Duration;
///
/// let [min, max] = [2, 3].map(Duration::from_secs);
/// let error =
///     LatencyHistogram::from_buckets(0, min + max, min, max, [(0, 1), (2, 1)]).unwrap_err();
/// assert_eq!(error.to_string(), "`max`, 3000000000 ns, is not in bucket 2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramBucketsError {
    /// The scale is below −10 or above [`HistogramConfig::MAX_SCALE`].
    Scale {
        /// The scale.
        scale: i8,
    },
    /// The scale has no bin with the index of a bucket.
    Index {
        /// The index.
        index: i32,
        /// The index of the bin of 1 ns, the first one.
        first: i32,
        /// The index of the bin of 2⁶² ns, the last one.
        last: i32,
    },
    /// The bin of a bucket is narrower than a nanosecond, and no whole nanosecond is in it.
    NoNanosecond {
        /// The index of the bucket.
        index: i32,
    },
    /// A bucket has a count of 0.
    EmptyBucket {
        /// The index of the bucket.
        index: i32,
    },
    /// The index of a bucket is not above the index of the bucket before it.
    Order {
        /// The index of the bucket.
        index: i32,
        /// The index of the bucket before it.
        before: i32,
    },
    /// There is no bucket, and the sum is not 0.
    SumWithoutBuckets {
        /// The sum, in nanoseconds.
        sum_nanos: u128,
    },
    /// The shortest response time is not in the first bucket.
    Min {
        /// The shortest response time.
        min: Duration,
        /// The index of the first bucket.
        index: i32,
    },
    /// The longest response time is not in the last bucket.
    Max {
        /// The longest response time.
        max: Duration,
        /// The index of the last bucket.
        index: i32,
    },
    /// The shortest response time is above the longest.
    MinAboveMax {
        /// The shortest response time.
        min: Duration,
        /// The longest response time.
        max: Duration,
    },
    /// The sum is more than the longest response time multiplied by the number of response times.
    Sum {
        /// The sum, in nanoseconds.
        sum_nanos: u128,
        /// The number of response times.
        count: u64,
        /// The longest response time.
        max: Duration,
    },
}

impl HistogramBucketsError {
    /// Returns the error with the whole extremes. They were cut at `u64::MAX` ns, which is in no
    /// bin.
    fn of(self, [min, max]: [Duration; 2]) -> Self {
        match self {
            Self::Min { index, .. } => Self::Min { min, index },
            Self::Max { index, .. } => Self::Max { max, index },
            error => error,
        }
    }
}

impl fmt::Display for HistogramBucketsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { scale } => {
                write!(f, "scale {scale} is not between {COARSEST} and {FINEST}")
            }
            Self::Index { index, first, last } => {
                write!(f, "bucket {index} is not between {first} and {last}")
            }
            Self::NoNanosecond { index } => {
                write!(f, "bucket {index} contains no whole nanosecond")
            }
            Self::EmptyBucket { index } => {
                write!(f, "bucket {index} is empty, and should be left out")
            }
            Self::Order { index, .. } => {
                write!(f, "bucket {index} is not after the one before it")
            }
            Self::SumWithoutBuckets { sum_nanos } => {
                write!(f, "without a bucket, `sum` is 0, not {sum_nanos} ns")
            }
            Self::Min { min, index } => {
                write!(f, "`min`, {} ns, is not in bucket {index}", min.as_nanos())
            }
            Self::Max { max, index } => {
                write!(f, "`max`, {} ns, is not in bucket {index}", max.as_nanos())
            }
            Self::MinAboveMax { min, max } => {
                let [min, max] = [min, max].map(Duration::as_nanos);
                write!(f, "`min`, {min} ns, is above `max`, {max} ns")
            }
            Self::Sum { sum_nanos, count, max } => {
                let most = u128::from(*count).saturating_mul(max.as_nanos());
                write!(f, "`sum`, {sum_nanos} ns, is more than {count} times `max`, {most} ns")
            }
        }
    }
}

impl Error for HistogramBucketsError {}
