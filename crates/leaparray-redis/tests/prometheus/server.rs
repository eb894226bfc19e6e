//! A Prometheus server scrapes the collector, and returns the numbers that the processes have
//! recorded.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use leaparray::flow::Reason;
use leaparray::{Clock, Entry, Outcome};
use leaparray_redis::FleetCollector;
use leaparray_redis::fleet::Budget;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::prometheus::Prometheus;
use crate::simulated::{Fleet, Process, START};

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const NAME: &str = "GET /orders/\"{id}\"\\";

/// Exposes what the reader of a fleet has read.
async fn expose(fleet: &Fleet) -> SocketAddr {
    let mut metrics = Registry::default();
    metrics.register_collector(Box::new(FleetCollector::new(Arc::clone(&fleet.reader))));
    let metrics = Arc::new(metrics);
    let body = move || {
        let mut body = String::new();
        text::encode(&mut body, &metrics).unwrap();
        ([(CONTENT_TYPE, TEXT)], body)
    };
    let app = Router::new().route("/metrics", get(async move || body()));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    address
}

/// Records a request of each duration in milliseconds, and a refused one beside it.
fn work(process: &Process, millis: &[u64]) {
    let orders = process.registry.resource(NAME).unwrap();
    for millis in millis {
        let begin = orders.clock().now();
        orders
            .enter_at(begin)
            .end_at(begin.saturating_add(Duration::from_millis(*millis)), Outcome::Success);
        orders.refuse(Reason::LimitReached);
    }
}

/// The calls to the server block this thread, and the tasks go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs prometheus"]
async fn numbers_of_a_fleet_are_those_that_its_processes_have_recorded() {
    let fleet = Fleet::new();
    let address = expose(&fleet).await;
    let Some(server) = Prometheus::start("a fleet in Prometheus", address) else { return };
    let mut processes = Vec::new();
    for id in 1..=3 {
        processes.push(fleet.join(id, Budget::default()).await);
    }
    let [one, two, three] = &mut processes[..] else { unreachable!() };
    fleet.pass(2, &mut [one, two, three]).await;
    work(one, &[100, 200]);
    work(two, &[300]);
    work(three, &[400, 500, 600]);
    three.registry.resource(NAME).unwrap().refuse(Reason::QueueFull);
    let in_flight = Entry::enter(two.registry.resource(NAME).unwrap());
    // The second with the requests is the newest final one, until the test lets time pass.
    fleet.pass(3, &mut [one, two, three]).await;
    fleet.reader.poll().await.unwrap();

    let second = "leaparray_fleet_newest_final_timestamp_seconds";
    server.wait_for(second, START + 2);
    for (query, expected) in [
        ("leaparray_fleet_rate{event='pass'}", 7),
        ("leaparray_fleet_rate{event='success'}", 6),
        ("leaparray_fleet_rate{event='block'}", 7),
        ("leaparray_fleet_rate{event='exception'}", 0),
        ("leaparray_fleet_refusals{reason='limit_reached'}", 6),
        ("leaparray_fleet_refusals{reason='queue_full'}", 1),
        ("sum(leaparray_fleet_refusals)", 7),
        ("leaparray_fleet_in_flight", 1),
        ("leaparray_fleet_second_processes{state='present'}", 3),
        ("leaparray_fleet_second_processes{state='expected'}", 3),
        ("leaparray_fleet_processes{state='live'}", 3),
        ("leaparray_fleet_lifetime_total{event='pass'}", 7),
        ("leaparray_fleet_lifetime_total{event='block'}", 7),
        ("leaparray_fleet_delivered_seconds_total", 15),
        ("leaparray_fleet_missed_seconds_total", 0),
        ("leaparray_fleet_left_out_rows", 0),
        ("leaparray_fleet_connected", 1),
    ] {
        server.wait_for(query, expected);
    }
    assert_eq!(server.label("leaparray_fleet_rate{event='pass'}", "resource"), NAME);
    let mean = server.query("leaparray_fleet_response_time_mean_seconds").unwrap();
    assert!((mean - 0.35).abs() < 1e-9, "{mean}");
    let median = server.query("leaparray_fleet_response_time_seconds{quantile='0.5'}").unwrap();
    assert!((median / 0.3 - 1.0).abs() < 0.03, "{median}");

    // The third process is killed. The counters keep what it has delivered, and the gauges are
    // those of the other ones.
    drop(in_flight);
    work(three, &[700]);
    work(one, &[100]);
    fleet.pass(6, &mut [one, two]).await;
    fleet.reader.poll().await.unwrap();
    server.wait_for("leaparray_fleet_processes{state='lost'}", 1);
    server.wait_for("leaparray_fleet_second_processes{state='present'}", 2);
    server.wait_for("leaparray_fleet_second_processes{state='expected'}", 3);
    server.wait_for("leaparray_fleet_lifetime_total{event='success'}", 7);
    server.wait_for("absent(leaparray_fleet_rate)", 1);
    // The query API has the values of the past, too.
    server.wait_for("max_over_time(leaparray_fleet_rate{event='pass'}[1m])", 7);
}
