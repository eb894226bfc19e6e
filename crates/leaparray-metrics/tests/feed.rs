//! A registry that feeds a recorder.
#![expect(clippy::float_cmp, reason = "the numbers are counts")]

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaparray::flow::{LimiterExt, Rate, TokenBucket};
use leaparray::node::ResponseClass;
use leaparray::{
    Clock, Entry, HistogramConfig, ManualClock, MetricEvent, NodeConfig, Registry, RegistryConfig,
    Timestamp, TrafficType,
};
use leaparray_metrics::RegistryFeed;
use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit, with_local_recorder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

type Manual = Registry<ManualClock>;

fn registry() -> Arc<Manual> {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let config = RegistryConfig::default().node(node);
    Arc::new(Registry::with_clock(config, ManualClock::new(Timestamp::from_secs(3_600))))
}

/// The metrics of one snapshot, which resets counters and histograms.
#[derive(Debug, Default)]
struct Recorded {
    /// By name and labels.
    numbers: HashMap<String, f64>,
    values: HashMap<String, Vec<f64>>,
}

/// Publishes once to a new recorder, so that it takes only what this publication feeds.
fn publish(feed: &RegistryFeed<ManualClock>) -> Recorded {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    with_local_recorder(&recorder, || feed.publish());
    let mut taken = Recorded::default();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let (_, key) = key.into_parts();
        let labels: Vec<_> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        match value {
            DebugValue::Counter(count) => {
                taken.numbers.insert(name, f64::from(u32::try_from(count).unwrap()));
            }
            DebugValue::Gauge(value) => {
                taken.numbers.insert(name, value.into_inner());
            }
            DebugValue::Histogram(values) => {
                taken.values.insert(name, values.into_iter().map(Into::into).collect());
            }
        }
    }
    taken
}

#[test]
fn publication_feeds_what_is_new() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let orders = registry.resource("orders").unwrap();
    for _ in 0..3 {
        orders.enter().success();
    }
    let in_flight = orders.enter();
    let first = publish(&feed).numbers;
    // All counters of a new resource, also the counters that are 0, and the requests in flight.
    assert_eq!(first.len(), MetricEvent::OF_PERMITS.len() + 1, "{first:?}");
    let number = |name: &str| first[&format!("leaparray_{name} orders  inbound")];
    assert_eq!((number("pass"), number("success"), number("exception")), (4.0, 3.0, 0.0));
    assert_eq!(number("in_flight"), 1.0);

    let second = publish(&feed).numbers;
    assert_eq!(second, HashMap::from([("leaparray_in_flight orders  inbound".to_owned(), 1.0)]));

    in_flight.exception();
    let third = publish(&feed).numbers;
    let expected = [
        ("leaparray_exception orders  inbound".to_owned(), 1.0),
        ("leaparray_in_flight orders  inbound".to_owned(), 0.0),
    ];
    assert_eq!(third, HashMap::from(expected));
}

#[test]
fn new_refusals_are_fed_by_limiter() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let orders = registry.resource("orders").unwrap();
    let refused = || {
        let numbers = publish(&feed).numbers;
        numbers.get("leaparray_refused_by orders  inbound clients").copied()
    };
    assert_eq!(refused(), None);
    let limiter = TokenBucket::new(Rate::per_minute(1).unwrap(), 0).named("clients");
    for expected in [2, 1] {
        (0..expected).for_each(|_| assert!(limiter.try_enter(&*orders).is_err()));
        assert_eq!(refused(), Some(f64::from(expected)));
    }
    assert_eq!(refused(), None);
}

#[test]
fn new_responses_are_fed_by_class() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let orders = registry.resource("orders").unwrap();
    let responses = || {
        let numbers = publish(&feed).numbers;
        let of = |class: &str| {
            numbers.get(&format!("leaparray_responses orders  inbound {class}")).copied()
        };
        ["1xx", "2xx", "3xx", "4xx", "5xx"].map(of)
    };
    assert_eq!(responses(), [None; 5]);
    for status in [200, 404, 404] {
        orders.count_response(ResponseClass::of_status(status));
    }
    assert_eq!(responses(), [0.0, 1.0, 0.0, 2.0, 0.0].map(Some));
    orders.count_response(ResponseClass::ClientError);
    assert_eq!(responses(), [None, None, None, Some(1.0), None]);
    assert_eq!(responses(), [None; 5]);
}

