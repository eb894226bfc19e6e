//! The output of the collector, read by the parser of another crate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::Reason;
use leaparray::{MetricEvent, TrafficType};
use leaparray_redis::FleetCollector;
use leaparray_redis::fleet::Budget;
use openmetrics_parser::OpenMetricsValue;
use openmetrics_parser::openmetrics::parse_openmetrics;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::simulated::{self, Process};

type Key = (String, BTreeMap<String, String>);

/// A fleet that is exposed.
struct Fleet {
    simulated: simulated::Fleet,
    metrics: Registry,
}

impl Fleet {
    fn new() -> Self {
        let simulated = simulated::Fleet::new();
        let mut metrics = Registry::default();
        metrics.register_collector(Box::new(FleetCollector::new(Arc::clone(&simulated.reader))));
        Self { simulated, metrics }
    }

    async fn join(&self, id: u64) -> Process {
        self.simulated.join(id, Budget::default()).await
    }

    async fn pass(&self, seconds: u64, processes: &mut [&mut Process]) {
        self.simulated.pass(seconds, processes).await;
    }

    async fn scrape(&self) -> BTreeMap<Key, f64> {
        self.simulated.reader.poll().await.unwrap();
        let mut body = String::new();
        text::encode(&mut body, &self.metrics).unwrap();
        if body == "# EOF\n" {
            return BTreeMap::new();
        }
        let read = parse_openmetrics(&body).unwrap_or_else(|error| panic!("{error}\n{body}"));
        let mut samples = BTreeMap::new();
        for family in read.families.values() {
            for sample in family.iter_samples() {
                let labels = sample.get_labelset().unwrap();
                let labels = labels.iter().map(|(name, value)| (name.clone(), value.to_owned()));
                let value = match &sample.value {
                    OpenMetricsValue::Counter(it) => it.value.as_f64(),
                    OpenMetricsValue::Gauge(it) => it.as_f64(),
                    other => panic!("{other:?}"),
                };
                let key = (family.family_name.clone(), labels.collect());
                assert_eq!(samples.insert(key, value), None, "{body}");
            }
        }
        samples
    }
}

#[track_caller]
fn value(samples: &BTreeMap<Key, f64>, family: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let key = (format!("leaparray_fleet_{family}"), labels.collect());
    *samples.get(&key).unwrap_or_else(|| panic!("{key:?}: {samples:#?}"))
}

#[tokio::test]
async fn nothing_is_exposed_before_the_first_final_second() {
    let fleet = Fleet::new();
    assert_eq!(fleet.scrape().await, BTreeMap::new());
    let mut process = fleet.join(1).await;
    for _ in 0..4 {
        assert_eq!(fleet.scrape().await, BTreeMap::new());
        fleet.pass(1, &mut [&mut process]).await;
    }
    fleet.pass(1, &mut [&mut process]).await;
    let samples = fleet.scrape().await;
    assert_eq!(value(&samples, "newest_final_timestamp_seconds", &[]), 3_602.0);
}

