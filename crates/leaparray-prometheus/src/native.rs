//! The buckets of native histograms.

use std::ops::Range;

use leaparray::LatencyHistogram;

/// The bound of the zero bucket: it has no width, and a quantile in it is 0. With a width,
/// Prometheus interpolates between the bounds, the negative one included.
pub(crate) const ZERO_THRESHOLD: f64 = 0.0;

/// The bin of 0 ns and 1 ns has this lower bound or a lower one, in seconds, and no other bin has.
/// Its response times are rounded to 0, in the zero bucket.
const ONE_NANOSECOND: f64 = 1e-9;

/// The spans and the differences of native histograms, one histogram after the other.
#[derive(Debug, Default)]
pub(crate) struct NativeBuckets {
    spans: Vec<(i32, u32)>,
    deltas: Vec<i64>,
}

/// A histogram in [`NativeBuckets`].
#[derive(Clone, Debug)]
pub(crate) struct Native {
    pub(crate) schema: i32,
    pub(crate) zero_count: u64,
    spans: Range<usize>,
    deltas: Range<usize>,
}

impl NativeBuckets {
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.deltas.clear();
    }

    /// Appends a histogram. A span is a number of empty buckets since the last one, or the first
    /// index, and the number of buckets that follow; a delta is the difference to the count of the
    /// bucket before.
    pub(crate) fn append(&mut self, histogram: &LatencyHistogram) -> Native {
        let first = (self.spans.len(), self.deltas.len());
        let (mut next, mut last_count, mut zero_count) = (0, 0, 0);
        for bucket in histogram.buckets() {
            if bucket.lower < ONE_NANOSECOND {
                zero_count = bucket.count;
                continue;
            }
            // In Prometheus, a bucket has the index of its upper bound.
            let index = bucket.index + 1;
            match self.spans.last_mut() {
                Some((_, length)) if self.deltas.len() > first.1 && index == next => *length += 1,
                _ => self.spans.push((index - next, 1)),
            }
            next = index + 1;
            let count = i64::try_from(bucket.count).unwrap_or(i64::MAX);
            self.deltas.push(count - last_count);
            last_count = count;
        }
        if self.spans.len() == first.0 {
            // Prometheus knows a native histogram by its buckets, since the zero bucket has no
            // width. A span without a bucket is not enough for Prometheus 2.42: if such a histogram
            // was the first of the family, the server took all of them for classic ones.
            self.spans.push((0, 1));
            self.deltas.push(0);
        }
        Native {
            schema: histogram.scale().into(),
            zero_count,
            spans: first.0..self.spans.len(),
            deltas: first.1..self.deltas.len(),
        }
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
            let native = buckets.append(&histogram);
            assert_eq!(native.schema, 0);
            assert_eq!(buckets.spans(&native), [(0, 3), (2, 1)]);
            assert_eq!(buckets.deltas(&native), [1, 1, 1, -2]);
        }
    }
    #[test]
    fn histogram_without_a_bucket_has_an_empty_one() {
        let mut buckets = NativeBuckets::default();
        let mut histogram = LatencyHistogram::default();
        for zeros in 0..3 {
            let native = buckets.append(&histogram);
            assert_eq!(native.zero_count, zeros);
            assert_eq!(
                (buckets.spans(&native), buckets.deltas(&native)),
                (&[(0, 1)][..], &[0][..])
            );
            histogram.record(Duration::from_nanos(zeros));
        }
    }
}
