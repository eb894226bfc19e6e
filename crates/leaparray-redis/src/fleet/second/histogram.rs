//! The encoding of a histogram.
//!
//! A tag, and then:
//!
//! - [`EXTREMES`]: the scale. The one or two response times are the extremes of the metrics.
//! - [`BUCKETS`]: the scale; sum, shortest and longest response time, unless they are those of the
//!   metrics; the index of the first bucket; the number of buckets that are not empty; and for each
//!   of them twice the distance of its index from the one before. If its count is not 1, the double
//!   is 1 more, and the count follows.

use std::ops::Range;
use std::time::Duration;

use leaparray::histogram::{CompactHistogram, HistogramBuckets};
use leaparray::metric::SecondMetrics;
use leaparray::{HistogramConfig, LatencyHistogram};

use super::super::codec::{Decoder, FormatError, put};
use super::nanos;
use super::numbers::Times;

/// The histogram is not known, or not sent.
pub(super) const NONE: u8 = 0;
const EXTREMES: u8 = 1;
const BUCKETS: u8 = 2;

/// Encodes the histogram of some metrics.
pub(super) fn encode(bytes: &mut Vec<u8>, metrics: &SecondMetrics) {
    match &metrics.histogram {
        None => put(bytes, &NONE),
        Some(it) if is_of_extremes(it, metrics) => {
            put(bytes, &(EXTREMES, it.scale()));
        }
        Some(it) => {
            put(bytes, &BUCKETS);
            encode_buckets(bytes, it, metrics);
        }
    }
}

/// Returns whether the response times of a histogram are the extremes of the metrics.
fn is_of_extremes(histogram: &LatencyHistogram, metrics: &SecondMetrics) -> bool {
    let all = config(histogram.scale()).and_then(|it| Extremes::new(it, &metrics.into()));
    all.is_some_and(|it| it.to_histogram() == *histogram)
}

/// The histogram of one or two response times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extremes {
    config: HistogramConfig,
    is_one: bool,
    /// In nanoseconds.
    min: u64,
    max: u64,
}

/// How a histogram was decoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Decoded {
    /// There is none.
    #[default]
    None,
    /// The extremes of the metrics are all response times.
    Extremes(HistogramConfig),
    /// It is the next one in a list of [`DecodedBuckets`].
    Buckets,
}

/// The buckets of a histogram that was decoded: they are in a list with those of others.
#[derive(Clone, Debug)]
pub(super) struct DecodedBuckets {
    scale: i8,
    sum: Duration,
    /// The extremes in nanoseconds.
    min: u64,
    max: u64,
    buckets: Range<usize>,
}

/// The histogram of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Distribution<'a> {
    Extremes(Extremes),
    Buckets(&'a HistogramBuckets<'a>),
}

impl Distribution<'_> {
    pub(super) fn to_histogram(self) -> LatencyHistogram {
        match self {
            Self::Extremes(it) => it.to_histogram(),
            Self::Buckets(it) => it.to_histogram(),
        }
    }

    /// Returns a sum of the response times.
    pub(crate) fn to_sum(self) -> CompactHistogram {
        match self {
            Self::Extremes(it) => {
                let mut sum = CompactHistogram::new(it.config);
                it.add_to(&mut sum);
                sum
            }
            Self::Buckets(it) => it.into(),
        }
    }

    /// Adds the response times to others.
    pub(crate) fn add_to(self, sum: &mut CompactHistogram) {
        match self {
            Self::Extremes(it) => it.add_to(sum),
            Self::Buckets(it) => sum.merge_buckets(it),
        }
    }
}

impl Extremes {
    /// Returns the histogram of one or two response times, which are the extremes. A longer
    /// response time than the longest of a histogram counts as that.
    pub(super) fn new(config: HistogramConfig, times: &Times) -> Option<Self> {
        let Times { count, min: Some(min), max: Some(max), .. } = *times else { return None };
        let is_one = count == 1;
        (is_one || count == 2 && min <= max).then_some(Self { config, is_one, min, max })
    }

