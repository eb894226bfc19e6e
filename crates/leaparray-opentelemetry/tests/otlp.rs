//! Messages of OTLP, encoded and decoded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use leaparray::flow::shadow::{Mode, Shadow};
use leaparray::flow::watch::{Watch, WatchedState};
use leaparray::flow::{
    ConcurrencyLimiter, FixedWindowLimiter, Keyed, LimiterExt, Rate, TokenBucket,
};
use leaparray::node::ResponseClass;
use leaparray::{
    Clock, Entry, HistogramConfig, ManualClock, NodeConfig, Registry, RegistryConfig, Timestamp,
    TrafficType,
};
use leaparray_opentelemetry::OtlpSource;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogramDataPoint, Metric, NumberDataPoint,
};
use prost::Message;

const ROUTE: &str = "GET /orders/{id}";

type Manual = Registry<ManualClock>;

fn registry() -> Arc<Manual> {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let config = RegistryConfig::default().node(node);
    Arc::new(Registry::with_clock(config, ManualClock::new(Timestamp::from_secs(3_600))))
}

fn succeed(registry: &Manual, name: &str, millis: u64) {
    let entry = Entry::enter(registry.resource(name).unwrap());
    registry.clock().advance(Duration::from_millis(millis));
    entry.success();
}

/// Returns the time `secs` seconds after the epoch.
fn time(secs: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
}

/// Returns the metrics of a message that was encoded and decoded, by their names.
fn metrics(source: &OtlpSource<ManualClock>, secs: u64) -> BTreeMap<String, Metric> {
    let bytes = source.request_at(time(secs)).encode_to_vec();
    let request = ExportMetricsServiceRequest::decode(&bytes[..]).unwrap();
    let metrics = request.resource_metrics[0].scope_metrics[0].metrics.iter();
    metrics.map(|metric| (metric.name.clone(), metric.clone())).collect()
}

fn texts(attributes: &[KeyValue]) -> Vec<(&str, &str)> {
    let pairs = attributes.iter().map(|attribute| {
        let value = attribute.value.as_ref().unwrap().value.as_ref().unwrap();
        let Value::StringValue(text) = value else { panic!("{value:?}") };
        (attribute.key.as_str(), text.as_str())
    });
    pairs.collect()
}

/// Returns the points of a sum, which is cumulative.
fn points(metric: &Metric, is_monotonic: bool) -> &[NumberDataPoint] {
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    assert_eq!(sum.is_monotonic, is_monotonic);
    assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative);
    &sum.data_points
}

fn number(point: &NumberDataPoint) -> i64 {
    let Some(Number::AsInt(number)) = point.value else { panic!("{point:?}") };
    number
}

fn histograms<'a>(
    metrics: &'a BTreeMap<String, Metric>,
    name: &str,
) -> &'a [ExponentialHistogramDataPoint] {
    let Some(Data::ExponentialHistogram(histogram)) = &metrics[name].data else { panic!("{name}") };
    assert_eq!(histogram.aggregation_temporality(), AggregationTemporality::Cumulative);
    &histogram.data_points
}

fn histogram<'a>(
    metrics: &'a BTreeMap<String, Metric>,
    name: &str,
) -> &'a ExponentialHistogramDataPoint {
    &histograms(metrics, name)[0]
}

#[test]
fn counters_are_lifetime_totals() {
    let registry = registry();
    let source = OtlpSource::new(Arc::clone(&registry));
    for _ in 0..3 {
        succeed(&registry, ROUTE, 10);
    }
    let route = registry.resource(ROUTE).unwrap();
    route.enter().exception();
    let in_flight = route.enter();
    registry.clock().advance(Duration::from_secs(3_600));
    let metrics = metrics(&source, 7_300);
    for (name, expected) in [("pass", 5), ("success", 3), ("exception", 1), ("cancelled", 0)] {
        let metric = &metrics[&format!("leaparray.{name}")];
        let [point] = points(metric, true) else { panic!("{metric:?}") };
        assert_eq!(number(point), expected, "{name}");
        assert_eq!(
            (point.start_time_unix_nano, point.time_unix_nano),
            (3_600_000_000_000, 7_300_000_000_000)
        );
        assert_eq!(metric.unit, "{permit}");
        let expected = [
            ("http.request.method", "GET"),
            ("http.route", "/orders/{id}"),
            ("leaparray.kind", "inbound"),
        ];
        assert_eq!(texts(&point.attributes), expected);
    }
    let [point] = points(&metrics["http.server.active_requests"], false) else { panic!() };
    assert_eq!(number(point), 1);
    in_flight.success();
}

