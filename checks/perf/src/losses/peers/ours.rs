//! This crate.

use std::time::Duration;

use leaparray::MetricEvent::Pass;
use leaparray::{Ledger, SlidingWindow, Timestamp};

use super::Window;
use crate::losses::BUCKETS;
use crate::losses::clock::{Span, WallClock};
use crate::scenarios::config;

pub(in crate::losses) struct Ours(SlidingWindow<WallClock>);

impl Ours {
    pub(in crate::losses) fn new(clock: WallClock) -> Self {
        let config = config(BUCKETS as u32, Duration::from_millis(1));
        Self(SlidingWindow::with_clock(config, clock))
    }
}

impl Window for Ours {
    fn record(&self, clock: WallClock) -> Span {
        let now = clock.millis();
        self.0.add_at(Timestamp::from_millis(now), Pass, 1);
        Span::at(now)
    }

    fn sum(&self, clock: WallClock) -> (u64, Span) {
        let now = clock.millis();
        (self.0.sum_at(Timestamp::from_millis(now), Pass), Span::at(now))
    }

    fn ledger(&self) -> Option<Ledger<u64>> {
        Some(self.0.ledger().map(|totals| totals.sum(Pass)))
    }
}
