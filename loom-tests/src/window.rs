//! A window with few buckets.

use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};

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
    let config = WindowConfig::new(samples as usize, LEN * samples).expect("valid by construction");
    Window(SlidingWindow::with_clock(config, ManualClock::new(Timestamp::MIN)))
}

impl Window {
    /// Adds `count` in bucket `number`.
    pub fn add(&self, number: u32, count: u64) {
        self.0.add_at(start(number), MetricEvent::Pass, count);
    }

    /// The sum over the window at bucket `number`.
    #[must_use]
    pub fn sum(&self, number: u32) -> u64 {
        self.0.sum_at(start(number), MetricEvent::Pass)
    }

    /// The counts in the window at bucket `number`, the expired counts, and the late counts.
    #[must_use]
    pub fn ledger(&self, number: u32) -> [u64; 3] {
        let ledger = self.0.ledger_at(start(number)).map(|it| it.sum(MetricEvent::Pass));
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
