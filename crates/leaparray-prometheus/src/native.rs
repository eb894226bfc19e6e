//! The buckets of native histograms.

use std::ops::Range;

use leaparray::LatencyHistogram;

/// The bound of the zero bucket: it has no width, and a quantile in it is 0. With a width,
/// Prometheus interpolates between the bounds, the negative one included.
pub(crate) const ZERO_THRESHOLD: f64 = 0.0;

/// The bin of 0 ns and 1 ns has this lower bound or a lower one, in seconds, and no other bin has.
/// Its response times are rounded to 0, in the zero bucket.
const ONE_NANOSECOND: f64 = 1e-9;

/// The schema of a histogram without bins: the finest one. Prometheus adds histograms up in the
/// coarsest schema of them.
const WITHOUT_BINS: i32 = 8;

/// The spans and the differences of native histograms, one histogram after the other.
#[derive(Debug, Default)]
pub(crate) struct NativeBuckets {
    spans: Vec<(i32, u32)>,
    deltas: Vec<i64>,
}

/// A histogram in [`NativeBuckets`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Native {
    pub(crate) schema: i32,
    pub(crate) zero_count: u64,
    spans: Range<usize>,
    deltas: Range<usize>,
}

/// The last bucket of a histogram that is appended. Before the first one, the index is −1.
struct Last {
    index: i32,
    count: i64,
}

/// Returns the index of the bucket above the greatest number: the bounds of a schema are the powers
/// of 2^2^−schema, and the greatest number is just below 2¹⁰²⁴.
const fn infinite(schema: i32) -> i32 {
    let greatest = if schema < 0 { 1_024 >> -schema } else { 1_024 << schema };
    greatest + 1
}

impl NativeBuckets {
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.deltas.clear();
    }

    /// Appends a histogram, and beside it `unknown` response times that are in no bin: they may be
    /// of any length, and are in the infinite bucket. A server refuses a whole scrape if a native
    /// histogram has more response times than its buckets.
    ///
    /// A span is a number of empty buckets since the last one, or the first index, and the number
    /// of buckets that follow; a delta is the difference to the count of the bucket before.
    pub(crate) fn append(&mut self, histogram: Option<&LatencyHistogram>, unknown: u64) -> Native {
        let schema = histogram.map_or(WITHOUT_BINS, |histogram| histogram.scale().into());
        let mut native = Native {
            schema,
            zero_count: 0,
            spans: self.spans.len()..self.spans.len(),
            deltas: self.deltas.len()..self.deltas.len(),
        };
        let mut last = Last { index: -1, count: 0 };
        for bucket in histogram.into_iter().flat_map(LatencyHistogram::buckets) {
            if bucket.lower < ONE_NANOSECOND {
                native.zero_count = bucket.count;
            } else {
                // In Prometheus, a bucket has the index of its upper bound.
                self.push(&mut native, &mut last, bucket.index + 1, bucket.count);
            }
        }
        if unknown > 0 {
            self.push(&mut native, &mut last, infinite(schema), unknown);
        }
        if native.spans.is_empty() {
            // Prometheus knows a native histogram by its buckets, since the zero bucket has no
            // width. A span without a bucket is not enough for Prometheus 2.42: if such a histogram
            // was the first of the family, the server took all of them for classic ones.
            self.push(&mut native, &mut last, 0, 0);
        }
        native
    }

    /// Appends a bucket to the last histogram.
    fn push(&mut self, native: &mut Native, last: &mut Last, index: i32, count: u64) {
        let gap = index - last.index - 1;
        match self.spans[native.spans.clone()].last_mut() {
            Some((_, length)) if gap == 0 => *length += 1,
            _ => self.spans.push((gap, 1)),
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.deltas.push(count - last.count);
        *last = Last { index, count };
        native.spans.end = self.spans.len();
        native.deltas.end = self.deltas.len();
    }

    pub(crate) fn spans(&self, native: &Native) -> &[(i32, u32)] {
        &self.spans[native.spans.clone()]
    }

    pub(crate) fn deltas(&self, native: &Native) -> &[i64] {
        &self.deltas[native.deltas.clone()]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leaparray::HistogramConfig;

    use super::*;

    #[test]
    fn adjacent_buckets_share_a_span() {
        let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(0).unwrap());
        // Buckets with the upper bounds 1, 2, 4 and 32 s have the indices 0, 1, 2 and 5.
        for secs in [1, 2, 2, 3, 3, 3, 30] {
            histogram.record(Duration::from_secs(secs));
        }
        let mut buckets = NativeBuckets::default();
        for _ in 0..2 {
            let native = buckets.append(Some(&histogram), 0);
            assert_eq!(native.schema, 0);
            assert_eq!(buckets.spans(&native), [(0, 3), (2, 1)]);
            assert_eq!(buckets.deltas(&native), [1, 1, 1, -2]);
        }
    }

    #[test]
    fn unknown_response_times_are_in_the_infinite_bucket() {
        let mut buckets = NativeBuckets::default();
        let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(0).unwrap());
        histogram.record(Duration::from_secs(2));
        let native = buckets.append(Some(&histogram), 3);
        // Between 1 and 2 s is the bucket 1, and above 2¹⁰²⁴ the bucket 1,025.
        assert_eq!(buckets.spans(&native), [(1, 1), (1_023, 1)]);
        assert_eq!(buckets.deltas(&native), [1, 2]);

        let native = buckets.append(None, 3);
        assert_eq!((native.schema, native.zero_count), (8, 0));
        assert_eq!(buckets.spans(&native), [(256 * 1_024 + 1, 1)]);
        assert_eq!(buckets.deltas(&native), [3]);
    }

    #[test]
    fn histogram_without_a_bucket_has_an_empty_one() {
        let mut buckets = NativeBuckets::default();
        let mut histogram = LatencyHistogram::default();
        for zeros in 0..3 {
            let native = buckets.append(Some(&histogram), 0);
            assert_eq!(native.zero_count, zeros);
            assert_eq!(
                (buckets.spans(&native), buckets.deltas(&native)),
                (&[(0, 1)][..], &[0][..])
            );
            histogram.record(Duration::from_nanos(zeros));
        }
    }
}
