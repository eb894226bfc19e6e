//! Counts, totals and seconds, serialized by the names of their events.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::event::{MetricEvent, with_events};
use super::event_counts::EventCounts;
use super::second::SecondMetrics;
use super::totals::MetricTotals;
use crate::histogram::LatencyHistogram;
use crate::time::serde_time::Nanos;
use crate::time::{Timestamp, saturating_nanos};

/// Declares a serialized form: a field for the count of each event, and the sum of the response
/// times, in the place of `..` between further fields. An event that is missing in it was not
/// counted, as by an earlier version.
macro_rules! declare {
    (
        [$(
            $(#[$doc:meta])+
            $event:ident, $count:ident, $name:literal, $description:literal;
        )+]
        $form:ident $(<$histogram:ident>)? {
            $($first:ident: $first_type:ty,)* .. $($last:ident: $last_type:ty,)*
        }
    ) => {
        #[derive(Serialize, Deserialize)]
        struct $form $(<$histogram>)? {
            $($first: $first_type,)*
            $(#[serde(default)] $count: u64,)+
            rt_sum: Nanos<u128>,
            $($last: $last_type,)*
        }

        impl $(<$histogram>)? $form $(<$histogram>)? {
            fn new(
                $($first: $first_type,)*
                counts: &EventCounts,
                $($last: $last_type,)*
            ) -> Self {
                Self {
                    $($first,)*
                    $($count: counts[MetricEvent::$event],)+
                    rt_sum: Nanos(counts.rt_nanos),
                    $($last,)*
                }
            }

            fn counts(&self) -> EventCounts {
                let mut counts = EventCounts::from([$((MetricEvent::$event, self.$count)),+]);
                counts.rt_nanos = self.rt_sum.0;
                counts
            }
        }
    };
}

with_events!(declare!(Counts { .. }));

with_events!(declare!(Totals {
    ..
    min_rt: Option<Nanos<u64>>,
    max_rt: Option<Nanos<u64>>,
    max_concurrency: Option<u64>,
}));

with_events!(declare!(Metrics<H> {
    second: Timestamp,
    ..
    min_rt: Option<Nanos<u64>>,
    max_rt: Option<Nanos<u64>>,
    concurrency: u64,
    histogram: Option<H>,
}));

impl Serialize for EventCounts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Counts::new(self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for EventCounts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Counts::deserialize(from).map(|form| form.counts())
    }
}

impl Serialize for MetricTotals {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let [min_rt, max_rt] = [self.min_rt, self.max_rt].map(|rt| rt.map(Nanos));
        Totals::new(&self.counts, min_rt, max_rt, self.max_concurrency).serialize(to)
    }
}

impl<'de> Deserialize<'de> for MetricTotals {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = Totals::deserialize(from)?;
        Ok(Self {
            counts: form.counts(),
            min_rt: form.min_rt.map(|rt| rt.0),
            max_rt: form.max_rt.map(|rt| rt.0),
            max_concurrency: form.max_concurrency,
        })
    }
}

impl Serialize for SecondMetrics {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { second, counts, min_rt, max_rt, concurrency, histogram } = self;
        let [min_rt, max_rt] = [min_rt, max_rt].map(|rt| rt.map(saturating_nanos).map(Nanos));
        Metrics::new(*second, counts, min_rt, max_rt, *concurrency, histogram.as_ref())
            .serialize(to)
    }
}

impl<'de> Deserialize<'de> for SecondMetrics {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = Metrics::<LatencyHistogram>::deserialize(from)?;
        let duration = |rt: Nanos<u64>| Duration::from_nanos(rt.0);
        Ok(Self {
            second: form.second,
            counts: form.counts(),
            min_rt: form.min_rt.map(duration),
            max_rt: form.max_rt.map(duration),
            concurrency: form.concurrency,
            histogram: form.histogram,
        })
    }
}