#[test]
fn contexts_and_directions_are_labels() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let database = registry.resource_with("database", TrafficType::Outbound).unwrap();
    database.in_context("web").unwrap().enter().success();
    let taken = publish(&feed).numbers;
    assert_eq!(taken["leaparray_success database web outbound"], 1.0);
    assert_eq!(taken["leaparray_success database  outbound"], 0.0);
}

#[test]
fn resource_that_is_listed_again_goes_on() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let exporter = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = exporter.handle();
    let enter_and_publish = |requests| {
        for _ in 0..requests {
            registry.resource("orders").unwrap().enter().success();
        }
        with_local_recorder(&exporter, || feed.publish());
    };
    enter_and_publish(5);
    registry.clock().advance(Duration::from_secs(3_600));
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::from_secs(60)), 1);
    enter_and_publish(2);
    let sample = r#"leaparray_success{resource="orders",context="",kind="inbound"} 7"#;
    assert!(handle.render().contains(sample), "{}", handle.render());
    // Also without a publication in between.
    registry.clock().advance(Duration::from_secs(3_600));
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::from_secs(60)), 1);
    with_local_recorder(&exporter, || feed.publish());
    enter_and_publish(1);
    assert!(handle.render().contains(&sample.replace(" 7", " 8")), "{}", handle.render());
}

#[test]
fn removed_resource_has_no_requests_in_flight() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let in_flight = "leaparray_in_flight orders  inbound";
    let orders = registry.resource("orders").unwrap();
    let entries = [orders.enter(), orders.enter()];
    assert_eq!(publish(&feed).numbers[in_flight], 2.0);
    // It is fed again, so that an exporter with an idle time-out keeps it.
    assert_eq!(publish(&feed).numbers[in_flight], 2.0);
    registry.remove("orders");
    assert_eq!(publish(&feed).numbers[in_flight], 0.0);
    assert!(publish(&feed).numbers.is_empty());
    drop(entries);

    // A resource with the same name has the series now.
    let orders = registry.resource("orders").unwrap();
    let first = orders.enter();
    publish(&feed);
    registry.remove("orders");
    let again = registry.resource("orders").unwrap();
    let second = again.enter();
    assert_eq!(publish(&feed).numbers[in_flight], 1.0);
    drop((first, second));
}

/// The registry keeps one series of a resource that is not listed.
#[test]
fn series_that_the_registry_has_forgotten_has_no_requests_in_flight() {
    let config = RegistryConfig::default().max_resources(1);
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Arc::new(Registry::with_clock(config, clock));
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let entry = Entry::enter(registry.resource("orders").unwrap());
    let in_flight = "leaparray_in_flight orders  inbound";
    assert_eq!(publish(&feed).numbers[in_flight], 1.0);
    entry.success();
    assert!(registry.remove("orders"));
    registry.resource("users").unwrap().enter().success();
    assert!(registry.remove("users"));
    let taken = publish(&feed).numbers;
    assert_eq!(taken.get(in_flight), Some(&0.0), "{taken:?}");
    assert_eq!(taken["leaparray_success users  inbound"], 1.0);
    assert!(publish(&feed).numbers.is_empty());
}

/// A recorder that panics once, when a metric with this name is registered for the first time.
struct Panicking {
    inner: DebuggingRecorder,
    name: &'static str,
    has_panicked: AtomicBool,
}

impl Panicking {
    fn new(name: &'static str) -> Self {
        Self { inner: DebuggingRecorder::new(), name, has_panicked: AtomicBool::new(false) }
    }

    fn check(&self, key: &Key) {
        let fails = key.name() == self.name && !self.has_panicked.swap(true, Ordering::Relaxed);
        assert!(!fails, "the recorder fails");
    }
}

impl Recorder for Panicking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> metrics::Counter {
        self.check(key);
        self.inner.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> metrics::Gauge {
        self.check(key);
        self.inner.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> metrics::Histogram {
        self.inner.register_histogram(key, metadata)
    }
}

#[test]
fn no_count_is_fed_twice_if_a_recorder_panics() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let orders = registry.resource("orders").unwrap();
    for _ in 0..3 {
        orders.enter().success();
    }
    let recorder = Panicking::new("leaparray_success");
    let snapshotter = recorder.inner.snapshotter();
    let publication = || with_local_recorder(&recorder, || feed.publish());
    catch_unwind(AssertUnwindSafe(publication)).unwrap_err();
    publication();
    let snapshot = snapshotter.snapshot().into_vec();
    let pass = snapshot.iter().find(|(key, ..)| key.key().name() == "leaparray_pass").unwrap();
    assert_eq!(pass.3, DebugValue::Counter(3));
}