#[test]
fn exponential_histograms_have_the_bins() {
    let registry = registry();
    for millis in [1, 1, 2, 3, 50, 51, 52, 1_000, 60_000] {
        succeed(&registry, ROUTE, millis);
    }
    let source = OtlpSource::new(Arc::clone(&registry));
    let metrics = metrics(&source, 4_000);
    assert_eq!(metrics["http.server.request.duration"].unit, "s");
    let point = histogram(&metrics, "http.server.request.duration");
    let expected = registry.get(ROUTE).unwrap().lifetime_histogram().unwrap();
    assert_eq!((point.scale, point.count), (expected.scale().into(), expected.count()));
    assert_eq!((point.min, point.max), (Some(0.001), Some(60.0)));
    assert_eq!(point.sum, Some(expected.sum().as_secs_f64()));
    assert_eq!((point.zero_count, &point.negative), (0, &None));
    let positive = point.positive.as_ref().unwrap();
    let buckets = (positive.offset..).zip(&positive.bucket_counts);
    let buckets: Vec<_> = buckets.filter(|&(_, &count)| count > 0).collect();
    let bins: Vec<_> = expected.buckets().map(|bin| (bin.index, bin.count)).collect();
    assert_eq!(buckets, bins.iter().map(|(index, count)| (*index, count)).collect::<Vec<_>>());
    assert!(positive.bucket_counts.first() > Some(&0) && positive.bucket_counts.last() > Some(&0));
}

/// Returns the index of the bucket of a response time by the formula of the data model: ⌈2^scale ·
/// log₂(value)⌉ − 1.
#[expect(clippy::cast_possible_truncation, reason = "the indices are small")]
fn index(secs: f64, scale: i32) -> i32 {
    (secs.log2() * f64::from(scale).exp2()).ceil() as i32 - 1
}

#[test]
fn indices_are_those_of_the_data_model() {
    let registry = registry();
    let source = OtlpSource::new(Arc::clone(&registry));
    let mut expected = BTreeMap::new();
    for millis in (1..2_000).step_by(7) {
        succeed(&registry, ROUTE, millis);
        let secs = f64::from(u32::try_from(millis).unwrap()) / 1e3;
        *expected.entry(index(secs, 4)).or_insert(0_u64) += 1;
    }
    let metrics = metrics(&source, 4_000);
    let positive = &histogram(&metrics, "http.server.request.duration").positive;
    let positive = positive.as_ref().unwrap();
    let buckets = (positive.offset..).zip(positive.bucket_counts.iter().copied());
    let buckets: BTreeMap<_, _> = buckets.filter(|&(_, count)| count > 0).collect();
    assert_eq!(buckets, expected);
}

#[test]
fn response_time_of_zero_is_in_the_zero_bucket() {
    let registry = registry();
    let source = OtlpSource::new(Arc::clone(&registry));
    succeed(&registry, ROUTE, 0);
    succeed(&registry, ROUTE, 1_000);
    let metrics = metrics(&source, 4_000);
    let point = histogram(&metrics, "http.server.request.duration");
    assert_eq!((point.count, point.zero_count, point.min), (2, 1, Some(0.0)));
    assert!(point.zero_threshold.abs() < f64::MIN_POSITIVE, "without a width");
    // A bucket of the data model has its upper bound: a second is the upper bound of the bucket −1.
    let positive = point.positive.as_ref().unwrap();
    assert_eq!((positive.offset, &positive.bucket_counts[..]), (-1, &[1][..]));
}

#[test]
fn times_of_messages_ascend_if_the_clock_is_set_back() {
    let registry = registry();
    registry.resource(ROUTE).unwrap();
    let source = OtlpSource::new(Arc::clone(&registry));
    let times = [4_020, 4_015, 4_015, 4_030].map(|secs| {
        let metrics = metrics(&source, secs);
        points(&metrics["leaparray.success"], true)[0].time_unix_nano
    });
    let second = 1_000_000_000;
    assert_eq!(times, [4_020 * second, 4_020 * second + 1, 4_020 * second + 2, 4_030 * second]);
}

