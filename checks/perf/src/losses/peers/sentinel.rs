//! sentinel-core, by what it publishes: its leap array is private, and its node reads the system's
//! clock by itself.

use std::sync::Arc;

use sentinel_core::base::{MetricEvent, ResourceType, StatNode};
use sentinel_core::config::{ConfigEntity, reset_global_config};
use sentinel_core::stat::get_or_create_resource_node;

use super::Window;
use crate::losses::BUCKETS;
use crate::losses::clock::{Span, WallClock};

pub(in crate::losses) struct Sentinel(Arc<dyn StatNode>);

impl Sentinel {
    /// Of each number there is one in the process.
    pub(in crate::losses) fn new(number: usize) -> Self {
        let mut entity = ConfigEntity::new();
        let (stat, buckets) = (&mut entity.config.stat, BUCKETS as u32);
        // Those of the array, and those of the window over it.
        (stat.sample_count_total, stat.interval_ms_total) = (buckets, buckets);
        (stat.sample_count, stat.interval_ms) = (buckets, buckets);
        // It holds for this thread, which makes the node.
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
