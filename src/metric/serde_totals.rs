//! Totals, serialized by the names of their events.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::event::MetricEvent;
use super::totals::MetricTotals;
use crate::time::serde_time::Nanos;

impl Serialize for MetricTotals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Totals::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MetricTotals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Totals::deserialize(deserializer).map(Self::from)
    }
}

/// The serialized form of [`MetricTotals`].
#[derive(Serialize, Deserialize)]
struct Totals {
    pass: u64,
    block: u64,
    exception: u64,
    success: u64,
    reserved_pass: u64,
    cancelled: u64,
    rt_sum: Nanos<u128>,
    rt_count: u64,
    min_rt: Option<Nanos<u64>>,
    max_rt: Option<Nanos<u64>>,
    max_concurrency: Option<u64>,
}

impl From<&MetricTotals> for Totals {
    fn from(totals: &MetricTotals) -> Self {
        Self {
            pass: totals.sum(MetricEvent::Pass),
            block: totals.sum(MetricEvent::Block),
            exception: totals.sum(MetricEvent::Exception),
            success: totals.sum(MetricEvent::Success),
            reserved_pass: totals.sum(MetricEvent::ReservedPass),
            cancelled: totals.sum(MetricEvent::Cancelled),
            rt_sum: Nanos(totals.rt_nanos),
            rt_count: totals.rt_count,
            min_rt: totals.min_rt.map(Nanos),
            max_rt: totals.max_rt.map(Nanos),
            max_concurrency: totals.max_concurrency,
        }
    }
}

impl From<Totals> for MetricTotals {
    fn from(totals: Totals) -> Self {
        let events = MetricEvent::EVENTS.map(|event| match event {
            MetricEvent::Pass => totals.pass,
            MetricEvent::Block => totals.block,
            MetricEvent::Exception => totals.exception,
            MetricEvent::Success => totals.success,
            MetricEvent::Rt => totals.rt_sum.0.try_into().unwrap_or(u64::MAX),
            MetricEvent::ReservedPass => totals.reserved_pass,
            MetricEvent::Cancelled => totals.cancelled,
        });
        Self {
            events,
            rt_nanos: totals.rt_sum.0,
            rt_count: totals.rt_count,
            min_rt: totals.min_rt.map(|rt| rt.0),
            max_rt: totals.max_rt.map(|rt| rt.0),
            max_concurrency: totals.max_concurrency,
        }
    }
}