    fn add_to(self, sum: &mut CompactHistogram) {
        sum.record(self.config, Duration::from_nanos(self.min));
        if !self.is_one {
            sum.record(self.config, Duration::from_nanos(self.max));
        }
    }

    fn to_histogram(self) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new(self.config);
        histogram.record(Duration::from_nanos(self.min));
        if !self.is_one {
            histogram.record(Duration::from_nanos(self.max));
        }
        histogram
    }
}

impl DecodedBuckets {
    /// Returns the buckets, which are in the list `all`.
    pub(super) fn checked<'a>(
        &self,
        all: &'a [(i32, u64)],
    ) -> Result<HistogramBuckets<'a>, FormatError> {
        let Self { scale, sum, min, max, buckets } = self;
        let [min, max] = [*min, *max].map(Duration::from_nanos);
        HistogramBuckets::new(*scale, *sum, min, max, &all[buckets.clone()])
            .map_err(|_| FormatError::Damaged)
    }
}

/// Decodes the histogram of some response times. Its buckets come to the end of both lists,
/// unchecked.
pub(super) fn decode(
    from: &mut Decoder<'_>,
    times: impl FnOnce() -> Times,
    histograms: &mut Vec<DecodedBuckets>,
    all: &mut Vec<(i32, u64)>,
) -> Result<Decoded, FormatError> {
    match from.byte()? {
        NONE => Ok(Decoded::None),
        EXTREMES => {
            let config = config(from.byte()?.cast_signed()).ok_or(FormatError::Damaged)?;
            Extremes::new(config, &times()).ok_or(FormatError::Damaged)?;
            Ok(Decoded::Extremes(config))
        }
        BUCKETS => {
            histograms.push(decode_buckets(from, times(), all)?);
            Ok(Decoded::Buckets)
        }
        _ => Err(FormatError::Damaged),
    }
}

fn config(scale: i8) -> Option<HistogramConfig> {
    HistogramConfig::with_scale(scale.try_into().ok()?).ok()
}

fn encode_buckets(bytes: &mut Vec<u8>, histogram: &LatencyHistogram, metrics: &SecondMetrics) {
    let is_of_metrics = histogram.sum() == metrics.counts.rt_sum()
        && histogram.min() == metrics.min_rt
        && histogram.max() == metrics.max_rt;
    let own = (!is_of_metrics).then(|| {
        let extreme = |it: Option<Duration>| it.map_or(0, nanos);
        (histogram.sum(), extreme(histogram.min()), extreme(histogram.max()))
    });
    let first = histogram.buckets().next().map_or(0, |it| it.index);
    put(bytes, &(histogram.scale(), own, first, histogram.buckets().count()));
    let mut before = first;
    for bucket in histogram.buckets() {
        let gap = u64::from(bucket.index.abs_diff(before)) * 2;
        before = bucket.index;
        if bucket.count == 1 {
            put(bytes, &gap);
        } else {
            put(bytes, &(gap + 1, bucket.count));
        }
    }
}

fn decode_buckets(
    from: &mut Decoder<'_>,
    times: Times,
    all: &mut Vec<(i32, u64)>,
) -> Result<DecodedBuckets, FormatError> {
    let scale = from.byte()?.cast_signed();
    let own: Option<(Duration, u64, u64)> = from.get()?;
    let of_metrics = || (times.sum, times.min.unwrap_or(0), times.max.unwrap_or(0));
    let (sum, min, max) = own.unwrap_or_else(of_metrics);
    let mut index: i32 = from.get()?;
    let count = from.u64()?;
    let start = all.len();
    for _ in 0..count {
        let (gap, count) = from.flagged()?;
        let distance = u32::try_from(gap / 2).map_err(|_| FormatError::Damaged)?;
        index = index.saturating_add_unsigned(distance);
        all.push((index, count.unwrap_or(1)));
    }
    Ok(DecodedBuckets { scale, sum, min, max, buckets: start..all.len() })
}
