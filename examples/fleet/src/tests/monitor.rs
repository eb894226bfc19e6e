//! Tests of the page and the metrics, over HTTP.

use std::io::BufReader;
use std::sync::Arc;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Success};
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_redis::engine::MemoryFleet;
use leaparray_redis::fleet::{FleetConfig, Presence};
use leaparray_redis::{FleetReader, FleetReporter, FleetState};
use leaparray_web::format::{Fleet, FleetSum, Message, Reader};
use tokio::task::spawn_blocking;

use crate::monitor::Monitor;

/// The second with the requests.
const SECOND: u64 = 3_602;

/// Returns a reader of three processes, of which the first has handled one request in the second,
/// and so on.
async fn fleet_of_three() -> Arc<FleetReader> {
    let clock = ManualClock::new(Timestamp::from_secs(SECOND - 2));
    let engine = Arc::new(MemoryFleet::with_clock(clock.clone()));
    // The processes deliver nothing for three seconds, which is no new start of the server.
    let config = FleetConfig::default().with_lost_after(7).unwrap().with_grace(4).unwrap();
    let mut processes = Vec::new();
    for number in 1..=3 {
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let registry = Arc::new(registry);
        let name = format!("service-{number}");
        let builder = FleetReporter::builder("shop", &name).with_config(config);
        let reporter = builder.start(&registry, Arc::clone(&engine)).unwrap();
        reporter.watch().wait_for(|it| *it == FleetState::Connected).await.unwrap();
        processes.push((registry, reporter, number));
    }
    clock.advance(Duration::from_secs(2));
    for (registry, _, number) in &processes {
        let orders = registry.resource("GET /orders").unwrap();
        (0..*number).for_each(|_| orders.enter().success());
    }
    clock.advance(Duration::from_secs(1));
    for (_, reporter, _) in processes {
        reporter.close().await;
    }
    let reader = Arc::new(FleetReader::builder("shop").with_config(config).start(engine).unwrap());
    // Until the second is final, and no later one. A reader that asks seldom takes a server that no
    // process has reached since for a new one.
    for _ in 0..2 {
        clock.advance(Duration::from_secs(2));
        reader.poll().await.unwrap();
    }
    reader
}

/// The header that the data needs.
fn bearer(monitor: &Monitor) -> String {
    format!("Bearer {}", monitor.token().as_str())
}

async fn get(monitor: &Monitor, path: &str) -> String {
    let url = format!("http://{}{path}", monitor.address());
    let bearer = bearer(monitor);
    let get =
        move || ureq::get(url).header("authorization", bearer).call()?.body_mut().read_to_string();
    spawn_blocking(get).await.unwrap().unwrap()
}

fn assert_is_of_three(window: &FleetSum) {
    let presence = Presence { present: window.present, expected: window.expected };
    assert_eq!(presence.to_string(), "3 of 3 processes");
    assert_eq!((window.total.events[Success], window.total.events[Block]), (6, 0));
    assert_eq!(window.resources[0].name, "GET /orders");
    assert_eq!(window.resources[0].processes, 3);
}

#[tokio::test]
async fn page_has_the_fleet() {
    let monitor = Monitor::start(&fleet_of_three().await).await.unwrap();
    assert!(get(&monitor, "/").await.contains("id=\"fleet\""));
    let snapshot: serde_json::Value =
        serde_json::from_str(&get(&monitor, "/snapshot").await).unwrap();
    let fleet: Fleet = serde_json::from_value(snapshot["fleet"].clone()).unwrap();
    assert_eq!((fleet.name.as_str(), fleet.newest_final), ("shop", Some(SECOND)));
    assert_is_of_three(fleet.last_second.as_ref().unwrap());
    assert_is_of_three(fleet.last_minute.as_ref().unwrap());
    let names: Vec<_> = fleet.processes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!((1..=3).all(|it| names.contains(&&*format!("service-{it}"))), "{names:?}");
}

#[tokio::test]
async fn stream_has_the_fleet() {
    let monitor = Monitor::start(&fleet_of_three().await).await.unwrap();
    let url = format!("http://{}/stream", monitor.address());
    let bearer = bearer(&monitor);
    let fleet = spawn_blocking(move || {
        let body = ureq::get(url)
            .header("authorization", bearer)
            .call()
            .unwrap()
            .into_body()
            .into_reader();
        let fleet = |message| match message {
            Ok(Message::Fleet(update)) => update.fleet,
            Ok(_) => None,
            Err(error) => panic!("{error}"),
        };
        Reader::new(BufReader::new(body)).find_map(fleet)
    });
    assert_is_of_three(&fleet.await.unwrap().unwrap().last_second.unwrap());
}

/// The families of a second without response times in histograms, in their order.
const FAMILIES: [&str; 18] = [
    "rate gauge",
    "refusals gauge",
    "in_flight gauge",
    "response_time_mean_seconds gauge",
    "total gauge",
    "left_out gauge",
    "second_processes gauge",
    "processes gauge",
    "newest_final_timestamp_seconds gauge",
    "left_out_rows gauge",
    "left_out_unnamed gauge",
    "connected gauge",
    "lifetime counter",
    "missed counter",
    "late counter",
    "delivered_seconds counter",
    "missed_seconds counter",
    "unreadable counter",
];

/// All samples that are not 0: six requests of three processes, each with three delivered seconds.
const SAMPLES: [&str; 12] = [
    "rate{resource=\"GET /orders\",context=\"\",kind=\"inbound\",event=\"pass\"} 6.0",
    "rate{resource=\"GET /orders\",context=\"\",kind=\"inbound\",event=\"success\"} 6.0",
    "total{event=\"pass\"} 6.0",
    "total{event=\"success\"} 6.0",
    "second_processes{state=\"present\"} 3.0",
    "second_processes{state=\"expected\"} 3.0",
    "processes{state=\"left\"} 3.0",
    "newest_final_timestamp_seconds 3602.0",
    "connected 1.0",
    "lifetime_total{event=\"pass\"} 6",
    "lifetime_total{event=\"success\"} 6",
    "delivered_seconds_total 9",
];

#[tokio::test]
async fn metrics_have_each_family_of_the_fleet_once() {
    let monitor = Monitor::start(&fleet_of_three().await).await.unwrap();
    let text = get(&monitor, "/metrics").await;
    let families: Vec<_> =
        text.lines().filter_map(|it| it.strip_prefix("# TYPE leaparray_fleet_")).collect();
    assert_eq!(families, FAMILIES, "{text}");
    let samples = text.lines().filter_map(|it| it.strip_prefix("leaparray_fleet_"));
    let samples: Vec<_> =
        samples.filter(|it| !it.ends_with(" 0") && !it.ends_with(" 0.0")).collect();
    assert_eq!(samples, SAMPLES, "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}
