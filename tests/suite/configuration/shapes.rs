//! The form of each configuration in JSON.

use std::fmt::Debug;
use std::time::Duration;

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::circuit::{RatioLimit, Wait};
use leaparray::flow::{CircuitConfig, Rate, WarmUpConfig};
use leaparray::node::OnDrop;
use leaparray::registry::ResourceConfig;
use leaparray::{HistogramConfig, NodeConfig, RegistryConfig, TrafficType, WindowConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn window(buckets: usize, millis: u64) -> WindowConfig {
    WindowConfig::new(buckets, Duration::from_millis(millis)).unwrap()
}

fn finer_node() -> NodeConfig {
    NodeConfig::new(window(10, 1_000), window(600, 60_000)).unwrap()
}

fn finer_node_form() -> Value {
    json!({
        "short": { "buckets": 10, "interval": "1s" },
        "long": { "buckets": 600, "interval": "1m" },
        "histogram": null,
    })
}

/// Asserts that `config` is written as `form`, and is read back from that, and from a binary
/// format.
#[track_caller]
fn assert_form<T: Serialize + DeserializeOwned + PartialEq + Debug>(config: &T, form: &Value) {
    assert_eq!(&serde_json::to_value(config).unwrap(), form);
    assert_eq!(&serde_json::from_str::<T>(&form.to_string()).unwrap(), config);
    let bytes = postcard::to_stdvec(config).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), config);
}

#[track_caller]
fn assert_reads<T: DeserializeOwned + PartialEq + Debug>(form: Value, config: &T) {
    assert_eq!(&serde_json::from_value::<T>(form).unwrap(), config);
}

#[test]
fn window_is_its_buckets_and_its_interval() {
    assert_form(&window(10, 1_000), &json!({ "buckets": 10, "interval": "1s" }));
    let nanos = WindowConfig::new(3, Duration::from_nanos(90_000_000_009)).unwrap();
    assert_form(&nanos, &json!({ "buckets": 3, "interval": "1m 30s 9ns" }));
    let longest = WindowConfig::new(1, WindowConfig::MAX_INTERVAL).unwrap();
    let text = "584years 6months 15days 8h 12m 57s 709ms 551us 615ns";
    assert_form(&longest, &json!({ "buckets": 1, "interval": text }));
    assert_reads(json!({ "interval": "1500ms", "buckets": 3 }), &window(3, 1_500));
    assert_reads(json!({ "buckets": 3, "interval": "1.5s" }), &window(3, 1_500));
}

#[test]
fn histogram_is_its_scale() {
    for scale in 0..=HistogramConfig::MAX_SCALE {
        let config = HistogramConfig::with_scale(scale).unwrap();
        assert_form(&config, &json!({ "scale": scale }));
        assert_reads(json!({ "relative_error": config.relative_error() }), &config);
    }
    assert_reads(json!({ "relative_error": 0.02 }), &HistogramConfig::with_scale(5).unwrap());
    let read = |text| toml::from_str::<HistogramConfig>(text).unwrap().scale();
    assert_eq!(["scale = 3", "relative_error = 0.05"].map(read), [3; 2]);
    let text = toml::to_string(&HistogramConfig::default()).unwrap();
    assert_eq!(text, "scale = 4\n");
}

#[test]
fn node_is_its_windows() {
    assert_form(&finer_node(), &finer_node_form());
}

#[test]
fn node_may_have_a_histogram() {
    let scale = HistogramConfig::with_scale(5).unwrap();
    let mut form = finer_node_form();
    form["histogram"] = json!({ "scale": 5 });
    assert_form(&finer_node().with_histogram(scale), &form);
    let node = NodeConfig::default().with_histogram(scale);
    assert_reads(json!({ "histogram": { "relative_error": 0.02 } }), &node);
    let registry = RegistryConfig::default().node(node);
    assert_reads(json!({ "node": { "histogram": { "scale": 5 } } }), &registry);
    for config in [NodeConfig::default(), node] {
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<NodeConfig>(&text).unwrap(), config);
    }
}

#[test]
fn window_of_a_node_has_a_default() {
    assert_reads(json!({}), &NodeConfig::default());
    let form = json!({ "long": { "buckets": 240, "interval": "2m" } });
    assert_reads(form, &NodeConfig::new(window(2, 1_000), window(240, 120_000)).unwrap());
    let form = json!({ "short": { "buckets": 4, "interval": "2s" } });
    assert_reads(form, &NodeConfig::new(window(4, 2_000), window(120, 60_000)).unwrap());
}

#[test]
fn registry_is_its_nodes_and_its_maxima() {
    let config = RegistryConfig::default().node(finer_node()).max_resources(500).max_contexts(8);
    let config = config.on_drop(OnDrop::Cancelled);
    let form = json!({
        "node": finer_node_form(),
        "max_resources": 500,
        "max_contexts": 8,
        "on_drop": "cancelled",
    });
    assert_form(&config, &form);
    assert_reads(json!({}), &RegistryConfig::default());
    assert_reads(json!({ "max_contexts": 8 }), &RegistryConfig::default().max_contexts(8));
}