#[tokio::test]
async fn gauges_are_those_of_the_newest_final_second() {
    let fleet = Fleet::new();
    let mut processes = [fleet.join(1).await, fleet.join(2).await];
    let [one, two] = &mut processes;
    fleet.pass(6, &mut [one, two]).await;
    let orders = one.registry.resource("GET /orders").unwrap();
    let entry = orders.enter();
    fleet.simulated.clock.advance(Duration::from_millis(100));
    entry.success();
    orders.refuse(Reason::QueueFull);
    let of_two = two.registry.resource("GET /orders").unwrap();
    let in_flight = of_two.enter();
    two.registry
        .resource_with("payments \"eu\"", TrafficType::Outbound)
        .unwrap()
        .enter()
        .exception();
    fleet.simulated.clock.advance(Duration::from_millis(900));
    fleet.simulated.deliver(one).await;
    fleet.simulated.deliver(two).await;
    fleet.pass(2, &mut [one]).await;
    let samples = fleet.scrape().await;
    let orders = [("resource", "GET /orders"), ("context", ""), ("kind", "inbound")];
    let rate = |event| value(&samples, "rate", &[&orders[..], &[("event", event)]].concat());
    assert_eq!(["pass", "block", "success", "exception"].map(rate), [2.0, 1.0, 1.0, 0.0]);
    assert_eq!(value(&samples, "in_flight", &orders), 1.0);
    let p99 = [&orders[..], &[("quantile", "0.99")]].concat();
    assert!((value(&samples, "response_time_seconds", &p99) / 0.1 - 1.0).abs() < 0.04);
    assert_eq!(value(&samples, "response_time_mean_seconds", &orders), 0.1);
    let refused =
        |reason| value(&samples, "refusals", &[&orders[..], &[("reason", reason)]].concat());
    assert_eq!(["queue_full", "limit_reached", "custom"].map(refused), [1.0, 0.0, 0.0]);
    let payments = [
        ("resource", "payments \"eu\""),
        ("context", ""),
        ("kind", "outbound"),
        ("event", "exception"),
    ];
    assert_eq!(value(&samples, "rate", &payments), 1.0);
    let of_second = |state| value(&samples, "second_processes", &[("state", state)]);
    assert_eq!(["present", "expected"].map(of_second), [2.0, 2.0]);
    assert_eq!(value(&samples, "newest_final_timestamp_seconds", &[]), 3_606.0);
    assert_eq!(value(&samples, "connected", &[]), 1.0);
    assert_eq!(value(&samples, "left_out_rows", &[]), 0.0);
    drop(in_flight);
    // The second process is lost.
    fleet.pass(4, &mut [one]).await;
    let samples = fleet.scrape().await;
    let of_second = |state| value(&samples, "second_processes", &[("state", state)]);
    assert_eq!(["present", "expected"].map(of_second), [1.0, 2.0]);
    let states = |state| value(&samples, "processes", &[("state", state)]);
    assert_eq!(["live", "lost", "left"].map(states), [1.0, 1.0, 0.0]);
    one.outbox.leave();
    fleet.pass(1, &mut [one]).await;
    let samples = fleet.scrape().await;
    assert_eq!(value(&samples, "processes", &[("state", "left")]), 1.0);
}

#[tokio::test]
async fn counters_keep_what_an_expired_process_has_recorded() {
    let fleet = Fleet::new();
    let mut short = fleet.join(1).await;
    let mut long = fleet.join(2).await;
    fleet.pass(5, &mut [&mut short, &mut long]).await;
    let work = |process: &Process, count| {
        let orders = process.registry.resource("orders").unwrap();
        (0..count).for_each(|_| orders.enter().success());
    };
    work(&short, 3);
    work(&long, 4);
    short.outbox.leave();
    fleet.pass(1, &mut [&mut short, &mut long]).await;
    let samples = fleet.scrape().await;
    let pass = [("event", "pass")];
    assert_eq!(value(&samples, "lifetime", &pass), 7.0);
    assert_eq!(value(&samples, "delivered_seconds", &[]), 12.0);
    // Ten minutes later, only one record is left.
    for _ in 0..610 {
        fleet.pass(1, &mut [&mut long]).await;
    }
    work(&long, 1);
    fleet.pass(3, &mut [&mut long]).await;
    let samples = fleet.scrape().await;
    assert_eq!(fleet.simulated.reader.with(|view| view.sum().lifetime[MetricEvent::Pass]), 5);
    assert_eq!(value(&samples, "lifetime", &pass), 8.0);
    assert_eq!(value(&samples, "processes", &[("state", "left")]), 0.0);
    assert_eq!(fleet.scrape().await, samples, "nothing is added twice");
}

#[tokio::test]
async fn missed_seconds_and_late_counts_are_counters() {
    let fleet = Fleet::new();
    let mut process = fleet.join(1).await;
    fleet.pass(6, &mut [&mut process]).await;
    process.registry.resource("orders").unwrap().enter().success();
    // The server is away until the deadlines of ten seconds have passed.
    fleet.simulated.clock.advance(Duration::from_secs(40));
    fleet.simulated.deliver(&mut process).await;
    fleet.pass(8, &mut [&mut process]).await;
    let samples = fleet.scrape().await;
    assert_eq!(value(&samples, "missed", &[("event", "success")]), 1.0);
    assert_eq!(value(&samples, "missed_seconds", &[]), 10.0);
    assert_eq!(value(&samples, "late", &[("event", "success")]), 0.0);
    assert_eq!(value(&samples, "delivered_seconds", &[]), 54.0 - 10.0);
}

