//! The counts that the processes record.

use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Rt, Success};
use leaparray::metric::SecondMetrics;
use leaparray::{EventCounts, Timestamp, TrafficType};
use leaparray_redis::fleet::{FleetCounts, ResourceKey};

use super::START;

/// The counts of each process in each second, as a function of the seed.
#[derive(Debug)]
pub(super) struct Truth {
    seed: u64,
    keys: Vec<ResourceKey>,
}

impl Truth {
    pub(super) fn new(seed: u64, resources: u32) -> Self {
        let key = |number| {
            let name = format!("resource-{number}").into();
            ResourceKey::new(&name, None, TrafficType::Inbound)
        };
        Self { seed, keys: (0..resources).map(key).collect() }
    }

    pub(super) fn keys(&self) -> &[ResourceKey] {
        &self.keys
    }

    /// Returns the counts of a resource in a process and a second; `None` if it has none. Most
    /// resources have none at first, so that names are delivered during the whole run.
    pub(super) fn of_resource(
        &self,
        process: usize,
        second: u64,
        resource: usize,
    ) -> Option<EventCounts> {
        let resource = resource as u64;
        let hash = mix(mix(mix(self.seed, process as u64), second), resource);
        let is_there = second.saturating_sub(START) >= 10 * resource && !hash.is_multiple_of(4);
        is_there.then(|| {
            let bits = |from: u32| hash >> from & 0xff;
            let ended = bits(24) + bits(32) / 16;
            let mut totals = EventCounts::from([
                (Pass, 1 + bits(8)),
                (Block, bits(16)),
                (Success, bits(24)),
                (Exception, bits(32) / 16),
                (Cancelled, bits(40) / 32),
                (Rt, ended),
            ]);
            totals.set_rt_sum(Duration::from_micros(ended * (1 + bits(48))));
            totals
        })
    }

    /// Returns the sum of a process in a second.
    pub(super) fn of_process(&self, process: usize, second: u64) -> EventCounts {
        let mut sum = EventCounts::default();
        for totals in self.resources(process, second) {
            sum += &totals.1;
        }
        sum
    }

    /// Returns the resources of a process in a second, by their positions.
    pub(super) fn resources(
        &self,
        process: usize,
        second: u64,
    ) -> impl Iterator<Item = (usize, EventCounts)> {
        let of = move |it| self.of_resource(process, second, it).map(|totals| (it, totals));
        (0..self.keys.len()).filter_map(of)
    }

    /// Returns the resources of a process in a second, as they are delivered.
    pub(super) fn rows(&self, process: usize, second: u64) -> Vec<(ResourceKey, FleetCounts)> {
        let row = |(resource, totals): (usize, EventCounts)| {
            let mut counts = FleetCounts::default();
            counts.metrics = SecondMetrics::new(Timestamp::from_secs(second));
            counts.metrics.counts = totals;
            (self.keys[resource].clone(), counts)
        };
        self.resources(process, second).map(row).collect()
    }
}

/// Returns a part of some totals: of the first `micros` microseconds of a second.
pub(super) fn part(totals: &EventCounts, micros: u64) -> EventCounts {
    let of = |count: u64| count * micros / super::MICROS;
    let mut part = EventCounts::default();
    for (event, count) in totals.iter() {
        part[event] = of(count);
    }
    part
}

/// Returns the sum of two totals.
pub(super) fn plus(one: &EventCounts, other: &EventCounts) -> EventCounts {
    let mut sum = *one;
    sum += other;
    sum
}

/// Mixes a number into a hash, as `SplitMix64` does.
fn mix(hash: u64, number: u64) -> u64 {
    let mut hash = hash.wrapping_add(number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// Returns a random-looking identity for a process.
pub(super) fn identity(seed: u64, process: usize) -> u64 {
    mix(mix(seed, 1), process as u64)
}
