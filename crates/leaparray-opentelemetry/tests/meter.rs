//! Tests the instruments through the in-memory exporter of the SDK.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::flow::circuit::CircuitState;
use leaparray::flow::shadow::{Mode, Shadow};
use leaparray::flow::watch::{Watch, WatchedMetric, WatchedState};
use leaparray::flow::{
    CircuitBreaker, CircuitConfig, ConcurrencyLimiter, LimiterExt, Rate, TokenBucket,
};
use leaparray::node::ResponseClass;
use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Timestamp};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, InMemoryMetricExporterBuilder, PeriodicReader, SdkMeterProvider,
    Temporality,
};

fn registry() -> Arc<Registry<ManualClock>> {
    registry_with(RegistryConfig::default())
}

fn registry_with(config: RegistryConfig) -> Arc<Registry<ManualClock>> {
    Arc::new(Registry::with_clock(config, ManualClock::new(Timestamp::from_secs(3_600))))
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

    /// Collects, and returns the values of all points by the metric and the values of its
    /// attributes.
    fn collect(&self) -> BTreeMap<String, i128> {
        self.exporter.reset();
        self.provider.force_flush().unwrap();
        values_of(&self.exporter)
    }
}

/// Returns the values of all points by the metric and the values of its attributes, in the order of
/// the values.
fn values_of(exporter: &InMemoryMetricExporter) -> BTreeMap<String, i128> {
    let mut values = BTreeMap::new();
    for collected in exporter.get_finished_metrics().unwrap() {
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
                AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                    for point in gauge.data_points() {
                        let values = point.attributes().map(|it| it.value.to_string());
                        #[expect(clippy::cast_possible_truncation, reason = "counts")]
                        add(values.collect(), point.value() as i128);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    values
}

#[test]
fn instruments_have_the_lifetime_totals() {
    let (registry, pipeline) = (registry(), Pipeline::new());
    leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("tests"));
    let route = registry.resource("GET /orders").unwrap();
    route.enter().success();
    route.enter().exception();
    route.count_response(ResponseClass::ClientError);
    let clients = TokenBucket::new(Rate::per_minute(1).unwrap(), 0).named("clients");
    assert!(clients.try_enter(&*route).is_err());
    registry.resource("jobs").unwrap().in_context("night").unwrap().enter().success();
    let in_flight = route.enter();
    let values = pipeline.collect();
    for (name, expected) in [
        ("leaparray.pass /orders GET inbound", 3),
        ("leaparray.success /orders GET inbound", 1),
        ("leaparray.exception /orders GET inbound", 1),
        ("leaparray.refused_by /orders GET clients inbound", 1),
        ("leaparray.responses /orders 4xx GET inbound", 1),
        ("leaparray.responses /orders 2xx GET inbound", 0),
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

/// Returns the value of a counter with these attributes.
fn success(values: &BTreeMap<String, i128>, attributes: &str) -> Option<i128> {
    values.get(&format!("leaparray.success {attributes}")).copied()
}

fn succeed(registry: &Registry<ManualClock>, name: &str, requests: u32) {
    for _ in 0..requests {
        registry.resource(name).unwrap().enter().success();
    }
}

#[test]
fn resource_that_is_listed_again_continues_its_counters() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let registry = registry();
        let pipeline = Pipeline::with(temporality);
        leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("test"));
        let mut sum = 0;
        // The last rounds have a collection without the resource.
        for (requests, without) in [(5, false), (2, false), (2, false), (3, true), (1, true)] {
            succeed(&registry, "jobs", requests);
            let before = sum;
            sum += i128::from(requests);
            let is_delta = temporality == Temporality::Delta;
            let expected = if is_delta { sum - before } else { sum };
            let values = pipeline.collect();
            assert_eq!(success(&values, "inbound jobs"), Some(expected), "{temporality:?}");
            assert!(registry.remove("jobs"));
            if without {
                let values = pipeline.collect();
                let expected = if is_delta { 0 } else { sum };
                assert_eq!(success(&values, "inbound jobs"), Some(expected), "{temporality:?}");
                assert!(!values.keys().any(|name| name.starts_with("leaparray.in_flight")));
            }
        }
    }
}

#[test]
fn readers_of_both_temporalities_see_counters_that_continue() {
    let registry = registry();
    let exporters = [Temporality::Delta, Temporality::Cumulative].map(|temporality| {
        InMemoryMetricExporterBuilder::new().with_temporality(temporality).build()
    });
    let mut provider = SdkMeterProvider::builder();
    for exporter in &exporters {
        provider = provider.with_reader(PeriodicReader::builder(exporter.clone()).build());
    }
    let provider = provider.build();
    leaparray_opentelemetry::observe(&registry, &provider.meter("test"));
    let collected = || {
        provider.force_flush().unwrap();
        exporters.each_ref().map(|exporter| {
            let values = values_of(exporter);
            exporter.reset();
            success(&values, "inbound jobs").unwrap()
        })
    };
    succeed(&registry, "jobs", 5);
    assert_eq!(collected(), [5, 5]);
    assert!(registry.remove("jobs"));
    assert_eq!(collected(), [0, 5]);
    succeed(&registry, "jobs", 1);
    assert_eq!(collected(), [1, 6]);
}