#[test]
fn recorder_that_panics_gets_the_other_series() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    for name in ["a", "b", "c"] {
        registry.resource(name).unwrap().enter().success();
    }
    let recorder = Panicking::new("leaparray_success");
    let snapshotter = recorder.inner.snapshotter();
    let publication = || with_local_recorder(&recorder, || feed.publish());
    catch_unwind(AssertUnwindSafe(publication)).unwrap_err();
    publication();
    let snapshot = snapshotter.snapshot().into_vec();
    let successes = snapshot.iter().filter(|(key, ..)| key.key().name() == "leaparray_success");
    let successes: Vec<_> = successes.map(|(.., value)| value).collect();
    assert_eq!(successes, [&DebugValue::Counter(1); 2]);
}

#[test]
fn last_counts_of_a_removed_resource_are_fed() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry)).response_times(true);
    let success = "leaparray_success orders  inbound";
    let succeed = |resource: &leaparray::Resource<ManualClock>| resource.enter().success();
    let orders = registry.resource("orders").unwrap();
    succeed(&orders);
    assert_eq!(publish(&feed).numbers[success], 1.0);
    succeed(&orders);
    assert!(registry.remove("orders"));
    succeed(&orders);
    let taken = publish(&feed);
    assert_eq!(taken.numbers[success], 2.0);
    assert_eq!(taken.values["leaparray_response_time_seconds orders  inbound"].len(), 2);
    // Through the handle, and through another resource of that name.
    succeed(&orders);
    succeed(&registry.resource("orders").unwrap());
    drop(orders);
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    assert_eq!(publish(&feed).numbers[success], 2.0);
    let taken = publish(&feed);
    assert!(taken.numbers.is_empty() && taken.values.is_empty(), "{taken:?}");
}

#[test]
fn requests_in_flight_are_right_after_a_recorder_has_panicked() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let entry = Entry::enter(registry.resource("orders").unwrap());
    let recorder = Panicking::new("leaparray_in_flight");
    recorder.has_panicked.store(true, Ordering::Relaxed);
    let publication = || with_local_recorder(&recorder, || feed.publish());
    publication();
    entry.success();
    assert!(registry.remove("orders"));
    recorder.has_panicked.store(false, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(publication)).unwrap_err();
    publication();
    let snapshot = recorder.inner.snapshotter().snapshot().into_vec();
    let gauge = snapshot.iter().find(|(key, ..)| key.key().name() == "leaparray_in_flight");
    assert_eq!(gauge.unwrap().3, DebugValue::Gauge(0.0.into()));
}

#[test]
fn response_times_are_fed_by_choice() {
    let registry = registry();
    let record = |millis| {
        let entry = Entry::enter(registry.resource("orders").unwrap());
        registry.clock().advance(Duration::from_millis(millis));
        entry.success();
    };
    let without = RegistryFeed::new(Arc::clone(&registry));
    let feed = RegistryFeed::new(Arc::clone(&registry)).response_times(true);
    for millis in [10, 10, 200] {
        record(millis);
    }
    let taken = publish(&without);
    assert!(taken.values.is_empty(), "{taken:?}");

    let error = HistogramConfig::default().relative_error();
    let assert_fed = |expected: &[f64]| {
        let mut taken = publish(&feed);
        let mut values =
            taken.values.remove("leaparray_response_time_seconds orders  inbound").unwrap();
        values.sort_by(f64::total_cmp);
        assert_eq!(values.len(), expected.len(), "{values:?}");
        for (value, expected) in values.iter().zip(expected) {
            assert!((value / expected - 1.0).abs() <= error, "{values:?}");
        }
    };
    assert_fed(&[0.01, 0.01, 0.2]);
    record(10);
    record(3_000);
    assert_fed(&[0.01, 3.0]);
    assert!(publish(&feed).values.is_empty());
}

