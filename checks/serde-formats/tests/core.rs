//! Every configuration and every kind of plain data of the core.

use std::time::Duration;

use leaparray::array::Bucket;
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::circuit::{RatioLimit, Wait};
use leaparray::flow::{CircuitConfig, Rate, WarmUpConfig};
use leaparray::metric::{MetricBucket, SecondMetrics};
use leaparray::node::{OnDrop, SecondsCursor, WindowSnapshot};
use leaparray::registry::{RegistryCursor, RegistrySnapshot, ResourceConfig};
use leaparray::rolling_window::Sum;
use leaparray::{
    Clock, HistogramConfig, LatencyHistogram, ManualClock, MetricEvent, MetricTotals, NodeConfig,
    Registry, RegistryConfig, ResourceNode, SlidingWindow, Timestamp, TrafficType, WindowConfig,
};
use leaparray_serde_formats::{Failures, read_all};

fn window(buckets: usize, millis: u64) -> WindowConfig {
    WindowConfig::new(buckets, Duration::from_millis(millis)).unwrap()
}

fn histogram(scale: u8) -> HistogramConfig {
    HistogramConfig::with_scale(scale).unwrap()
}

fn node_config() -> NodeConfig {
    NodeConfig::new(window(4, 2_000), window(240, 120_000)).unwrap()
}

#[test]
fn configurations() {
    let mut failures = Failures::default();
    failures.round_trip("window", window(3, 1_500));
    failures
        .round_trip("longest window", WindowConfig::new(1, WindowConfig::MAX_INTERVAL).unwrap());
    for scale in 0..=HistogramConfig::MAX_SCALE {
        failures.round_trip("histogram", histogram(scale));
    }
    failures.round_trip("node", node_config());
    failures.round_trip("node with histogram", node_config().with_histogram(histogram(5)));
    failures.round_trip("registry", RegistryConfig::default());
    let registry = RegistryConfig::default().node(node_config().with_histogram(histogram(3)));
    let registry = registry.max_resources(500).max_contexts(8).on_drop(OnDrop::Cancelled);
    failures.round_trip("registry with all", registry);
    failures.round_trip("resource", ResourceConfig::default());
    let resource = ResourceConfig::default().node(node_config().with_histogram(histogram(0)));
    let resource = resource.traffic_type(TrafficType::Outbound).on_drop(OnDrop::Exception);
    failures.round_trip("resource with all", resource);
    failures.round_trip("direction", TrafficType::Outbound);
    for on_drop in [OnDrop::Exception, OnDrop::Cancelled] {
        failures.round_trip("on drop", on_drop);
    }
    failures.round_trip("rate", Rate::new(3, Duration::from_secs(60)).unwrap());
    failures.round_trip("warm-up", WarmUpConfig::default());
    failures.round_trip("warm-up", WarmUpConfig::new(Duration::from_nanos(1), 2.5).unwrap());
    failures.round_trip("breaker", AdaptiveBreakerConfig::default());
    let breaker = AdaptiveBreakerConfig::default().window(window(60, 30_000)).k(1.1).unwrap();
    failures.round_trip("breaker with all", breaker.on_drop(OnDrop::Cancelled));
    failures.assert_none();
}

#[test]
fn circuit_breakers() {
    let mut failures = Failures::default();
    let default = CircuitConfig::default;
    failures.round_trip("default", default());
    failures.round_trip("resilience4j", CircuitConfig::resilience4j());
    failures.round_trip("polly", CircuitConfig::polly());
    failures.round_trip("last calls", default().last_calls(7).unwrap());
    failures.round_trip("no time-out", default().half_open_timeout(None).unwrap());
    failures.round_trip("without a ratio", default().no_exception_ratio());
    for ratio in [0.125, 0.3, 1.0] {
        for ratio in [RatioLimit::at_least(ratio), RatioLimit::above(ratio * 0.5)] {
            let ratio = ratio.unwrap();
            failures.round_trip("ratio", default().exception_ratio(ratio));
            failures.round_trip("slow", default().slow_ratio(ratio, Duration::from_millis(1_500)));
        }
    }
    let wait = Wait::new(Duration::from_secs(1)).growing(2.0, Duration::from_secs(60)).unwrap();
    let all = default().exceptions(30).consecutive_exceptions(6).probes(5).unwrap();
    failures
        .round_trip("all", all.wait(wait.with_jitter(0.25).unwrap()).on_drop(OnDrop::Cancelled));
    failures.assert_none();
}

