//! A histogram of response times.

use std::time::Duration;

use super::config::HistogramConfig;

/// The distribution of response times: plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyHistogram {
    config: HistogramConfig,
    counts: Vec<u64>,
}

impl LatencyHistogram {
    /// Creates an empty histogram.
    #[must_use]
    pub const fn new(config: HistogramConfig) -> Self {
        Self { config, counts: Vec::new() }
    }

    /// Returns the number of response times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the quantile.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let _ = q;
        None
    }

    /// Returns quantiles.
    #[must_use]
    pub fn quantiles<const N: usize>(&self, q: [f64; N]) -> [Option<Duration>; N] {
        q.map(|q| self.quantile(q))
    }

    /// Replaces the contents by the counts of the bins from the position `first` on. Keeps the memory.
    pub(crate) fn set(
        &mut self,
        config: HistogramConfig,
        first: usize,
        counts: &[u64],
        rt_nanos: u128,
        min_nanos: Option<u64>,
        max_nanos: Option<u64>,
    ) {
        let _ = (first, rt_nanos, min_nanos, max_nanos);
        self.config = config;
        self.counts.clear();
        self.counts.extend_from_slice(counts);
    }
}
