//! The exposition beside the lines that each client crate writes for metrics of its own with the
//! same values.

use std::sync::Arc;
use std::time::Duration;

use leaparray_prometheus::RegistryCollector;
use prometheus_client::encoding::{prometheus_protobuf, prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::{Collector, registry, succeed};

/// The response times of `orders`; `idle` has none. They are far from the bounds of the buckets.
const MILLIS: [u64; 7] = [0, 2, 5, 5, 200, 5_000, 100_000];
const BOUNDS: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
];
const NAMES: [&str; 3] = ["resource", "context", "kind"];

/// The labels of a resource.
fn labels(resource: &'static str) -> [(&'static str, &'static str); 3] {
    [("resource", resource), ("context", ""), ("kind", "inbound")]
}

fn bounds() -> [f64; BOUNDS.len()] {
    BOUNDS.map(|bound| bound.as_secs_f64())
}

fn seconds() -> impl Iterator<Item = f64> {
    MILLIS.into_iter().map(|millis| Duration::from_millis(millis).as_secs_f64())
}

/// Returns a collector of `orders` and `idle`.
fn collector() -> Collector {
    let registry = registry();
    for millis in MILLIS {
        succeed(&registry, "orders", millis);
    }
    registry.resource("idle").unwrap();
    RegistryCollector::new(registry).buckets(BOUNDS)
}

/// Returns the registry of `prometheus-client` with these resources, and with metrics of its own
/// that have the same values.
fn client() -> prometheus_client::registry::Registry {
    type Labels = [(&'static str, &'static str); 3];
    let histogram = Family::<Labels, Histogram, fn() -> Histogram>::new_with_constructor(|| {
        Histogram::new(bounds())
    });
    let success = Family::<Labels, Counter>::default();
    let in_flight = Family::<Labels, Gauge<f64, std::sync::atomic::AtomicU64>>::default();
    for resource in ["orders", "idle"] {
        let labels = labels(resource);
        let (histogram, success) =
            (histogram.get_or_create_owned(&labels), success.get_or_create_owned(&labels));
        in_flight.get_or_create_owned(&labels);
        for rt in seconds().filter(|_| resource == "orders") {
            histogram.observe(rt);
            success.inc();
        }
    }
    let mut client = prometheus_client::registry::Registry::default();
    client.register_collector(Box::new(Arc::new(collector())));
    // The client ends these texts with a point.
    client.register("own_response_time_seconds", "Response times", histogram);
    client.register("own_success", "Permits of requests that succeeded", success);
    client.register("own_in_flight", "Requests in flight", in_flight);
    client
}

/// Returns the lines about three families whose names begin with `prefix`, without this prefix, in
/// any order: the client's order of series is that of a hash map.
fn lines(text: &str, prefix: &str) -> Vec<String> {
    let families = ["response_time_seconds", "success", "in_flight"];
    let names = families.map(|family| format!("{prefix}_{family}"));
    let lines = text.lines().filter(|line| names.iter().any(|name| line.contains(name)));
    let lines = lines.map(|line| line.replace(prefix, "").trim_end_matches('.').to_owned());
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

#[track_caller]
fn assert_same_lines(text: &str) {
    let [own, ours] = ["own", "leaparray"].map(|prefix| lines(text, prefix));
    assert_eq!(own.len(), 2 * (BOUNDS.len() + 3 + 2) + 3 * 2, "{text}");
    assert_eq!(ours, own);
}

#[test]
fn lines_are_those_of_prometheus_client() {
    let client = client();
    let mut open_metrics = String::new();
    text::encode(&mut open_metrics, &client).unwrap();
    assert_same_lines(&open_metrics);
    let mut prometheus = String::new();
    prometheus_text::encode(&mut prometheus, &client).unwrap();
    assert_same_lines(&prometheus);
}

#[test]
fn lines_are_those_of_prometheus() {
    let exposed = prometheus::Registry::new();
    exposed.register(Box::new(collector())).unwrap();
    let options = |name, help| prometheus::Opts::new(name, help);
    let histogram = prometheus::HistogramOpts::new("own_response_time_seconds", "Response times");
    let histogram = histogram.buckets(bounds().to_vec());
    let histogram = prometheus::HistogramVec::new(histogram, &NAMES).unwrap();
    let success = options("own_success_total", "Permits of requests that succeeded");
    let success = prometheus::IntCounterVec::new(success, &NAMES).unwrap();
    let in_flight = options("own_in_flight", "Requests in flight");
    let in_flight = prometheus::GaugeVec::new(in_flight, &NAMES).unwrap();
    for resource in ["orders", "idle"] {
        let values = labels(resource).map(|(_, value)| value);
        let histogram = histogram.with_label_values(&values);
        let success = success.with_label_values(&values);
        in_flight.with_label_values(&values).set(0.0);
        for rt in seconds().filter(|_| resource == "orders") {
            histogram.observe(rt);
            success.inc();
        }
    }
    exposed.register(Box::new(histogram)).unwrap();
    exposed.register(Box::new(success)).unwrap();
    exposed.register(Box::new(in_flight)).unwrap();
    let text = prometheus::TextEncoder::new().encode_to_string(&exposed.gather()).unwrap();
    assert_same_lines(&text);
    assert!(text.contains(r#"le="+Inf"} 7"#) && !text.contains(r#"le="inf""#), "{text}");
}

#[test]
fn native_histogram_is_that_of_prometheus_client() {
    use prometheus_client::metrics::histogram::NativeHistogramConfig;

    let native = || {
        let native = NativeHistogramConfig::with_schema(4).zero_threshold(-1.0);
        Histogram::new_classic_and_native(bounds(), native)
    };
    let mut client = prometheus_client::registry::Registry::default();
    client.register_collector(Box::new(Arc::new(collector())));
    let own = Family::<[(&str, &str); 3], Histogram, _>::new_with_constructor(native);
    for resource in ["orders", "idle"] {
        let own = own.get_or_create_owned(&labels(resource));
        seconds().filter(|_| resource == "orders").for_each(|rt| own.observe(rt));
    }
    client.register("own_response_time_seconds", "Response times", own);
    let families = prometheus_protobuf::encode(&client).unwrap();
    let of = |prefix: &str| {
        let name = format!("{prefix}_response_time_seconds");
        let family = families.iter().find(|family| family.name == name).unwrap();
        let mut metrics = family.metric.clone();
        metrics.sort_by(|a, b| a.label[0].value.cmp(&b.label[0].value));
        for histogram in metrics.iter_mut().filter_map(|metric| metric.histogram.as_mut()) {
            // When it was created: this is not exposed.
            histogram.start_timestamp = None;
            if histogram.sample_count == 0 {
                // An empty bucket for the client's empty span, which older servers do not know.
                assert!(histogram.positive_delta.iter().all(|&delta| delta == 0));
                histogram.positive_delta.clear();
                histogram.positive_span[0].length = 0;
            }
        }
        (family.r#type, metrics)
    };
    assert_eq!(of("leaparray"), of("own"));
}