/// As in the guide's chapter on configuration.
#[test]
fn texts_of_a_person() {
    let ratio = RatioLimit::above(0.3).unwrap();
    let circuit = CircuitConfig::default().exception_ratio(ratio).last_calls(100).unwrap();
    let circuit = circuit.slow_ratio(RatioLimit::at_least(1.0).unwrap(), Duration::from_secs(2));
    let texts = [
        r#"{ "last_calls": 100, "exception_ratio": { "above": 0.3 },
            "slow": { "ratio": { "at_least": 1 }, "slow_above": "2s" } }"#,
        "last_calls = 100\nexception_ratio = { above = 0.3 }\n\
         slow = { ratio = { at_least = 1 }, slow_above = \"2s\" }",
        "last_calls: 100\nexception_ratio: { above: 0.3 }\n\
         slow:\n  ratio:\n    at_least: 1\n  slow_above: 2s\n",
        r#"(last_calls: Some(100), exception_ratio: (above: 0.3),
            slow: Some((ratio: (at_least: 1), slow_above: "2s")))"#,
    ];
    assert_eq!(read_all(texts), Ok([circuit; 5]));

    let without = CircuitConfig::default().no_exception_ratio();
    let texts = [
        r#"{ "exception_ratio": "none" }"#,
        "exception_ratio = \"none\"",
        "exception_ratio: none",
        r#"(exception_ratio: "none")"#,
    ];
    assert_eq!(read_all(texts), Ok([without; 5]));

    let node = NodeConfig::default().with_histogram(histogram(5));
    let texts = [
        r#"{ "histogram": { "relative_error": 0.02 } }"#,
        "histogram = { relative_error = 0.02 }",
        "histogram: { relative_error: 0.02 }",
        "(histogram: Some((relative_error: Some(0.02))))",
    ];
    assert_eq!(read_all(texts), Ok([node; 5]));
}

