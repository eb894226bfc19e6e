//! The tasks of a window over a fleet, with a server in memory.
#![forbid(unsafe_code)]

mod simulated;

use std::sync::Arc;
use std::time::Duration;

use leaparray::MetricEvent::Success;
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_redis::engine::MemoryFleet;
use leaparray_redis::fleet::Budget;
use leaparray_redis::{FleetReporter, FleetState};
use tokio::time::timeout;

use simulated::{Fleet, START};

#[tokio::test]
async fn reader_has_each_second_of_more_processes_than_an_answer_has() {
    let fleet = Fleet::new();
    let mut processes = Vec::new();
    for number in 0..150 {
        processes.push(fleet.join(number * 7_919 % 1_009, Budget::default()).await);
    }
    for second in 0..6 {
        for process in &processes {
            for resource in ["orders", &format!("in second {second}")] {
                process.registry.resource(resource).unwrap().enter().success();
            }
        }
        let mut all: Vec<_> = processes.iter_mut().collect();
        fleet.pass(1, &mut all).await;
    }
    while {
        fleet.reader.poll().await.unwrap();
        fleet.reader.with(|view| view.wanted().is_some())
    } {}
    let minute = fleet.reader.last_minute().unwrap();
    assert_eq!(minute.seconds, START..START + 4);
    assert_eq!(minute.presence.to_string(), "150 of 150 processes");
    assert_eq!(minute.total.metrics.counts[Success], 150 * 2 * 4);
}

#[tokio::test(start_paused = true)]
async fn process_whose_clock_is_ahead_closes_with_its_last_second_waiting() {
    let server = ManualClock::new(Timestamp::from_secs(START));
    let ahead = ManualClock::new(Timestamp::from_secs(START + 60));
    let engine = Arc::new(MemoryFleet::with_clock(server));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), ahead.clone()));
    let reporter = FleetReporter::builder("shop", "orders-1").start(&registry, engine).unwrap();
    reporter.watch().wait_for(|it| *it == FleetState::Connected).await.unwrap();
    registry.resource("orders").unwrap().enter().success();
    ahead.advance(Duration::from_secs(1));
    let record = timeout(Duration::from_secs(30), reporter.close()).await.unwrap();
    assert_eq!((record.lifetime[Success], record.waiting[Success]), (1, 1));
}
