//! The encoding of a histogram.

use std::time::Duration;

use leaparray::{HistogramConfig, LatencyHistogram, SecondMetrics};
use serde::{Deserialize, Serialize};

use super::super::codec::FormatError;
use super::nanos;

/// The histogram of some response times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WireHistogram {
    /// It is not known, or not sent.
    None,
    /// The one or two response times are the extremes of the row; and the scale.
    Extremes(i8),
    Buckets(Buckets),
}

/// The scale; sum, shortest and longest response time, unless they are those of the row; and for each bucket that is not empty,
/// the distance of its index from the one before, and its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Buckets(i8, Option<[u64; 4]>, i32, Vec<(u32, u64)>);

impl WireHistogram {
    /// Encodes the histogram of a row.
    pub(super) fn of_row(metrics: &SecondMetrics) -> Self {
        match &metrics.histogram {
            None => Self::None,
            Some(it) if of_extremes(it.scale(), metrics).as_ref() == Some(it) => {
                Self::Extremes(it.scale())
            }
            Some(it) => Self::Buckets(Buckets::new(it, metrics)),
        }
    }

    /// Returns the histogram of a row with these metrics.
    pub(super) fn decode(
        self,
        metrics: &SecondMetrics,
    ) -> Result<Option<LatencyHistogram>, FormatError> {
        match self {
            Self::None => Ok(None),
            Self::Extremes(scale) => {
                of_extremes(scale, metrics).ok_or(FormatError::Damaged).map(Some)
            }
            Self::Buckets(it) => it.decode(metrics).map(Some),
        }
    }
}

/// Returns the histogram of one or two response times, which are the extremes.
fn of_extremes(scale: i8, metrics: &SecondMetrics) -> Option<LatencyHistogram> {
    let (min, max) = (metrics.min_rt?, metrics.max_rt?);
    let config = HistogramConfig::with_scale(scale.try_into().ok()?).ok()?;
    let mut histogram = LatencyHistogram::new(config);
    match metrics.rt_count {
        1 => histogram.record(min),
        2 => {
            histogram.record(min);
            histogram.record(max);
        }
        _ => return None,
    }
    Some(histogram)
}

impl Buckets {
    /// Encodes the histogram of a row with these metrics.
    pub(super) fn new(histogram: &LatencyHistogram, metrics: &SecondMetrics) -> Self {
        let mut before = None::<i32>;
        let mut first = 0;
        let buckets = histogram.buckets().map(|it| {
            let gap = it.index.abs_diff(before.unwrap_or_else(|| {
                first = it.index;
                it.index
            }));
            before = Some(it.index);
            (gap, it.count)
        });
        let buckets = buckets.collect();
        let is_of_row = histogram.sum() == metrics.rt_sum
            && histogram.min() == metrics.min_rt
            && histogram.max() == metrics.max_rt;
        let own = (!is_of_row).then(|| {
            let extreme = |it: Option<Duration>| it.map_or(0, nanos);
            let sum = histogram.sum();
            let [min, max] = [histogram.min(), histogram.max()].map(extreme);
            [sum.as_secs(), sum.subsec_nanos().into(), min, max]
        });
        Self(histogram.scale(), own, first, buckets)
    }

    /// Returns the histogram of a row with these metrics.
    pub(super) fn decode(self, metrics: &SecondMetrics) -> Result<LatencyHistogram, FormatError> {
        let Self(scale, own, first, gaps) = self;
        let (sum, min, max) = own.map_or_else(
            || {
                let extreme = |it: Option<Duration>| it.unwrap_or_default();
                (metrics.rt_sum, extreme(metrics.min_rt), extreme(metrics.max_rt))
            },
            |[secs, subsec, min, max]| {
                let sum = Duration::from_secs(secs).saturating_add(Duration::from_nanos(subsec));
                (sum, Duration::from_nanos(min), Duration::from_nanos(max))
            },
        );
        let mut index = first;
        let buckets = gaps.into_iter().map(|(gap, count)| {
            index = index.saturating_add_unsigned(gap);
            (index, count)
        });
        LatencyHistogram::from_buckets(scale, sum, min, max, buckets)
            .map_err(|_| FormatError::Damaged)
    }
}
