//! `prometheus`: counters of buckets whose bounds are given. A server that scrapes them computes
//! the quantiles.

use leaparray::MonotonicClock;
use prometheus::core::Metric;
use prometheus::{Histogram, HistogramOpts, exponential_buckets};

use super::{Peer, QUANTILES, secs};

/// The upper bound of the first bucket, in seconds: the shortest response time.
const FIRST: f64 = 0.000_1;

/// Each bucket is twice as wide as the one before.
pub(super) struct Usual(Histogram);

/// As many buckets as there are bins at scale 4.
pub(super) struct Fine(Histogram);

impl Peer for Usual {
    /// `Histogram`, upper bounds from 0.1 ms to 102.4 ms by a factor of 2; no quantiles: the
    /// server computes them; the estimate is computed as by `histogram_quantile`, which is
    /// linear in each bucket.
    const NAME: &'static str = "prometheus, 11 buckets";

    fn new(_: &MonotonicClock) -> Self {
        Self(histogram(2.0, 11))
    }

    fn recorder(&self) -> impl FnMut(u32) {
        |rt| self.0.observe(secs(rt))
    }

    fn estimates(&self) -> Option<[f64; 4]> {
        Some(QUANTILES.map(|q| estimate(&self.0, q)))
    }
}

impl Peer for Fine {
    /// The same bounds by a factor of 2^(1/16), as at scale 4.
    const NAME: &'static str = "prometheus, 161 buckets";

    fn new(_: &MonotonicClock) -> Self {
        Self(histogram(2.0f64.powf(1.0 / 16.0), 161))
    }

    fn recorder(&self) -> impl FnMut(u32) {
        |rt| self.0.observe(secs(rt))
    }

    fn estimates(&self) -> Option<[f64; 4]> {
        Some(QUANTILES.map(|q| estimate(&self.0, q)))
    }
}

fn histogram(factor: f64, buckets: usize) -> Histogram {
    let bounds = exponential_buckets(FIRST, factor, buckets).expect("valid bounds");
    Histogram::with_opts(HistogramOpts::new("rt", "rt").buckets(bounds)).expect("valid options")
}

/// Estimates a quantile in nanoseconds as Prometheus's `histogram_quantile` does for classic
/// histograms: the response times of a bucket are taken as spread evenly between its bounds.
fn estimate(histogram: &Histogram, q: f64) -> f64 {
    let metric = histogram.metric();
    let rank = q * metric.get_histogram().get_sample_count() as f64;
    let (mut lower, mut below) = (0.0, 0.0);
    for bucket in metric.get_histogram().get_bucket() {
        let (upper, count) = (bucket.upper_bound(), bucket.cumulative_count() as f64);
        if rank <= count {
            return (lower + (upper - lower) * (rank - below) / (count - below)) * 1e9;
        }
        (lower, below) = (upper, count);
    }
    lower * 1e9
}
