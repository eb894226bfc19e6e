//! A naive window: a list of all response times.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray::{HistogramConfig, LatencyHistogram, Timestamp};

/// All response times, by the number of their bucket of a second.
pub(crate) struct Oracle {
    samples: u64,
    config: HistogramConfig,
    buckets: BTreeMap<u64, Vec<(Duration, u64)>>,
}

impl Oracle {
    pub(crate) fn new(samples: u32, config: HistogramConfig) -> Self {
        Self { samples: samples.into(), config, buckets: BTreeMap::new() }
    }

    pub(crate) fn record(&mut self, now: Timestamp, rt: Duration, times: u64) {
        self.buckets.entry(now.as_secs()).or_default().push((rt, times));
    }

    /// Returns the histogram of the last `samples` buckets at `now`, without the buckets of which a
    /// later bucket of the same slot was recorded in.
    pub(crate) fn at(&self, now: Timestamp, samples: u64) -> LatencyHistogram {
        let last = now.as_secs();
        let first = (last + 1).saturating_sub(samples);
        self.histogram_of(|number| (first..=last).contains(&number) && !self.is_gone(number))
    }

    pub(crate) fn lifetime(&self) -> LatencyHistogram {
        self.histogram_of(|_| true)
    }

    fn is_gone(&self, number: u64) -> bool {
        self.buckets.keys().any(|&it| it > number && (it - number).is_multiple_of(self.samples))
    }

    fn histogram_of(&self, covers: impl Fn(u64) -> bool) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new(self.config);
        for (_, recorded) in self.buckets.iter().filter(|(number, _)| covers(**number)) {
            for &(rt, times) in recorded {
                histogram.record_many(rt, times);
            }
        }
        histogram
    }
}