#[test]
fn resource_is_its_node_and_its_direction() {
    let config = ResourceConfig::default();
    assert_form(&config, &json!({ "node": null, "traffic_type": "inbound", "on_drop": null }));
    let config = config.node(finer_node()).traffic_type(TrafficType::Outbound);
    let config = config.on_drop(OnDrop::Exception);
    let form = json!({
        "node": finer_node_form(),
        "traffic_type": "outbound",
        "on_drop": "exception",
    });
    assert_form(&config, &form);
    assert_reads(json!({}), &ResourceConfig::default());
    assert_reads(
        json!({ "traffic_type": "outbound" }),
        &ResourceConfig::from(TrafficType::Outbound),
    );
    assert_form(&TrafficType::Outbound, &json!("outbound"));
}

#[test]
fn rate_is_its_permits_and_their_interval_in_lowest_terms() {
    let rate = Rate::new(3, Duration::from_secs(1)).unwrap();
    assert_form(&rate, &json!({ "permits": 3, "per": "1s" }));
    let rate = Rate::per_second(100).unwrap();
    assert_reads(json!({ "permits": 100, "per": "1s" }), &rate);
    assert_form(&rate, &json!({ "permits": 1, "per": "10ms" }));
}

#[test]
fn warm_up_is_its_period_and_its_factor() {
    let config = WarmUpConfig::new(Duration::from_secs(90), 2.5).unwrap();
    assert_form(&config, &json!({ "period": "1m 30s", "cold_factor": 2.5 }));
    assert_reads(json!({}), &WarmUpConfig::default());
    let longer = WarmUpConfig::new(Duration::from_secs(60), 3.0).unwrap();
    assert_reads(json!({ "period": "1m" }), &longer);
    let colder = WarmUpConfig::new(Duration::from_secs(10), 5.0).unwrap();
    assert_reads(json!({ "cold_factor": 5 }), &colder);
}

#[test]
fn breaker_is_all_that_it_is_set_to() {
    let default = json!({
        "window": { "buckets": 40, "interval": "10s" },
        "k": 1.5,
        "min_requests": 5,
        "probe_interval": "1s",
        "recovery": "5s",
        "on_drop": "exception",
    });
    assert_form(&AdaptiveBreakerConfig::default(), &default);
    assert_reads(json!({}), &AdaptiveBreakerConfig::default());

    let config = AdaptiveBreakerConfig::default().window(window(60, 30_000)).min_requests(20);
    let config = config.k(2.0).unwrap().probe_interval(Duration::from_millis(500)).unwrap();
    let config = config.recovery(Duration::from_secs(2)).unwrap().on_drop(OnDrop::Cancelled);
    let form = json!({
        "window": { "buckets": 60, "interval": "30s" },
        "k": 2.0,
        "min_requests": 20,
        "probe_interval": "500ms",
        "recovery": "2s",
        "on_drop": "cancelled",
    });
    assert_form(&config, &form);
    assert_reads(json!({ "min_requests": 7 }), &AdaptiveBreakerConfig::default().min_requests(7));
}

#[test]
fn circuit_breaker_is_all_that_it_is_set_to() {
    let default = json!({
        "window": { "buckets": 10, "interval": "10s" },
        "last_calls": null,
        "min_calls": 20,
        "exception_ratio": { "at_least": 0.5 },
        "slow": null,
        "exceptions": null,
        "consecutive_exceptions": null,
        "wait": { "first": "5s", "factor": 1.0, "max": null, "jitter": 0.0 },
        "probes": 3,
        "half_open_timeout": "10s",
        "on_drop": "exception",
    });
    assert_form(&CircuitConfig::default(), &default);
    assert_reads(json!({}), &CircuitConfig::default());

    let wait = Wait::new(Duration::from_secs(1)).growing(2.0, Duration::from_secs(60)).unwrap();
    let config = CircuitConfig::default()
        .last_calls(100)
        .unwrap()
        .min_calls(50)
        .no_exception_ratio()
        .slow_ratio(RatioLimit::above(0.8).unwrap(), Duration::from_millis(1_500))
        .exceptions(30)
        .consecutive_exceptions(6)
        .wait(wait.with_jitter(0.25).unwrap())
        .probes(5)
        .unwrap()
        .half_open_timeout(None)
        .unwrap()
        .on_drop(OnDrop::Cancelled);
    let form = json!({
        "window": null,
        "last_calls": 100,
        "min_calls": 50,
        "exception_ratio": "none",
        "slow": { "ratio": { "above": 0.8 }, "slow_above": "1s 500ms" },
        "exceptions": 30,
        "consecutive_exceptions": 6,
        "wait": { "first": "1s", "factor": 2.0, "max": "1m", "jitter": 0.25 },
        "probes": 5,
        "half_open_timeout": "none",
        "on_drop": "cancelled",
    });
    assert_form(&config, &form);
    let last_calls = CircuitConfig::default().last_calls(7).unwrap();
    assert_reads(json!({ "last_calls": 7 }), &last_calls);
    for config in [config, last_calls, CircuitConfig::resilience4j(), CircuitConfig::polly()] {
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<CircuitConfig>(&text).unwrap(), config, "{text}");
    }
}
