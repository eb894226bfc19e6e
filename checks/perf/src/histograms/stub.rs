//! Temporary: stands in for the histograms of windows and nodes until leaparray has them. It records and reads none.
//! Delete this file, and the `use` of it, once they exist.

use std::time::Duration;

use leaparray::{
    HistogramConfig, MonotonicClock, NodeConfig, SlidingWindow, Timestamp, WindowConfig,
};

pub(super) trait WindowStub: Sized {
    fn with_histogram(
        config: WindowConfig,
        histogram: HistogramConfig,
        clock: MonotonicClock,
    ) -> Self;

    fn quantiles_at<const N: usize>(&self, now: Timestamp, q: [f64; N]) -> [Option<Duration>; N];
}

impl WindowStub for SlidingWindow {
    fn with_histogram(config: WindowConfig, _: HistogramConfig, clock: MonotonicClock) -> Self {
        Self::with_clock(config, clock)
    }

    fn quantiles_at<const N: usize>(&self, _: Timestamp, q: [f64; N]) -> [Option<Duration>; N] {
        q.map(|_| None)
    }
}

pub(super) trait NodeStub {
    fn with_histogram(self, histogram: HistogramConfig) -> Self;
}

impl NodeStub for NodeConfig {
    fn with_histogram(self, _: HistogramConfig) -> Self {
        self
    }
}