#[test]
fn series_that_were_delisted_first_are_forgotten() {
    let registry = registry_with(RegistryConfig::default().max_resources(2));
    let pipeline = Pipeline::new();
    leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("test"));
    for name in ["first", "second", "third", "fourth"] {
        succeed(&registry, name, 1);
        pipeline.collect();
        assert!(registry.remove(name));
        pipeline.collect();
    }
    let values = pipeline.collect();
    for (attributes, is_kept) in [
        ("first inbound", false),
        ("inbound second", false),
        ("inbound third", true),
        ("fourth inbound", true),
    ] {
        assert_eq!(success(&values, attributes).is_some(), is_kept, "{attributes}");
    }
}

#[test]
fn contexts_of_a_resource_that_is_listed_again_continue_their_counters() {
    let registry = registry_with(RegistryConfig::default().max_resources(1));
    let pipeline = Pipeline::new();
    leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("test"));
    for round in 1..4 {
        let jobs = registry.resource("jobs").unwrap();
        for context in ["day", "evening", "night"] {
            jobs.in_context(context).unwrap().enter().success();
        }
        for _ in 0..2 {
            let values = pipeline.collect();
            for context in ["day inbound jobs", "evening inbound jobs", "inbound jobs night"] {
                assert_eq!(success(&values, context), Some(round), "{context}");
            }
            registry.remove("jobs");
        }
    }
}

#[test]
fn registry_that_is_observed_twice_is_counted_once() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let pipeline = Pipeline::with(temporality);
        let registry = registry();
        for _ in 0..2 {
            leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("tests"));
        }
        let orders = registry.resource("orders").unwrap();
        let mut expected = 0;
        for _ in 0..3 {
            (0..5).for_each(|_| orders.enter().success());
            let _in_flight = orders.enter();
            let is_delta = temporality == Temporality::Delta;
            expected = if is_delta { 5 } else { expected + 5 };
            let values = pipeline.collect();
            assert_eq!(values["leaparray.success inbound orders"], expected);
            assert_eq!(values["leaparray.in_flight inbound orders"], 1);
        }
    }
}

#[test]
fn collection_reads_each_limiter_once() {
    struct Counts(Arc<AtomicU64>);

    impl Watch for Counts {
        fn watched(&self) -> Option<WatchedState> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Some(WatchedState::Nothing)
        }
    }

    let (registry, pipeline) = (registry(), Pipeline::new());
    leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("tests"));
    let readings = Arc::new(AtomicU64::new(0));
    registry.watch("counts", Counts(Arc::clone(&readings))).unwrap();
    for _ in 0..3 {
        readings.store(0, Ordering::Relaxed);
        pipeline.collect();
        let readings = readings.load(Ordering::Relaxed);
        // More than one if the thread was stopped between two gauges.
        assert!((1..WatchedMetric::ALL.len() as u64).contains(&readings), "{readings}");
    }
}

#[test]
fn watched_limiters_have_gauges_and_counters() {
    let (registry, pipeline) = (registry(), Pipeline::new());
    leaparray_opentelemetry::observe(&registry, &pipeline.provider.meter("tests"));
    let breaker = Arc::new(CircuitBreaker::new(CircuitConfig::default()));
    registry.watch("database", Arc::downgrade(&breaker)).unwrap();
    registry.watch("jobs", Arc::new(ConcurrencyLimiter::new(3))).unwrap();
    breaker.set_state_at(breaker.clock().now(), CircuitState::ForcedOpen).unwrap();
    let tried = Shadow::new(ConcurrencyLimiter::new(0), Mode::Shadow);
    assert!(tried.try_acquire().is_admitted());
    registry.watch("tried", tried).unwrap();
    let values = pipeline.collect();
    for (name, expected) in [
        ("leaparray.limit jobs", 3),
        ("leaparray.limit_remaining jobs", 3),
        ("leaparray.circuit_state database forced_open", 1),
        ("leaparray.circuit_state closed database", 0),
        ("leaparray.shadow_would_refuse tried", 1),
    ] {
        assert_eq!(values.get(name), Some(&expected), "{name}: {values:?}");
    }
    drop(breaker);
    let values = pipeline.collect();
    assert!(!values.keys().any(|name| name.contains("database")), "{values:?}");
}
