//! The families and their values.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::circuit::CircuitState;
use leaparray::flow::shadow::{Mode, Shadow, Share};
use leaparray::flow::{
    Account, AdaptiveBreaker, Ask, CircuitBreaker, CircuitConfig, ConcurrencyLimiter, Decision,
    FixedWindowLimiter, Keyed, Limiter, LimiterExt, Quota, Rate, Reason, TokenBucket,
};
use leaparray::node::ResponseClass;
use leaparray::{
    Clock, HistogramConfig, MetricEvent, NodeConfig, RegistryConfig, Timestamp, TrafficType,
    WindowConfig,
};
use leaparray_prometheus::RegistryCollector;

use crate::{Read, Samples, registry, registry_with, succeed};

#[test]
fn counters_are_lifetime_totals() {
    let registry = registry();
    for _ in 0..3 {
        succeed(&registry, "orders", 10);
    }
    let orders = registry.resource("orders").unwrap();
    orders.enter().exception();
    orders.enter().cancel();
    orders.refuse(Reason::LimitReached);
    let in_flight = orders.enter();
    // Everything leaves the windows.
    registry.clock().advance(Duration::from_secs(3_600));

    let samples = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
    let expected = [
        ("leaparray_pass", 6.0),
        ("leaparray_success", 3.0),
        ("leaparray_exception", 1.0),
        ("leaparray_cancelled", 1.0),
        ("leaparray_block", 1.0),
        ("leaparray_reserved_pass", 0.0),
        ("leaparray_in_flight", 1.0),
    ];
    for (family, expected) in expected {
        assert_eq!(samples.of_resource(family, "orders"), expected, "{family}");
    }
    let refusals =
        [("resource", "orders"), ("context", ""), ("kind", "inbound"), ("reason", "limit_reached")];
    assert_eq!(samples.number("leaparray_refusals", &refusals), 1.0);
    assert_eq!(samples.number("leaparray_resources", &[]), 1.0);
    in_flight.success();
}

#[test]
fn refusals_have_the_name_of_the_limiter() {
    let registry = registry();
    let limiter = TokenBucket::new(Rate::per_minute(1).unwrap(), 0).named("clients");
    for resource in ["orders", "orders", "users"] {
        let resource = registry.resource(resource).unwrap();
        assert!(limiter.try_enter(&*resource).is_err());
    }
    registry.resource("jobs").unwrap().refuse(Reason::LimitReached);
    let samples = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
    for (resource, count) in [("orders", 2.0), ("users", 1.0)] {
        let labels =
            [("resource", resource), ("context", ""), ("kind", "inbound"), ("limiter", "clients")];
        assert_eq!(samples.number("leaparray_refused_by", &labels), count);
    }
    assert_eq!(samples.0.keys().filter(|(name, _)| name == "leaparray_refused_by").count(), 2);
}

#[test]
fn responses_have_their_class_as_code() {
    let registry = registry();
    succeed(&registry, "jobs", 10);
    for status in [200, 200, 404] {
        let class = ResponseClass::of_status(status);
        registry.resource("orders").unwrap().count_response(class);
    }
    let collector = Arc::new(RegistryCollector::new(Arc::clone(&registry)));
    let samples = Samples::scrape_shared(&collector);
    let of = |code| {
        let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound"), ("code", code)];
        samples.number("leaparray_responses", &labels)
    };
    assert_eq!(["1xx", "2xx", "3xx", "4xx", "5xx"].map(of), [0.0, 2.0, 0.0, 1.0, 0.0]);
    // A resource without responses has no samples.
    assert_eq!(samples.0.keys().filter(|(name, _)| name == "leaparray_responses").count(), 5);
    // The counts go on over an eviction and a removal.
    registry.clock().advance(Duration::from_secs(60));
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 2);
    registry.resource("orders").unwrap().count_response(ResponseClass::ClientError);
    registry.remove("orders");
    registry.resource("orders").unwrap();
    let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound"), ("code", "4xx")];
    let samples = Samples::scrape_shared(&collector);
    assert_eq!(samples.number("leaparray_responses", &labels), 2.0);
}

