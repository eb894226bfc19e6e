//! Tests the instruments through the in-memory exporter of the SDK.

use std::collections::BTreeMap;
use std::sync::Arc;

use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, InMemoryMetricExporterBuilder, PeriodicReader, SdkMeterProvider,
    Temporality,
};

fn registry() -> Arc<Registry<ManualClock>> {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    Arc::new(Registry::with_clock(RegistryConfig::default(), clock))
}

struct Pipeline {
    exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

impl Pipeline {
    fn new() -> Self {
        Self::with(Temporality::Cumulative)
    }

    fn with(temporality: Temporality) -> Self {
        let builder = InMemoryMetricExporterBuilder::new().with_temporality(temporality);
        let exporter = builder.build();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        Self { exporter, provider: SdkMeterProvider::builder().with_reader(reader).build() }
    }

    /// Collects, and returns the values of all points by the metric and the values of its attributes.
    fn collect(&self) -> BTreeMap<String, i128> {
        self.exporter.reset();
        self.provider.force_flush().unwrap();
        let mut values = BTreeMap::new();
        for collected in self.exporter.get_finished_metrics().unwrap() {
            for metric in collected
                .scope_metrics()
                .flat_map(opentelemetry_sdk::metrics::data::ScopeMetrics::metrics)
            {
                let mut add = |attributes: Vec<String>, value| {
                    let mut attributes = attributes;
                    attributes.sort();
                    values.insert(format!("{} {}", metric.name(), attributes.join(" ")), value);
                };
                match metric.data() {
                    AggregatedMetrics::U64(MetricData::Sum(sum)) if sum.is_monotonic() => {
                        for point in sum.data_points() {
                            let values = point.attributes().map(|it| it.value.to_string());
                            add(values.collect(), point.value().into());
                        }
                    }
                    AggregatedMetrics::I64(MetricData::Sum(sum)) if !sum.is_monotonic() => {
                        for point in sum.data_points() {
                            let values = point.attributes().map(|it| it.value.to_string());
                            add(values.collect(), point.value().into());
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        values
    }
}

#[test]
fn instruments_have_the_lifetime_totals() {
    let (registry, pipeline) = (registry(), Pipeline::new());
    leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("tests"));
    let route = registry.resource("GET /orders").unwrap();
    route.enter().success();
    route.enter().exception();
    registry.resource("jobs").unwrap().in_context("night").unwrap().enter().success();
    let in_flight = route.enter();
    let values = pipeline.collect();
    for (name, expected) in [
        ("leaparray.pass /orders GET inbound", 3),
        ("leaparray.success /orders GET inbound", 1),
        ("leaparray.exception /orders GET inbound", 1),
        ("http.server.active_requests /orders GET inbound", 1),
        ("leaparray.success inbound jobs night", 1),
        ("leaparray.success inbound jobs", 0),
        ("leaparray.in_flight inbound jobs", 0),
    ] {
        assert_eq!(values.get(name), Some(&expected), "{name}: {values:?}");
    }
    in_flight.success();
    let values = pipeline.collect();
    assert_eq!(values["leaparray.success /orders GET inbound"], 2);
    assert_eq!(values["http.server.active_requests /orders GET inbound"], 0);
}

#[test]
fn instruments_do_not_keep_the_registry() {
    let (registry, pipeline) = (registry(), Pipeline::new());
    leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("tests"));
    registry.resource("jobs").unwrap().enter().success();
    assert!(!pipeline.collect().is_empty());
    let weak = Arc::downgrade(&registry);
    drop(registry);
    assert!(weak.upgrade().is_none());
    let values = pipeline.collect();
    assert!(values.is_empty(), "{values:?}");
}

#[test]
fn resource_that_is_listed_again_continues_its_counters() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let registry = registry();
        let pipeline = Pipeline::with(temporality);
        leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("test"));
        let succeed = |requests| {
            for _ in 0..requests {
                registry.resource("GET /orders").unwrap().enter().success();
            }
        };
        let collected = || {
            let values = pipeline.collect();
            let success = values.iter().find(|(name, _)| name.starts_with("leaparray.success "));
            success.map(|(_, &value)| value)
        };
        let is_delta = temporality == Temporality::Delta;
        succeed(5);
        assert_eq!(collected(), Some(5));
        for sum in [7, 9] {
            assert!(registry.remove("GET /orders"));
            succeed(2);
            assert_eq!(collected(), Some(if is_delta { 2 } else { sum }), "{temporality:?}");
        }
        // A collection without it ends its counters.
        assert!(registry.remove("GET /orders"));
        assert_eq!(collected(), None);
        succeed(1);
        assert_eq!(collected(), Some(1), "{temporality:?}");
    }
}
