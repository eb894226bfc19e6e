//! A Prometheus server scrapes a service every second. Its numbers are those of the service.

#[path = "../../examples/dashboard.rs"]
#[expect(dead_code, reason = "its main function prints the dashboard")]
mod dashboard;
mod prometheus;
mod promtool;
mod service;

use std::time::{Duration, Instant};

use leaparray::{
    Clock, HistogramConfig, LatencyHistogram, MetricEvent, NodeConfig, Outcome, Registry, Resource,
};

use prometheus::Prometheus;
use service::{CLIENT, OTHER, Service};

/// For how long requests are recorded, and in which intervals.
const LOAD: Duration = Duration::from_secs(8);
const STEP: Duration = Duration::from_millis(50);
/// The requests of a step.
const REQUESTS: u64 = 20;

const NAME: &str = "GET /orders/\"{id}\"\\";

/// Records requests at an even rate, with response times of 1 ms, 2 ms, … 400 ms in turn. Returns
/// how long that took: on a busy machine, the pauses are longer.
fn record(registry: &Registry) -> Duration {
    let begin = Instant::now();
    let orders = registry.resource(NAME).unwrap();
    let mut number = 0;
    for _ in 0..LOAD.as_millis() / STEP.as_millis() {
        for _ in 0..REQUESTS {
            let end = orders.clock().now();
            let rt = Duration::from_millis(1 + number % 400);
            orders.enter_at(end.saturating_sub(rt)).end_at(end, Outcome::Success);
            number += 1;
        }
        orders.refuse(leaparray::flow::Reason::LimitReached);
        std::thread::sleep(STEP);
    }
    begin.elapsed()
}

/// Asserts that two numbers differ by at most a share.
#[track_caller]
fn assert_close(measured: f64, expected: f64, share: f64) {
    assert!((measured / expected - 1.0).abs() <= share, "{measured}, not {expected}");
}

/// Returns the queries of all panels, with values for the variables.
fn queries_of_the_dashboard() -> Vec<String> {
    let dashboard = dashboard::dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let with_values = queries.map(|query| {
        let query = query.replace("$job", ".*").replace("$resource", ".*");
        query.replace("$__rate_interval", "10s")
    });
    with_values.collect()
}

#[test]
fn dashboard_is_the_one_that_is_generated() {
    let file = include_str!("../../dashboard.json");
    assert_eq!(file, format!("{:#}\n", dashboard::dashboard()));
}

#[test]
#[ignore = "needs prometheus"]
fn totals_and_rates_are_those_of_the_service() {
    let service = Service::start();
    let Some(server) = Prometheus::start("totals and rates", service.address, &[]) else {
        return;
    };
    server.wait_for("up", 1);
    let elapsed = record(&service.registry);
    // While the requests are recorded, the server has some eight samples.
    let rate = server.query("max_over_time(rate(leaparray_success_total[5s])[3s:1s])").unwrap();
    let orders = service.registry.get(NAME).unwrap();
    let requests = u32::try_from(orders.now().long().sum(MetricEvent::Success)).unwrap();
    let own = f64::from(requests) / elapsed.as_secs_f64();
    // The samples are at any time within a step and a second.
    assert_close(rate, own, 0.15);

    let totals = orders.lifetime();
    server.wait_for("leaparray_success_total", totals.sum(MetricEvent::Success));
    server.wait_for("leaparray_block_total", totals.sum(MetricEvent::Block));
    server.wait_for("leaparray_pass_total", totals.sum(MetricEvent::Pass));
    server.wait_for(
        "leaparray_refusals_total{reason='limit_reached'}",
        totals.sum(MetricEvent::Block),
    );
    server.wait_for("leaparray_in_flight", 0);
    let histogram = orders.lifetime_histogram().unwrap();
    server.wait_for("leaparray_response_time_seconds_count", histogram.count());
    let sum = server.query("leaparray_response_time_seconds_sum").unwrap();
    assert_close(sum, histogram.sum().as_secs_f64(), 1e-9);
    // A power of 2 is a bound of the histogram.
    let quarter = histogram.count_at_or_below(Duration::from_millis(250));
    server.wait_for("leaparray_response_time_seconds_bucket{le='0.25'}", quarter);
    assert_eq!(server.label("leaparray_success_total", "resource"), NAME);
    for query in queries_of_the_dashboard() {
        // A comparison with NaN has no result.
        assert!(server.query(&format!("count(({query}) < Inf)")).is_some(), "{query}");
    }
}

