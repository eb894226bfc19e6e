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

use leaparray::histogram::HistogramBuckets;
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
    let (times, mut all) = (metrics.into(), Vec::new());
    of_extremes(histogram.scale(), &times, &mut all)
        .and_then(|it| it.buckets(&times, &all).ok())
        .is_some_and(|it| it.to_histogram() == *histogram)
}

/// A histogram that was decoded: its buckets are in a list with those of others.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    scale: i8,
    /// The sum, the shortest and the longest response time, if they are not those of the metrics.
    own: Option<Box<[Duration; 3]>>,
    buckets: Range<usize>,
}

impl Decoded {
    /// Returns the buckets, which are in the list `all`. `times` are those with which it was
    /// decoded.
    pub(super) fn buckets<'a>(
        &self,
        times: &Times,
        all: &'a [(i32, u64)],
    ) -> Result<HistogramBuckets<'a>, FormatError> {
        let Self { scale, own, buckets } = self;
        let of_metrics = || {
            let extreme = |it: Option<Duration>| it.unwrap_or_default();
            [times.sum, extreme(times.min), extreme(times.max)]
        };
        let [sum, min, max] = own.as_deref().copied().unwrap_or_else(of_metrics);
        HistogramBuckets::new(*scale, sum, min, max, &all[buckets.clone()])
            .map_err(|_| FormatError::Damaged)
    }
}

/// Decodes the histogram of some response times. Its buckets come to the end of the list,
/// unchecked.
pub(super) fn decode(
    from: &mut Decoder<'_>,
    times: impl Fn() -> Times,
    all: &mut Vec<(i32, u64)>,
) -> Result<Option<Decoded>, FormatError> {
    match from.get()? {
        NONE => Ok(None),
        EXTREMES => of_extremes(from.get()?, &times(), all).ok_or(FormatError::Damaged).map(Some),
        BUCKETS => decode_buckets(from, all).map(Some),
        _ => Err(FormatError::Damaged),
    }
}

/// Returns the histogram of one or two response times, which are the extremes. A longer response
/// time than the longest counts as that.
fn of_extremes(scale: i8, times: &Times, all: &mut Vec<(i32, u64)>) -> Option<Decoded> {
    let config = HistogramConfig::with_scale(scale.try_into().ok()?).ok()?;
    let min = times.min?.min(HistogramConfig::MAX_RT);
    let max = times.max?.min(HistogramConfig::MAX_RT);
    let (sum, max) = match times.count {
        1 => (min, min),
        2 => (min + max, max),
        _ => return None,
    };
    let start = all.len();
    let [first, last] = [min, max].map(|it| config.index_of(it));
    if first < last {
        all.extend([(first, 1), (last, 1)]);
    } else {
        all.push((first, times.count));
    }
    let is_of_metrics = (times.sum, times.min, times.max) == (sum, Some(min), Some(max));
    let own = (!is_of_metrics).then(|| [sum, min, max].into());
    Some(Decoded { scale, own, buckets: start..all.len() })
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
    all: &mut Vec<(i32, u64)>,
) -> Result<Decoded, FormatError> {
    let (scale, own, mut index, count) =
        from.get::<(i8, Option<(Duration, u64, u64)>, i32, u64)>()?;
    let start = all.len();
    for _ in 0..count {
        let gap: u64 = from.get()?;
        let distance = u32::try_from(gap / 2).map_err(|_| FormatError::Damaged)?;
        index = index.saturating_add_unsigned(distance);
        all.push((index, if gap.is_multiple_of(2) { 1 } else { from.get()? }));
    }
    let own = own
        .map(|(sum, min, max)| [sum, Duration::from_nanos(min), Duration::from_nanos(max)].into());
    Ok(Decoded { scale, own, buckets: start..all.len() })
}
