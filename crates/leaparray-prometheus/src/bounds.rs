//! The bounds of classic buckets.

use std::time::Duration;

use leaparray::LatencyHistogram;
use leaparray::histogram::HistogramBucket;

/// The upper bounds of the classic buckets of a histogram, in seconds, in ascending order, without
/// the last one, which is infinite.
#[derive(Clone, Debug)]
pub(crate) struct Bounds(Vec<f64>);

impl Bounds {
    pub(crate) fn new(bounds: impl IntoIterator<Item = Duration>) -> Self {
        let mut bounds: Vec<_> = bounds.into_iter().map(|bound| bound.as_secs_f64()).collect();
        bounds.sort_unstable_by(f64::total_cmp);
        bounds.dedup();
        Self(bounds)
    }

    /// Returns a pair for each bucket: its upper bound, and the number of the response times of the
    /// histograms in it. Without a histogram, there is the infinite bucket only.
    ///
    /// A bin of a histogram is in the bucket of its middle, the geometric mean of its bounds. So
    /// each response time stays in one bucket as long as it stays in its bin: each histogram has
    /// its own scale. The effective bound is the nearest bound of a bin.
    pub(crate) fn pairs(
        &self,
        histograms: &[LatencyHistogram],
    ) -> impl Iterator<Item = (f64, u64)> {
        let bounds = if histograms.is_empty() { &[][..] } else { &self.0[..] };
        let bins = histograms.iter().map(|it| it.buckets().peekable());
        let mut bins: Vec<_> = bins.collect();
        bounds.iter().copied().chain([f64::INFINITY]).map(move |bound| {
            let mut count = 0_u64;
            for bins in &mut bins {
                let is_in = |bin: &HistogramBucket| is_middle_within(bin.lower, bin.upper, bound);
                while let Some(bin) = bins.next_if(is_in) {
                    count = count.saturating_add(bin.count);
                }
            }
            (bound, count)
        })
    }
}

impl Default for Bounds {
    /// The powers of 2 from 2⁻¹⁰ s, about 1 ms, to 2⁴ s: they are bounds of bins at every scale of
    /// a node.
    fn default() -> Self {
        Self((-10..=4).map(|exponent| f64::from(exponent).exp2()).collect())
    }
}

/// Returns whether √(lower × upper) ≤ bound.
fn is_middle_within(lower: f64, upper: f64, bound: f64) -> bool {
    // The quotients are far from the limits of `f64`, unlike the products. A bin without an upper
    // bound is in the last bucket.
    lower / bound * (upper / bound) <= 1.0 || bound.is_infinite()
}

#[cfg(test)]
mod tests {
    use leaparray::HistogramConfig;

    use super::*;

    /// Returns the pairs for response times in milliseconds.
    fn buckets(bounds: &Bounds, millis: &[u64]) -> Vec<(f64, u64)> {
        let mut histogram = LatencyHistogram::new(HistogramConfig::default());
        for &millis in millis {
            histogram.record(Duration::from_millis(millis));
        }
        pairs(bounds, &histogram)
    }

    fn pairs(bounds: &Bounds, histogram: &LatencyHistogram) -> Vec<(f64, u64)> {
        bounds.pairs(std::slice::from_ref(histogram)).collect()
    }

    #[test]
    fn without_a_histogram_there_is_the_infinite_bucket() {
        let pairs: Vec<_> = Bounds::default().pairs(&[]).collect();
        assert_eq!(pairs, [(f64::INFINITY, 0)]);
    }

    #[test]
    fn bounds_are_sorted_and_distinct() {
        let bounds = Bounds::new([2, 1, 2].map(Duration::from_secs));
        assert_eq!(buckets(&bounds, &[]), [(1.0, 0), (2.0, 0), (f64::INFINITY, 0)]);
    }

    #[test]
    fn default_bounds_are_exact() {
        let counts = buckets(&Bounds::default(), &[125, 126, 250, 251, 500, 16_000, 16_001]);
        let above_none: Vec<_> = counts.into_iter().filter(|&(_, count)| count > 0).collect();
        assert_eq!(above_none, [(0.125, 1), (0.25, 2), (0.5, 2), (16.0, 1), (f64::INFINITY, 1)]);
    }

    #[test]
    fn bound_is_off_by_at_most_half_a_bin() {
        let bounds = Bounds::new([Duration::from_millis(100)]);
        let half = LatencyHistogram::default().relative_error() * 1.01;
        for (millis, is_below) in [(100.0 * (1.0 - half), true), (100.0 * (1.0 + half), false)] {
            let mut histogram = LatencyHistogram::default();
            histogram.record(Duration::from_secs_f64(millis / 1e3));
            assert_eq!(
                pairs(&bounds, &histogram),
                [(0.1, u64::from(is_below)), (f64::INFINITY, u64::from(!is_below))]
            );
        }
    }

    #[test]
    fn longer_response_time_takes_none_out_of_a_bucket() {
        let bounds = Bounds::new([Duration::from_millis(100)]);
        // In the bin of the bound.
        let [alone, with_longer] = [&[100][..], &[100, 5_000]].map(|times| buckets(&bounds, times));
        assert_eq!(alone[0], with_longer[0]);
    }
}