#[test]
#[ignore = "needs prometheus"]
fn quantiles_of_native_histograms_are_those_of_the_service() {
    let service = Service::start();
    let native = ["--enable-feature=native-histograms"];
    let Some(server) = Prometheus::start("native histograms", service.address, &native) else {
        return;
    };
    server.wait_for("up", 1);
    record(&service.registry);
    let histogram = service.registry.get(NAME).unwrap().lifetime_histogram().unwrap();
    server.wait_for("histogram_count(leaparray_response_time_seconds)", histogram.count());
    for q in [0.5, 0.9, 0.99, 0.999] {
        let query = format!("histogram_quantile({q}, leaparray_response_time_seconds)");
        let own = histogram.quantile(q).unwrap().as_secs_f64();
        // Each of the two is within the bin: half of its width from the middle.
        assert_close(
            server.query(&query).unwrap(),
            own,
            2.0 * LatencyHistogram::default().relative_error(),
        );
    }
}

/// Ends a number of requests with a response time.
fn end(resource: &Resource, rt: Duration, count: usize) {
    let now = resource.clock().now();
    (0..count)
        .for_each(|_| resource.enter_at(now.saturating_sub(rt)).end_at(now, Outcome::Success));
}

#[test]
#[ignore = "needs promtool"]
fn exposition_passes_promtool() {
    let service = Service::start();
    end(&service.registry.resource(NAME).unwrap(), Duration::from_millis(9), 3);
    service.registry.resource("idle").unwrap();
    for text in service.exposed.texts() {
        let Some(report) = promtool::check("promtool", &text) else { return };
        assert_eq!(report, "", "{text}");
    }
}

/// A label `inf` is another label for the server.
#[test]
#[ignore = "needs prometheus"]
fn infinite_bucket_of_both_clients_has_the_label_of_prometheus() {
    let service = Service::start();
    let orders = service.registry.resource(NAME).unwrap();
    end(&orders, Duration::from_millis(2), 3);
    end(&orders, Duration::from_secs(100), 1);
    for path in [CLIENT, OTHER] {
        let Some(server) = Prometheus::start_at("infinite bucket", service.address, path, &[])
        else {
            return;
        };
        server.wait_for("leaparray_response_time_seconds_bucket{le='+Inf'}", 4);
        server.wait_for("leaparray_response_time_seconds_bucket{le='0.01'}", 3);
        server.wait_for("count(leaparray_response_time_seconds_bucket)", 5);
    }
}

/// A bin of scale 0 is an octave. The bin of 9 ms reaches up to 15.6 ms, so it is above 10 ms.
#[test]
#[ignore = "needs prometheus"]
fn coarser_histogram_is_no_reset() {
    const TIMES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(9)];
    let service = Service::start();
    let native = ["--enable-feature=native-histograms"];
    let [classic, native] = [&[][..], &native]
        .map(|args| Prometheus::start("coarser histogram", service.address, args));
    let (Some(classic), Some(native)) = (classic, native) else { return };
    let orders = service.registry.resource(NAME).unwrap();
    let (count, native_count) = (
        "leaparray_response_time_seconds_count",
        "histogram_count(leaparray_response_time_seconds)",
    );
    classic.wait_for(count, 0);
    native.wait_for(native_count, 0);
    for (scale, expected) in [(8, 200), (0, 400), (8, 600)] {
        let histogram = HistogramConfig::with_scale(scale).unwrap();
        service.registry.reconfigure(NodeConfig::default().with_histogram(histogram));
        for rt in TIMES {
            end(&orders, rt, 100);
        }
        classic.wait_for(count, expected);
        native.wait_for(native_count, expected);
    }
    let buckets = "leaparray_response_time_seconds_bucket";
    classic.wait_for(&format!("sum(resets({buckets}[1m]))"), 0);
    classic.wait_for(&format!("{buckets}{{le='0.01'}}"), 500);
    // An increase is extrapolated to the whole minute, and a reset would add all that was before.
    let increase = format!("histogram_count(increase({}[1m]))", &buckets[..buckets.len() - 7]);
    let increase = native.query(&increase).unwrap();
    assert!((600.0..1_000.0).contains(&increase), "{increase}");
}