#[tokio::test]
async fn refusals_of_a_second_have_the_reasons_that_the_processes_gave() {
    let fleet = Fleet::new();
    let mut processes = [fleet.join(1).await, fleet.join(2).await];
    let reasons = [
        ("limit_reached", Reason::LimitReached),
        ("wait_too_long", Reason::WaitTooLong),
        ("more_than_limit", Reason::MoreThanLimit),
        ("failing", Reason::Failing),
        ("queue_full", Reason::QueueFull),
        ("custom", Reason::Custom("maintenance")),
    ];
    let [one, two] = &mut processes;
    fleet.pass(2, &mut [one, two]).await;
    for (count, (_, reason)) in (1..).zip(&reasons) {
        (0..count).for_each(|_| one.registry.resource("orders").unwrap().refuse(*reason));
        two.registry.resource("orders").unwrap().refuse(*reason);
    }
    fleet.pass(3, &mut [one, two]).await;
    let samples = fleet.scrape().await;
    let of = |family, name, label| {
        let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound"), (name, label)];
        value(&samples, family, &labels)
    };
    let refused = reasons.map(|(name, _)| of("refusals", "reason", name));
    assert_eq!(refused, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(of("rate", "event", "block"), refused.iter().sum::<f64>());
    // The next second has none, and no row.
    fleet.pass(1, &mut [one, two]).await;
    let samples = fleet.scrape().await;
    assert!(!samples.keys().any(|it| it.0 == "leaparray_fleet_refusals"), "{samples:#?}");
}

#[tokio::test]
async fn process_whose_record_had_expired_is_not_counted_again() {
    let fleet = Fleet::new();
    let mut near = fleet.join(1).await;
    let mut far = fleet.join(2).await;
    let work = |process: &Process, count| {
        let orders = process.registry.resource("orders").unwrap();
        (0..count).for_each(|_| orders.enter().success());
    };
    work(&far, 100);
    fleet.pass(8, &mut [&mut near, &mut far]).await;
    let pass = [("event", "pass")];
    assert_eq!(value(&fleet.scrape().await, "lifetime", &pass), 100.0);
    // It does not reach the server for longer than its record is kept.
    for _ in 0..31 {
        fleet.pass(20, &mut [&mut near]).await;
        assert_eq!(value(&fleet.scrape().await, "lifetime", &pass), 100.0);
    }
    assert_eq!(value(&fleet.scrape().await, "processes", &[("state", "lost")]), 0.0);
    work(&far, 7);
    fleet.pass(8, &mut [&mut near, &mut far]).await;
    assert_eq!(value(&fleet.scrape().await, "lifetime", &pass), 107.0);
}

#[tokio::test]
async fn resources_without_a_row_have_no_rate_and_are_named() {
    let fleet = Fleet::new();
    let budget = Budget { process: 120, ..Budget::default() };
    let mut small = fleet.simulated.join(1, budget).await;
    let mut large = fleet.join(2).await;
    fleet.pass(2, &mut [&mut small, &mut large]).await;
    for number in 0..40 {
        let name = format!("resource {number}");
        let resource = small.registry.resource(&name).unwrap();
        (number..40).for_each(|_| resource.enter().success());
    }
    large.registry.resource("resource 39").unwrap().enter().success();
    fleet.pass(3, &mut [&mut small, &mut large]).await;
    let samples = fleet.scrape().await;
    let of = |family: &str, label: Option<(&str, &str)>| -> BTreeMap<String, f64> {
        let family = format!("leaparray_fleet_{family}");
        let is_of = |(key, _): &(&Key, &f64)| {
            key.0 == family && label.is_none_or(|(name, value)| key.1[name] == value)
        };
        let samples = samples.iter().filter(is_of);
        samples.map(|(key, value)| (key.1["resource"].clone(), *value)).collect()
    };
    let (rates, left_out) = (of("rate", Some(("event", "pass"))), of("left_out_processes", None));
    assert_eq!(rates["resource 0"], 40.0);
    assert_eq!((rates["resource 39"], left_out.get("resource 0")), (1.0, None));
    assert!(rates.values().all(|it| *it > 0.0) && left_out.values().all(|it| *it == 1.0));
    let (pass, single) = ([("event", "pass")], |family| value(&samples, family, &[]));
    assert_eq!(value(&samples, "total", &pass), 821.0);
    let in_rows: f64 = rates.values().sum();
    assert_eq!(value(&samples, "left_out", &pass), 821.0 - in_rows);
    assert!(single("left_out_unnamed") > 0.0);
    assert_eq!(
        single("left_out_rows"),
        left_out.values().sum::<f64>() + single("left_out_unnamed")
    );
}