#[test]
fn feed_that_is_made_again_feeds_no_count_twice() {
    let registry = registry();
    let exporter = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let record = |requests| {
        for _ in 0..requests {
            let entry = Entry::enter(registry.resource("orders").unwrap());
            registry.clock().advance(Duration::from_millis(10));
            entry.success();
        }
    };
    // Before the first feed: the first interval has not had them.
    record(1_000);
    for expected in [5, 10, 15] {
        let feed = RegistryFeed::new(Arc::clone(&registry)).response_times(true);
        record(5);
        for _ in 0..2 {
            with_local_recorder(&exporter, || feed.publish());
            let text = exporter.handle().render();
            let labels = r#"{resource="orders",context="",kind="inbound"}"#;
            for name in ["leaparray_success", "leaparray_response_time_seconds_count"] {
                let sample = format!("{name}{labels} {expected}\n");
                assert!(text.contains(&sample), "{sample}{text}");
            }
        }
    }
}

#[test]
fn response_times_of_each_geometry_are_fed_once() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry)).response_times(true);
    let record = |millis| {
        let entry = Entry::enter(registry.resource("orders").unwrap());
        registry.clock().advance(Duration::from_millis(millis));
        entry.success();
    };
    let with_scale = |scale| {
        let histogram = HistogramConfig::with_scale(scale).unwrap();
        registry.reconfigure(NodeConfig::default().with_histogram(histogram));
        histogram.relative_error()
    };
    // Scale 0 is the octaves. The fine scale is set again.
    for scale in [6, 0, 6] {
        let error = with_scale(scale);
        record(9);
        let values = publish(&feed).values;
        let values = &values["leaparray_response_time_seconds orders  inbound"];
        assert_eq!(values.len(), 1, "{values:?}");
        assert!((values[0] / 0.009 - 1.0).abs() <= error, "{values:?}");
    }
    registry.reconfigure(NodeConfig::default());
    record(9);
    assert!(publish(&feed).values.is_empty(), "of unknown length");
}

/// A rate begins with the second sample of a series, so the first response times must not be in the
/// first one.
#[test]
fn histogram_of_an_idle_resource_is_fed_as_empty() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry)).response_times(true);
    registry.resource("orders").unwrap();
    registry.resource_with("plain", NodeConfig::default()).unwrap();
    let builder = metrics_exporter_prometheus::PrometheusBuilder::new();
    let exporter = builder.set_buckets(&[0.1]).unwrap().build_recorder();
    with_local_recorder(&exporter, || feed.publish());
    let text = exporter.handle().render();
    let count = |name| {
        let labels = format!("{{resource=\"{name}\",context=\"\",kind=\"inbound\"}}");
        text.contains(&format!("leaparray_response_time_seconds_count{labels} 0\n"))
    };
    assert!(count("orders") && !count("plain"), "{text}");
    assert!(!publish(&feed).values.contains_key("leaparray_response_time_seconds orders  inbound"));
}

/// The middle of a bin stands for each of its response times, so the sums differ.
#[test]
fn lines_of_a_fed_histogram_are_those_of_one_of_the_exporter() {
    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry)).response_times(true);
    let bounds = [0.001, 0.01, 0.1, 1.0, 10.0];
    let builder = metrics_exporter_prometheus::PrometheusBuilder::new();
    let exporter =
        builder.set_buckets(&bounds).unwrap().with_recommended_naming(true).build_recorder();
    with_local_recorder(&exporter, || {
        let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound")];
        metrics::describe_counter!(
            "own_success",
            Unit::Count,
            "Permits of requests that succeeded"
        );
        metrics::describe_histogram!("own_response_time_seconds", Unit::Seconds, "Response times");
        let own = metrics::histogram!("own_response_time_seconds", &labels);
        for millis in [0, 2, 5, 5, 200, 5_000, 100_000] {
            let entry = Entry::enter(registry.resource("orders").unwrap());
            let rt = Duration::from_millis(millis);
            registry.clock().advance(rt);
            entry.success();
            own.record(rt);
            metrics::counter!("own_success", &labels).increment(1);
        }
        feed.publish();
    });
    let text = exporter.handle().render();
    let lines = |prefix: &str| {
        let names = ["success", "response_time_seconds"].map(|name| format!("{prefix}_{name}"));
        let lines = text.lines().filter(|line| names.iter().any(|name| line.contains(name)));
        let mut lines: Vec<_> = lines.map(|line| line.replace(prefix, "")).collect();
        lines.sort_unstable();
        lines.into_iter().partition(|line| line.starts_with("_response_time_seconds_sum"))
    };
    let [(own_sum, own), (our_sum, ours)]: [(Vec<String>, Vec<String>); 2] =
        ["own", "leaparray"].map(lines);
    assert_eq!((own.len(), own_sum.len(), our_sum.len()), (12, 1, 1), "{text}");
    assert_eq!(ours, own);
}

