//! The encoding of a histogram.
//!
//! A tag, and then:
//!
//! - [`EXTREMES`]: the scale. The one or two response times are the extremes of the metrics.
//! - [`BUCKETS`]: the scale; sum, shortest and longest response time, unless they are those of the
//!   metrics; the index of the first bucket; the number of buckets that are not empty; and for each
//!   of them twice the distance of its index from the one before. If its count is not 1, the double
//!   is 1 more, and the count follows.

use std::time::Duration;

use leaparray::metric::SecondMetrics;
use leaparray::{HistogramConfig, LatencyHistogram, MetricEvent};

use super::super::codec::{Decoder, FormatError, put};
use super::nanos;

/// The histogram is not known, or not sent.
pub(super) const NONE: u8 = 0;
const EXTREMES: u8 = 1;
const BUCKETS: u8 = 2;

/// Encodes the histogram of some metrics.
pub(super) fn encode(bytes: &mut Vec<u8>, metrics: &SecondMetrics) {
    match &metrics.histogram {
        None => put(bytes, &NONE),
        Some(it) if of_extremes(it.scale(), metrics).as_ref() == Some(it) => {
            put(bytes, &(EXTREMES, it.scale()));
        }
        Some(it) => {
            put(bytes, &BUCKETS);
            encode_buckets(bytes, it, metrics);
        }
    }
}

/// Decodes the histogram of some metrics.
pub(super) fn decode(
    from: &mut Decoder<'_>,
    metrics: &SecondMetrics,
) -> Result<Option<LatencyHistogram>, FormatError> {
    match from.get()? {
        NONE => Ok(None),
        EXTREMES => of_extremes(from.get()?, metrics).ok_or(FormatError::Damaged).map(Some),
        BUCKETS => decode_buckets(from, metrics).map(Some),
        _ => Err(FormatError::Damaged),
    }
}

/// Returns the histogram of one or two response times, which are the extremes.
fn of_extremes(scale: i8, metrics: &SecondMetrics) -> Option<LatencyHistogram> {
    let (min, max) = (metrics.min_rt?, metrics.max_rt?);
    let rt_count = metrics.counts[MetricEvent::Rt];
    if !(1..=2).contains(&rt_count) {
        return None;
    }
    let config = HistogramConfig::with_scale(scale.try_into().ok()?).ok()?;
    let mut histogram = LatencyHistogram::new(config);
    histogram.record(min);
    if rt_count == 2 {
        histogram.record(max);
    }
    Some(histogram)
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
    metrics: &SecondMetrics,
) -> Result<LatencyHistogram, FormatError> {
    let (scale, own, mut index, count) =
        from.get::<(i8, Option<(Duration, u64, u64)>, i32, u64)>()?;
    let (sum, min, max) = own.map_or_else(
        || {
            let extreme = |it: Option<Duration>| it.unwrap_or_default();
            (metrics.counts.rt_sum(), extreme(metrics.min_rt), extreme(metrics.max_rt))
        },
        |(sum, min, max)| (sum, Duration::from_nanos(min), Duration::from_nanos(max)),
    );
    let mut bucket = || {
        let gap: u64 = from.get()?;
        let distance = u32::try_from(gap / 2).map_err(|_| FormatError::Damaged)?;
        index = index.saturating_add_unsigned(distance);
        Ok((index, if gap.is_multiple_of(2) { 1 } else { from.get()? }))
    };
    let mut error = None;
    let buckets = (0..count).map_while(|_| bucket().map_err(|it| error = Some(it)).ok());
    let histogram = LatencyHistogram::from_buckets(scale, sum, min, max, buckets);
    match error {
        Some(error) => Err(error),
        None => histogram.map_err(|_| FormatError::Damaged),
    }
}