#[test]
fn resource_that_is_listed_again_continues_its_points() {
    let registry = registry();
    let source = OtlpSource::new(Arc::clone(&registry));
    let point = |secs| {
        let metrics = metrics(&source, secs);
        let metric = metrics.get("leaparray.success")?;
        let [point] = points(metric, true) else { panic!("{metric:?}") };
        Some((number(point), point.start_time_unix_nano / 1_000_000_000))
    };
    succeed(&registry, ROUTE, 10);
    assert_eq!(point(3_610), Some((1, 3_600)));
    succeed(&registry, ROUTE, 10);
    assert_eq!(point(3_620), Some((2, 3_600)));
    registry.clock().advance(Duration::from_secs(3_600));
    registry.evict_idle_at(registry.clock().now(), Duration::from_secs(60));
    assert_eq!(point(7_210), None);
    succeed(&registry, ROUTE, 10);
    assert_eq!(point(7_230), Some((3, 3_600)));
    // Before the next message.
    succeed(&registry, ROUTE, 10);
    assert!(registry.remove(ROUTE));
    assert_eq!(point(7_240), Some((4, 3_600)), "once more");
    assert_eq!(point(7_250), None);
}

#[test]
fn series_that_was_forgotten_has_a_new_start() {
    let config = RegistryConfig::default().max_resources(1);
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Arc::new(Registry::with_clock(config, clock));
    let source = OtlpSource::new(Arc::clone(&registry));
    let point = |secs| {
        let metrics = metrics(&source, secs);
        let [point] = points(&metrics["leaparray.success"], true) else { panic!("{metrics:?}") };
        (number(point), point.start_time_unix_nano / 1_000_000_000)
    };
    succeed(&registry, ROUTE, 10);
    assert_eq!(point(3_610), (1, 3_600));
    assert!(registry.remove(ROUTE));
    succeed(&registry, "jobs", 10);
    assert!(registry.remove("jobs"));
    // The clock of the messages is ahead of the registry's.
    assert_eq!(point(7_210), (1, 3_610), "the jobs");
    succeed(&registry, ROUTE, 10);
    assert_eq!(point(7_230), (1, 7_210), "not before the last message");
    assert_eq!(point(7_220), (1, 7_210), "the clock was set back");
}

#[test]
fn source_that_is_made_again_goes_on() {
    let registry = registry();
    let make = || OtlpSource::new(Arc::clone(&registry));
    let point = |source: &OtlpSource<ManualClock>, secs| {
        let metrics = metrics(source, secs);
        let [point] = points(&metrics["leaparray.success"], true) else { panic!("{metrics:?}") };
        let histogram = histogram(&metrics, "http.server.request.duration");
        assert_eq!(histogram.start_time_unix_nano, point.start_time_unix_nano);
        (number(point), point.start_time_unix_nano / 1_000_000_000)
    };
    let first = make();
    (0..1_000).for_each(|_| succeed(&registry, ROUTE, 10));
    assert_eq!(point(&first, 4_000), (1_000, 3_600));
    // A thousand requests since this source was made would be wrong.
    let second = make();
    assert_eq!([&first, &second].map(|source| point(source, 4_001)), [(1_000, 3_600); 2]);
    succeed(&registry, ROUTE, 10);
    assert_eq!([&first, &second].map(|source| point(source, 4_002)), [(1_001, 3_600); 2]);
    registry.clock().set(Timestamp::from_secs(4_010));
    assert!(registry.remove(ROUTE));
    succeed(&registry, ROUTE, 10);
    assert_eq!([&first, &second, &make()].map(|it| point(it, 4_020)), [(1_002, 3_600); 3]);
}

#[test]
fn names_follow_the_kind_of_the_resource() {
    let registry = registry();
    registry.resource_with("POST /pay", TrafficType::Outbound).unwrap().enter().success();
    let jobs = registry.resource("jobs").unwrap().in_context("night").unwrap();
    jobs.enter().success();
    let source = OtlpSource::new(Arc::clone(&registry)).attribute("service.name", "shop");
    let request = source.request_at(time(4_000));
    let service = request.resource_metrics[0].resource.as_ref().unwrap();
    assert_eq!(texts(&service.attributes), [("service.name", "shop")]);

    let metrics = metrics(&source, 4_000);
    assert!(metrics.contains_key("http.client.request.duration"));
    assert!(metrics.contains_key("http.client.active_requests"));
    assert!(!metrics.contains_key("http.server.active_requests"));
    let of_jobs = points(&metrics["leaparray.in_flight"], false);
    let [resource, context] = of_jobs else { panic!("{of_jobs:?}") };
    let expected = [
        ("leaparray.resource", "jobs"),
        ("leaparray.context", "night"),
        ("leaparray.kind", "inbound"),
    ];
    assert_eq!(texts(&context.attributes), expected);
    assert_eq!(texts(&resource.attributes), [expected[0], expected[2]]);
    let counts = histograms(&metrics, "leaparray.response_time").iter().map(|it| it.count);
    assert_eq!(counts.collect::<Vec<_>>(), [0, 1]);
}