#[test]
fn watched_limiters_are_fed() {
    use leaparray::flow::{ConcurrencyLimiter, Keyed, LimiterExt, Rate, TokenBucket};

    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let limiter = Arc::new(ConcurrencyLimiter::new(3));
    registry.watch("jobs", Arc::clone(&limiter)).unwrap();
    let _held = limiter.try_acquire();
    let limit = TokenBucket::new(Rate::per_minute(1).unwrap(), 1);
    let clients = Arc::new(Keyed::<u64, _>::new(limit, 10).unwrap());
    let _ = [7, 8, 8, 8].map(|client| clients.try_acquire(&client));
    registry.watch("clients", clients).unwrap();
    let expected = [
        ("leaparray_limit jobs", 3.0),
        ("leaparray_limit_remaining jobs", 2.0),
        ("leaparray_limiter_keys clients", 2.0),
        ("leaparray_limiter_key_refusals clients 8", 2.0),
    ];
    let expected = HashMap::from(expected.map(|(name, value)| (name.to_owned(), value)));
    assert_eq!(publish(&feed).numbers, expected);
    assert!(registry.unwatch("clients") && registry.unwatch("jobs"));
    let gone = publish(&feed).numbers;
    assert!(gone.len() == 4 && gone.values().all(|value| *value == 0.0), "{gone:?}");
    assert!(publish(&feed).numbers.is_empty());
}

/// A count that grows is a counter, which is fed what is new: nothing from before the feed, and all
/// of another limiter that has its name later.
#[test]
fn counts_of_a_shadow_are_counters() {
    use leaparray::flow::shadow::{Mode, Shadow};
    use leaparray::flow::{ConcurrencyLimiter, LimiterExt};

    let registry = registry();
    let tried = || Arc::new(Shadow::new(ConcurrencyLimiter::new(0), Mode::Shadow));
    let ask = |tried: &Shadow<_>, times| {
        (0..times).for_each(|_| assert!(tried.try_acquire().is_admitted()));
    };
    let first = tried();
    registry.watch("tried", Arc::clone(&first)).unwrap();
    ask(&first, 7);
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let would_refuse = || publish(&feed).numbers["leaparray_shadow_would_refuse tried"];
    ask(&first, 2);
    assert_eq!(would_refuse(), 2.0);
    assert_eq!(would_refuse(), 0.0);
    ask(&first, 1);
    assert_eq!(would_refuse(), 1.0);
    registry.unwatch("tried");
    let second = tried();
    registry.watch("tried", Arc::clone(&second)).unwrap();
    ask(&second, 3);
    assert_eq!(would_refuse(), 3.0);
}

#[test]
fn gauges_that_are_gone_are_set_to_0_after_a_recorder_has_panicked() {
    use leaparray::flow::ConcurrencyLimiter;

    let registry = registry();
    let feed = RegistryFeed::new(Arc::clone(&registry));
    let limiter = Arc::new(ConcurrencyLimiter::new(3));
    registry.watch("jobs", Arc::clone(&limiter)).unwrap();
    publish(&feed);
    assert!(registry.unwatch("jobs"));
    registry.watch("clients", limiter).unwrap();
    let recorder = Panicking::new("leaparray_limit");
    let publication = || with_local_recorder(&recorder, || feed.publish());
    catch_unwind(AssertUnwindSafe(publication)).unwrap_err();
    let taken = publish(&feed).numbers;
    let limits = ["leaparray_limit jobs", "leaparray_limit clients"].map(|it| taken.get(it));
    assert_eq!(limits, [Some(&0.0), Some(&3.0)], "{taken:?}");
}

#[test]
fn metrics_are_described() {
    let registry = registry();
    registry.resource("orders").unwrap();
    let exporter = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    with_local_recorder(&exporter, || RegistryFeed::new(registry).publish());
    let text = exporter.handle().render();
    assert!(text.contains("# HELP leaparray_pass Permits of admitted requests"), "{text}");
}