#[test]
fn contexts_and_directions_are_labels() {
    let registry = registry();
    let database = registry.resource_with("database", TrafficType::Outbound).unwrap();
    database.enter().success();
    database.in_context("web").unwrap().enter().success();
    database.in_context("web").unwrap().enter().success();
    let samples = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
    let successes = |context| {
        let labels = [("resource", "database"), ("context", context), ("kind", "outbound")];
        samples.number("leaparray_success", &labels)
    };
    assert_eq!((successes(""), successes("web")), (1.0, 2.0));
    let of_kind = |kind| samples.number("leaparray_registry_success", &[("kind", kind)]);
    assert_eq!((of_kind("inbound"), of_kind("outbound")), (0.0, 3.0));
}

#[test]
fn response_times_are_in_the_chosen_buckets() {
    let registry = registry();
    for millis in [100, 100, 600, 2_000] {
        succeed(&registry, "orders", millis);
    }
    let bounds = [1_000, 250].map(Duration::from_millis);
    let samples = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)).buckets(bounds));
    let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound")];
    let buckets = vec![(0.25, 2.0), (1.0, 3.0), (f64::INFINITY, 4.0)];
    let expected = Read::Histogram { sum: 2.8, count: 4, buckets };
    assert_eq!(samples.value("leaparray_response_time_seconds", &labels), Some(&expected));
}

#[test]
fn resource_without_a_histogram_has_the_sum_and_the_count() {
    let registry = registry_with(RegistryConfig::default());
    succeed(&registry, "orders", 500);
    succeed(&registry, "orders", 1_000);
    let samples = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
    let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound")];
    let expected = Read::Histogram { sum: 1.5, count: 2, buckets: vec![(f64::INFINITY, 2.0)] };
    assert_eq!(samples.value("leaparray_response_time_seconds", &labels), Some(&expected));
}

#[test]
fn windows_are_exposed_by_choice() {
    let registry = registry();
    for _ in 0..5 {
        succeed(&registry, "orders", 10);
    }
    let has_windows = |samples: &Samples| {
        samples.0.keys().any(|(family, _)| family.starts_with("leaparray_window"))
    };
    let without = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
    assert!(!has_windows(&without), "{without:?}");

    let samples = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)).windows(true));
    let orders = registry.get("orders").unwrap().now().snapshot();
    let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound")];
    for (name, window) in [("1s", &orders.short), ("60s", &orders.long)] {
        let of_window = |label| [&labels[..], &[("window", name), label]].concat();
        assert_eq!(
            samples.number("leaparray_window_rate", &of_window(("event", "success"))),
            window.qps(MetricEvent::Success),
        );
        let p99 = window.quantiles.unwrap().p99.as_secs_f64();
        let family = "leaparray_window_response_time_seconds";
        assert_eq!(samples.number(family, &of_window(("quantile", "0.99"))), p99);
    }
}

#[test]
fn window_has_no_quantiles_of_a_part_of_its_response_times() {
    let registry = registry_with(RegistryConfig::default());
    succeed(&registry, "orders", 400);
    registry.reconfigure(NodeConfig::default().with_histogram(HistogramConfig::default()));
    succeed(&registry, "orders", 1);
    let samples = Samples::scrape(RegistryCollector::new(registry).windows(true));
    let has = |name| samples.0.keys().any(|(family, _)| family == name);
    assert!(has("leaparray_window_rate") && !has("leaparray_window_response_time_seconds"));
}

#[test]
fn windows_of_the_same_length_are_exposed_once() {
    let second = WindowConfig::new(10, Duration::from_secs(1)).unwrap();
    let node = NodeConfig::new(second, second).unwrap();
    let registry = registry_with(RegistryConfig::default().node(node));
    succeed(&registry, "orders", 10);
    // The parser refuses two samples with the same labels.
    let samples = Samples::scrape(RegistryCollector::new(registry).windows(true));
    let rates = samples.0.keys().filter(|(family, _)| family == "leaparray_window_rate");
    assert_eq!(rates.count(), MetricEvent::OF_PERMITS.len());
}

#[test]
fn two_collectors_have_a_place_in_one_registry() {
    let exposed = prometheus::Registry::new();
    for _ in 0..2 {
        exposed.register(Box::new(RegistryCollector::new(registry()))).unwrap();
    }
}