/// A limiter that asks for a message while it is read for another one.
#[test]
fn limiters_are_read_without_the_lock() {
    struct Asks(Weak<OtlpSource<ManualClock>>, AtomicBool);

    impl Watch for Asks {
        fn watched(&self) -> Option<WatchedState> {
            if !self.1.swap(true, Ordering::Relaxed) {
                let _ = self.0.upgrade()?.request();
            }
            Some(WatchedState::Nothing)
        }
    }

    let registry = registry();
    let source = Arc::new(OtlpSource::new(Arc::clone(&registry)));
    let asks = Asks(Arc::downgrade(&source), AtomicBool::new(false));
    registry.watch("asks", asks).unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(source.request()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("it waits for itself");
}

#[test]
fn refusals_have_the_name_of_the_limiter() {
    let registry = registry();
    let source = OtlpSource::new(Arc::clone(&registry));
    let orders = registry.resource("orders").unwrap();
    assert!(!metrics(&source, 4_000).contains_key("leaparray.refused_by"));
    let clients = TokenBucket::new(Rate::per_minute(1).unwrap(), 0).named("clients");
    assert!(clients.try_enter(&*orders).is_err());
    let metrics = metrics(&source, 4_001);
    let points = points(&metrics["leaparray.refused_by"], true).iter();
    let points = points.map(|it| (texts(&it.attributes).last().unwrap().1, number(it)));
    assert!(points.eq([("clients", 1)]), "{metrics:?}");
}

#[test]
fn responses_have_their_class_as_code() {
    let registry = registry();
    let source = OtlpSource::new(Arc::clone(&registry));
    registry.resource("jobs").unwrap().enter().success();
    assert!(!metrics(&source, 4_000).contains_key("leaparray.responses"));
    for status in [200, 404, 404] {
        let class = ResponseClass::of_status(status);
        registry.resource("orders").unwrap().count_response(class);
    }
    let metrics = metrics(&source, 4_001);
    let points = points(&metrics["leaparray.responses"], true).iter();
    let points = points.map(|it| (texts(&it.attributes).last().unwrap().1, number(it)));
    let expected = [("1xx", 0), ("2xx", 1), ("3xx", 0), ("4xx", 2), ("5xx", 0)];
    assert!(points.eq(expected), "{metrics:?}");
}

#[test]
fn watched_limiters_have_gauges_and_counters() {
    let registry = registry();
    let source = OtlpSource::new(Arc::clone(&registry));
    registry.watch("jobs", Arc::new(ConcurrencyLimiter::new(3))).unwrap();
    let limit = TokenBucket::new(Rate::per_minute(1).unwrap(), 1);
    let clients = Arc::new(Keyed::<u64, _>::new(limit, 10).unwrap());
    let _ = [7, 8, 8, 8].map(|client| clients.try_acquire(&client));
    registry.watch("clients", clients).unwrap();
    let tried = Shadow::new(
        Arc::new(FixedWindowLimiter::new(Duration::from_secs(1), 0).unwrap()),
        Mode::Shadow,
    );
    assert!(tried.try_acquire().is_admitted());
    registry.watch("tried", tried.rollout().clone()).unwrap();
    let metrics = metrics(&source, 4_000);
    let point = |name: &str| {
        let Some(Data::Gauge(gauge)) = &metrics[name].data else { panic!("{metrics:?}") };
        let [point] = &gauge.data_points[..] else { panic!("{gauge:?}") };
        let Some(Number::AsDouble(value)) = point.value else { panic!("{point:?}") };
        (texts(&point.attributes).into_iter().map(|it| it.1).collect::<Vec<_>>(), value)
    };
    assert_eq!(point("leaparray.limit"), (vec!["jobs"], 3.0));
    assert_eq!(point("leaparray.limit_remaining"), (vec!["jobs"], 3.0));
    assert_eq!(point("leaparray.limiter_keys"), (vec!["clients"], 2.0));
    assert_eq!(point("leaparray.limiter_key_refusals"), (vec!["clients", "8"], 2.0));
    let [would_refuse] = points(&metrics["leaparray.shadow_would_refuse"], true) else {
        panic!("{metrics:?}")
    };
    assert_eq!((texts(&would_refuse.attributes)[0].1, number(would_refuse)), ("tried", 1));
    assert!(!metrics.contains_key("leaparray.circuit_state"));
}
