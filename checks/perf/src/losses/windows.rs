//! The windows of the peers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::MetricEvent::Pass;
use leaparray::array::Ledger;
use leaparray::{SlidingWindow, Timestamp};
use sentinel_core::base::{MetricEvent, ResourceType, StatNode};
use sentinel_core::config::{ConfigEntity, reset_global_config};
use sentinel_core::stat::get_or_create_resource_node;

use super::BUCKETS;
use super::clock::{Span, WallClock};
use crate::scenarios::config;
use crate::standins::locked::Buckets;
use crate::standins::striped::StripedRing;
use crate::standins::{BUCKET_NANOS, Ring};

/// A peer's window of [`BUCKETS`] milliseconds.
pub(super) trait Window: Sync {
    /// Counts one event, and returns the span of the call.
    fn record(&self, clock: WallClock) -> Span;

    /// Returns the number of events in the window, and the span of the read.
    fn sum(&self, clock: WallClock) -> (u64, Span);

    /// Returns the ledger of all events that the window ever counted, if it has one.
    fn ledger(&self) -> Option<Ledger<u64>> {
        None
    }
}

/// A window of this crate.
pub(super) struct Ours(SlidingWindow<WallClock>);

impl Ours {
    pub(super) fn new(clock: WallClock) -> Self {
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
        (self.0.at(Timestamp::from_millis(now)).sum(Pass), Span::at(now))
    }

    fn ledger(&self) -> Option<Ledger<u64>> {
        Some(self.0.now().ledger().map(|totals| totals.sum(Pass)))
    }
}

/// A node of sentinel-core, since its leap array is private. The node reads the system's clock by
/// itself.
pub(super) struct Sentinel(Arc<dyn StatNode>);

impl Sentinel {
    /// Creates the window `number`. The process has one node for each number.
    pub(super) fn new(number: usize) -> Self {
        let mut entity = ConfigEntity::new();
        let (stat, buckets) = (&mut entity.config.stat, BUCKETS as u32);
        // The geometry of the array, and the geometry of the window over it.
        (stat.sample_count_total, stat.interval_ms_total) = (buckets, buckets);
        (stat.sample_count, stat.interval_ms) = (buckets, buckets);
        // The configuration is thread-local, and this thread makes the node.
        reset_global_config(entity);
        Self(get_or_create_resource_node(&format!("losses {number}"), &ResourceType::Common))
    }
}

impl Window for Sentinel {
    fn record(&self, clock: WallClock) -> Span {
        Span::of(clock, || self.0.add_count(MetricEvent::Pass, 1)).1
    }

    fn sum(&self, clock: WallClock) -> (u64, Span) {
        Span::of(clock, || self.0.sum(MetricEvent::Pass))
    }
}

struct StandIn<R>(R);

pub(super) fn mutex_ring() -> impl Window {
    StandIn(Mutex::new(Buckets::new(BUCKETS as usize)))
}

pub(super) fn reset_in_place_ring() -> impl Window {
    StandIn(StripedRing::new(BUCKETS as usize))
}

impl<R: Ring> Window for StandIn<R> {
    fn record(&self, clock: WallClock) -> Span {
        let now = clock.millis();
        self.0.record(scaled(now));
        Span::at(now)
    }

    fn sum(&self, clock: WallClock) -> (u64, Span) {
        let now = clock.millis();
        (self.0.sum(scaled(now)), Span::at(now))
    }
}

/// Scales the time, so that a millisecond is one bucket of a stand-in, whose length is fixed.
const fn scaled(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * BUCKET_NANOS)
}