#[test]
fn state_of_a_circuit_breaker_is_1() {
    let registry = registry();
    let config = CircuitConfig::default().consecutive_exceptions(1);
    let breaker = Arc::new(CircuitBreaker::with_clock(config, registry.clock().clone()));
    registry.watch("database", Arc::clone(&breaker)).unwrap();
    let collector = Arc::new(RegistryCollector::new(registry));
    let present = || {
        let samples = Samples::scrape_shared(&collector);
        let states = ["closed", "open", "half_open", "forced_open", "disabled", "metrics_only"];
        let value = |state| {
            let labels = [("limiter", "database"), ("state", state)];
            samples.number("leaparray_circuit_state", &labels)
        };
        assert_eq!(states.map(value).iter().sum::<f64>(), 1.0);
        states.into_iter().find(|&state| value(state) == 1.0).unwrap()
    };
    assert_eq!(present(), "closed");
    breaker.try_acquire().at_once().unwrap().reject();
    assert_eq!(present(), "open");
    for (state, label) in [
        (CircuitState::HalfOpen, "half_open"),
        (CircuitState::ForcedOpen, "forced_open"),
        (CircuitState::Disabled, "disabled"),
        (CircuitState::MetricsOnly, "metrics_only"),
    ] {
        breaker.set_state_at(breaker.clock().now(), state).unwrap();
        assert_eq!(present(), label);
    }
}

#[test]
fn limiters_and_breakers_are_exposed_by_name() {
    let registry = registry();
    let clock = registry.clock().clone();
    let limiter = FixedWindowLimiter::with_clock(Duration::from_secs(60), 10, clock.clone());
    let limiter = Arc::new(limiter.unwrap());
    let breaker = Arc::new(AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock));
    let _ = limiter.try_acquire_many(3);
    for _ in 0..100 {
        if let Decision::Admitted(permit) = breaker.try_acquire() {
            permit.reject();
        }
    }
    registry.watch("search", Arc::clone(&limiter)).unwrap();
    registry.watch("database", Arc::clone(&breaker)).unwrap();
    let limit = TokenBucket::new(Rate::per_minute(1).unwrap(), 1);
    let clients = Arc::new(Keyed::<u64, _>::new(limit, 10).unwrap());
    let _ = [7, 8, 8, 8].map(|client| clients.try_acquire(&client));
    registry.watch("clients", clients).unwrap();
    registry.watch("broken", Panics).unwrap();
    let half = Mode::Requests(Share::percent(50).unwrap());
    let tried = Shadow::new(ConcurrencyLimiter::new(0), half);
    assert_eq!((0..4).filter(|_| tried.try_acquire().is_refused()).count(), 2);
    registry.watch("tried", tried).unwrap();
    let samples = Samples::scrape(RegistryCollector::new(registry));
    assert_eq!(samples.number("leaparray_limit", &[("limiter", "search")]), 10.0);
    assert_eq!(samples.number("leaparray_limit_remaining", &[("limiter", "search")]), 7.0);
    let probability =
        samples.number("leaparray_breaker_drop_probability", &[("limiter", "database")]);
    assert!(probability > 0.5, "{probability}");
    assert_eq!(probability, breaker.drop_probability_at(breaker.clock().now()));
    assert_eq!(samples.number("leaparray_limiter_keys", &[("limiter", "clients")]), 2.0);
    let of_keys = samples.0.keys().filter(|(family, _)| family == "leaparray_limiter_key_refusals");
    assert_eq!(of_keys.count(), 1);
    let key = [("limiter", "clients"), ("key", "8")];
    assert_eq!(samples.number("leaparray_limiter_key_refusals", &key), 2.0);
    let of_tried = |name| samples.number(name, &[("limiter", "tried")]);
    assert_eq!(of_tried("leaparray_shadow_would_refuse"), 2.0);
    assert_eq!(of_tried("leaparray_shadow_enforced"), 2.0);
    assert_eq!(of_tried("leaparray_shadow_enforced_share"), 0.5);
    for (mode, value) in [("requests", 1.0), ("shadow", 0.0)] {
        let labels = [("limiter", "tried"), ("mode", mode)];
        assert_eq!(samples.number("leaparray_shadow_mode", &labels), value, "{mode}");
    }
}

/// A limiter whose code panics. The others are exposed.
struct Panics;

impl Limiter for Panics {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Admitted(())
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Panics {
    fn quota(&self, _now: Timestamp) -> Option<Quota> {
        panic!("a limiter of the user");
    }
}