/// Times of 0 are usual under a clock that is refreshed once a millisecond.
#[test]
#[ignore = "needs prometheus"]
fn response_time_of_zero_in_a_native_histogram_is_zero() {
    let service = Service::start();
    let native = ["--enable-feature=native-histograms"];
    let Some(server) = Prometheus::start("zero", service.address, &native) else { return };
    let [zeros, mixed] = ["zeros", "mixed"].map(|name| service.registry.resource(name).unwrap());
    service.registry.resource("idle").unwrap();
    let now = zeros.clock().now();
    for _ in 0..10 {
        zeros.enter_at(now).end_at(now, Outcome::Success);
    }
    for rt in [0, 0, 0, 1_000] {
        mixed.enter_at(now.saturating_sub(Duration::from_millis(rt))).end_at(now, Outcome::Success);
    }
    let of = |function: &str, resource: &str| {
        format!("{function} leaparray_response_time_seconds{{resource='{resource}'}})")
    };
    server.wait_for(&of("histogram_count(", "zeros"), 10);
    server.wait_for(&of("histogram_count(", "mixed"), 4);
    for q in [0.1, 0.5, 0.99, 1.0] {
        assert_eq!(
            server.query(&of(&format!("histogram_quantile({q},"), "zeros")),
            Some(0.0),
            "{q}"
        );
    }
    assert_eq!(server.query(&of("histogram_quantile(0.5,", "mixed")), Some(0.0));
    let longest = server.query(&of("histogram_quantile(1,", "mixed")).unwrap();
    assert_close(longest, 1.0, 2.0 * LatencyHistogram::default().relative_error());
    // Native, although it has no response time yet.
    server.wait_for(&of("histogram_count(", "idle"), 0);
}

/// Prometheus takes all histograms of a family for what the first one is, and from 2.53 on refuses
/// a scrape with a native histogram that has response times in no bucket.
#[test]
#[ignore = "needs prometheus"]
fn native_histograms_are_scraped_beside_resources_without_a_histogram() {
    let native = ["--enable-feature=native-histograms"];
    let service = Service::start();
    for number in 0..8 {
        let plain = format!("plain {number}");
        let plain = service.registry.resource_with(&plain, NodeConfig::default()).unwrap();
        end(&plain, Duration::from_millis(9), 2);
    }
    end(&service.registry.resource("orders").unwrap(), Duration::from_millis(9), 30);
    let Some(server) = Prometheus::start("beside", service.address, &native) else {
        return;
    };
    let all = "leaparray_response_time_seconds";
    server.wait_for(&format!("histogram_count({all}{{resource='orders'}})"), 30);
    server.wait_for(&format!("histogram_count({all}{{resource='plain 3'}})"), 2);
    server.wait_for("up", 1);
    // A sum of all has the bins of `orders`, and no quantile among the response times in no bin.
    server.wait_for(&format!("histogram_count(sum({all}))"), 46);
    let quantile = |q: f64| server.query(&format!("histogram_quantile({q}, sum({all}))")).unwrap();
    assert_close(quantile(0.5), 0.009, 2.0 * LatencyHistogram::default().relative_error());
    assert!(quantile(0.9).is_infinite(), "{}", quantile(0.9));
}