/// As a generator of files writes a field without a value. TOML has no such value.
#[test]
fn field_without_a_value_is_as_one_that_is_left_out() {
    let texts = [
        r#"{ "scale": 5, "relative_error": null }"#,
        "scale = 5",
        "scale: 5\nrelative_error: ~",
        "(scale: Some(5), relative_error: None)",
    ];
    assert_eq!(read_all(texts), Ok([histogram(5); 5]));
    let texts = [
        r#"{ "relative_error": 0.02, "scale": null }"#,
        "relative_error = 0.02",
        "relative_error: 0.02\nscale: null",
        "(relative_error: Some(0.02), scale: None)",
    ];
    assert_eq!(read_all(texts), Ok([histogram(5); 5]));
    let error = serde_json::from_str::<HistogramConfig>(r#"{ "scale": null }"#).unwrap_err();
    assert!(error.to_string().contains("needs `scale` or `relative_error`"), "{error}");
}

/// A time of day whose number of nanoseconds is above 2⁵³, and odd.
const TODAY: Timestamp = Timestamp::from_nanos(1_795_760_020_619_000_001);

/// A node with requests of each end, and the clock after them.
fn node(config: NodeConfig) -> ResourceNode<ManualClock> {
    let clock = ManualClock::new(TODAY);
    let node = ResourceNode::with_clock(config, clock.clone());
    let entries = [(); 4].map(|()| node.enter());
    node.block();
    let _ = node.reserve_next_at(node.clock().now(), 1, 10);
    for (number, entry) in entries.into_iter().enumerate() {
        clock.advance(Duration::from_nanos(7_000_001));
        match number {
            0 => entry.exception(),
            1 => entry.cancel(),
            _ => entry.success(),
        }
    }
    node
}

/// Totals whose sum of response times is above `u64::MAX` nanoseconds.
fn large_totals() -> MetricTotals {
    let bucket = MetricBucket::default();
    bucket.record_rt(Duration::MAX);
    let mut totals = MetricTotals::default();
    (0..8).for_each(|_| totals += &bucket.total());
    totals
}

#[test]
fn plain_data() {
    let mut failures = Failures::default();
    for time in [Timestamp::MIN, TODAY, Timestamp::MAX] {
        failures.round_trip("time", time);
    }
    failures.round_trip("no totals", MetricTotals::default());
    failures.round_trip("large totals", large_totals());
    let bucket = MetricBucket::default();
    for (count, event) in (1..).zip(MetricEvent::ALL) {
        bucket.add(*event, count);
    }
    failures.round_trip("totals", bucket.total());
    failures.round_trip("no window", WindowSnapshot::default());
    for config in [node_config(), node_config().with_histogram(histogram(4))] {
        failures.round_trip(
            "new node",
            ResourceNode::with_clock(config, ManualClock::new(TODAY)).now().snapshot(),
        );
        let node = node(config);
        node.clock().advance(Duration::from_secs(1));
        failures.round_trip("node", node.now().snapshot());
        failures.round_trip("ledger", node.now().long().ledger());
        failures.round_trip("refusals", node.refusals());
        for second in node.now().poll_seconds(&SecondsCursor::new()) {
            failures.round_trip("second", second);
        }
        if let Some(summary) = node.now().snapshot().long.quantiles {
            failures.round_trip("quantiles", summary);
        }
    }
    failures.round_trip("second without response times", SecondMetrics::new(TODAY));
    let mut empty = LatencyHistogram::default();
    failures.round_trip("empty histogram", empty.clone());
    for rt in [Duration::ZERO, Duration::from_micros(3), Duration::from_secs(60), Duration::MAX] {
        empty.record(rt);
    }
    failures.round_trip("histogram", empty.downscaled(-3).unwrap());
    failures.round_trip("histogram", empty);
    let buckets = SlidingWindow::with_clock(window(10, 1_000), ManualClock::new(TODAY));
    buckets.add(MetricEvent::Pass, 3);
    buckets.record_success(Duration::from_millis(3));
    failures.round_trip("buckets", buckets.now().buckets().collect::<Vec<_>>());
    failures.round_trip("sum", Sum { sum: i64::MIN, count: 3 });
    failures.round_trip("sum", Sum { sum: 0.1, count: 3 });
    failures.assert_none();
}

#[test]
fn registries() {
    let mut failures = Failures::default();
    for config in [
        RegistryConfig::default(),
        RegistryConfig::default().node(NodeConfig::default().with_histogram(histogram(4))),
    ] {
        let clock = ManualClock::new(TODAY);
        let registry = Registry::with_clock(config, clock.clone());
        let orders = registry.resource("GET /orders/\"{id}\": 1\n".trim_end()).unwrap();
        for resource in
            [&orders, &orders.in_context("null").unwrap(), &registry.resource("~").unwrap()]
        {
            resource.enter().success();
            resource.block();
        }
        registry.resource_with("0.5", TrafficType::Outbound).unwrap().enter().exception();
        clock.advance(Duration::from_secs(1));
        failures.round_trip("registry", registry.now().snapshot());
        failures.round_trip("seconds", registry.now().poll_seconds(&RegistryCursor::new()));
    }
    failures.round_trip("no registry", RegistrySnapshot::default());
    failures.assert_none();
}
