//! A window with few buckets.

use std::time::Duration;

use leaparray::{
    HistogramConfig, LatencyHistogram, ManualClock, MetricEvent, SlidingWindow, Timestamp,
    WindowConfig,
};

use crate::ring::{LEN, start};

/// A window to which the models pass the time, as the number of a bucket.
#[derive(Clone, Debug)]
pub struct Window(SlidingWindow<ManualClock>);

/// An empty window of `samples` buckets.
///
/// # Panics
///
/// If `samples` is 0.
#[must_use]
pub fn window(samples: u32) -> Window {
    Window(SlidingWindow::with_clock(config(samples), ManualClock::new(Timestamp::MIN)))
}

/// An empty window of `samples` buckets, with a histogram of scale 1: [`SHORT`] and [`LONG`] are in
/// the first bins of its two blocks.
///
/// # Panics
///
/// If `samples` is 0.
#[must_use]
pub fn histogram_window(samples: u32) -> Window {
    let histogram = HistogramConfig::with_scale(1).expect("a scale");
    let clock = ManualClock::new(Timestamp::MIN);
    Window(SlidingWindow::with_histogram(config(samples), histogram, clock))
}

/// A response time in the first bin of the first block.
pub const SHORT: Duration = Duration::from_nanos(1);

/// A response time in the first bin of the second block.
pub const LONG: Duration = Duration::from_secs(5);

fn config(samples: u32) -> WindowConfig {
    WindowConfig::new(samples as usize, LEN * samples).expect("valid by construction")
}

impl Window {
    /// Adds `count` in bucket `number`.
    pub fn add(&self, number: u32, count: u64) {
        self.0.add_at(start(number), MetricEvent::Pass, count);
    }

    /// The sum over the window at bucket `number`.
    #[must_use]
    pub fn sum(&self, number: u32) -> u64 {
        self.0.at(start(number)).sum(MetricEvent::Pass)
    }

    /// Records a response time in bucket `number`.
    pub fn record(&self, number: u32, rt: Duration) {
        self.0.record_rt_at(start(number), rt);
    }

    /// The histogram of the window at bucket `number`.
    ///
    /// # Panics
    ///
    /// If the window has none.
    #[must_use]
    pub fn histogram(&self, number: u32) -> LatencyHistogram {
        self.0.at(start(number)).histogram().expect("the window has a histogram")
    }

    /// The numbers of response times in the histogram of the window's lifetime that are [`SHORT`],
    /// and that are longer.
    ///
    /// # Panics
    ///
    /// If the window has no histogram.
    #[must_use]
    pub fn recorded_times(&self) -> [u64; 2] {
        short_and_longer(&self.0.lifetime_histogram().expect("the window has a histogram"))
    }

    /// The same numbers, of the window at bucket `number`.
    #[must_use]
    pub fn times(&self, number: u32) -> [u64; 2] {
        short_and_longer(&self.histogram(number))
    }

    /// The counts in the window at bucket `number`, the expired counts, and the late counts.
    #[must_use]
    pub fn ledger(&self, number: u32) -> [u64; 3] {
        let ledger = self.0.at(start(number)).ledger().map(|it| it.sum(MetricEvent::Pass));
        [ledger.in_window, ledger.expired, ledger.late]
    }

    /// The sum of everything that was ever recorded.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.ledger(0).iter().sum()
    }
}

impl std::ops::Deref for Window {
    type Target = SlidingWindow<ManualClock>;

    fn deref(&self) -> &SlidingWindow<ManualClock> {
        &self.0
    }
}

fn short_and_longer(histogram: &LatencyHistogram) -> [u64; 2] {
    let short = histogram.count_at_or_below(SHORT);
    [short, histogram.count() - short]
}
