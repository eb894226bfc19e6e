//! What the collectors expose, read by parsers of other crates.
#![expect(clippy::float_cmp, reason = "the numbers are counts, or exposed as they are")]

mod beside;
mod families;
mod http;
mod monotone;
mod names;
mod native;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leaparray::{HistogramConfig, ManualClock, NodeConfig, Registry, RegistryConfig, Timestamp};
use leaparray_prometheus::RegistryCollector;
use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::prometheus::parse_prometheus;
use openmetrics_parser::{
    HistogramValue, MetricFamily, MetricsExposition, OpenMetricsValue, PrometheusValue,
    RenderableMetricValue,
};
use prometheus::TextEncoder;
use prometheus_client::encoding::text;

type Manual = Registry<ManualClock>;
type Collector = RegistryCollector<ManualClock>;

fn registry() -> Arc<Manual> {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    registry_with(RegistryConfig::default().node(node))
}

fn registry_with(config: RegistryConfig) -> Arc<Manual> {
    Arc::new(Registry::with_clock(config, ManualClock::new(Timestamp::from_secs(3_600))))
}

/// A request that succeeds after some milliseconds.
fn succeed(registry: &Manual, name: &str, millis: u64) {
    let resource = registry.resource(name).unwrap();
    let entry = resource.enter();
    registry.clock().advance(Duration::from_millis(millis));
    entry.success();
}

/// The name of a family, and the labels of a sample in the order of their names.
type Key = (String, BTreeMap<String, String>);

/// A value that a parser has read.
#[derive(Clone, Debug, PartialEq)]
enum Read {
    Number(f64),
    Histogram { sum: f64, count: u64, buckets: Vec<(f64, f64)> },
}

impl Read {
    fn histogram(value: &HistogramValue) -> Self {
        let buckets =
            value.buckets.iter().map(|bucket| (bucket.upper_bound, bucket.count.as_f64()));
        Self::Histogram {
            sum: value.sum.unwrap().as_f64(),
            count: value.count.unwrap(),
            buckets: buckets.collect(),
        }
    }
}

/// All samples of an exposition.
#[derive(Clone, Debug, Default, PartialEq)]
struct Samples(BTreeMap<Key, Read>);

impl Samples {
    fn of<T, V>(exposition: &MetricsExposition<T, V>, read: impl Fn(&V) -> Read) -> Self
    where
        T: Clone,
        V: RenderableMetricValue + Clone,
    {
        let families = exposition.families.values();
        Self(families.flat_map(|family| samples_of(family, &read)).collect())
    }

    /// Scrapes a collector through both clients, and asserts that they expose the same.
    fn scrape(collector: Collector) -> Self {
        Self::scrape_shared(&Arc::new(collector))
    }

    fn scrape_shared(collector: &Arc<Collector>) -> Self {
        let mut client = prometheus_client::registry::Registry::default();
        client.register_collector(Box::new(Arc::clone(collector)));
        let mut text = String::new();
        text::encode(&mut text, &client).unwrap();
        let exposition = parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let by_client = Self::of(&exposition, |value| match value {
            OpenMetricsValue::Counter(counter) => Read::Number(counter.value.as_f64()),
            OpenMetricsValue::Gauge(number) => Read::Number(number.as_f64()),
            OpenMetricsValue::Histogram(histogram) => Read::histogram(histogram),
            other => panic!("{other:?}"),
        });

        let families = prometheus::core::Collector::collect(&**collector);
        let text = TextEncoder::new().encode_to_string(&families).unwrap();
        let exposition = parse_prometheus(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut other = Self::of(&exposition, |value| match value {
            PrometheusValue::Counter(counter) => Read::Number(counter.value.as_f64()),
            PrometheusValue::Gauge(number) => Read::Number(number.as_f64()),
            PrometheusValue::Histogram(histogram) => Read::histogram(histogram),
            other => panic!("{other:?}"),
        });
        // In OpenMetrics, the suffix is not part of the family's name.
        let without_suffix = |((name, labels), value): (Key, Read)| {
            ((name.trim_end_matches("_total").to_owned(), labels), value)
        };
        other.0 = other.0.into_iter().map(without_suffix).collect();
        assert_eq!(by_client, other);
        by_client
    }

    fn value(&self, family: &str, labels: &[(&str, &str)]) -> Option<&Read> {
        let labels = labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        self.0.get(&(family.to_owned(), labels.collect()))
    }

    #[track_caller]
    fn number(&self, family: &str, labels: &[(&str, &str)]) -> f64 {
        match self.value(family, labels) {
            Some(&Read::Number(number)) => number,
            other => panic!("{family} {labels:?}: {other:?}"),
        }
    }

    /// Returns a number of a resource that is inbound and has no context.
    #[track_caller]
    fn of_resource(&self, family: &str, resource: &str) -> f64 {
        self.number(family, &[("resource", resource), ("context", ""), ("kind", "inbound")])
    }
}

fn samples_of<T, V>(family: &MetricFamily<T, V>, read: impl Fn(&V) -> Read) -> Vec<(Key, Read)>
where
    T: Clone,
    V: RenderableMetricValue + Clone,
{
    let samples = family.iter_samples().map(|sample| {
        let labels = sample.get_labelset().unwrap();
        let labels = labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        ((family.family_name.clone(), labels), read(&sample.value))
    });
    samples.collect()
}
