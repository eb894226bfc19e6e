//! The tasks of a window over a fleet, with a server in memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::MetricEvent::Success;
use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_redis::engine::{FleetEngine, MemoryFleet};
use leaparray_redis::fleet::{
    Budget, Delivery, FleetConfig, FleetKeys, FleetView, NamesFetch, Outbox, ProcessId, Receipt,
    Survey,
};
use leaparray_redis::{EngineError, FleetReader, FleetReporter, FleetState};
use tokio::time::{sleep, timeout};

use super::simulated::{Fleet, START};

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

/// It asks less often than every half of `lost_after`, as if the server had been away each time.
#[tokio::test(start_paused = true)]
async fn slow_reader_shows_the_last_second_of_a_fleet_that_has_left_as_final() {
    let clock = ManualClock::new(Timestamp::from_secs(START + 1));
    let engine = Arc::new(MemoryFleet::with_clock(clock.clone()));
    let config = FleetConfig::default();
    let mut outbox = Outbox::new(config, ProcessId(1), "orders-1", START, 1 << 20);
    let (second, _) = outbox.encode(START, [], 1 << 10);
    outbox.push(second);
    outbox.leave();
    let (keys, now) = (FleetKeys::new("shop", &config).unwrap(), clock.now().as_micros());
    engine.deliver(&keys, &config, &outbox.delivery(now)).await.unwrap();
    let period = Duration::from_secs(10);
    let reader = FleetReader::builder("shop").with_period(period).start(engine).unwrap();
    let step = Duration::from_millis(100);
    for _ in 0..250 {
        sleep(step).await;
        clock.advance(step);
    }
    assert!(reader.with(FleetView::newest_final) >= Some(START));
    assert!(reader.last_minute().is_some_and(|it| it.standing.is_final()));
}

/// A server to which the first two processes have one identity, as clones have.
#[derive(Debug, Default)]
struct Clones {
    fleet: MemoryFleet,
    seen: Mutex<Vec<ProcessId>>,
}

impl FleetEngine for Clones {
    async fn deliver(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        delivery: &Delivery,
    ) -> Result<Receipt, EngineError> {
        let mut delivery = delivery.clone();
        {
            let mut seen = self.seen.lock().unwrap();
            if seen.len() < 2 && !seen.contains(&delivery.process) {
                seen.push(delivery.process);
            }
            if seen.contains(&delivery.process) {
                delivery.process = seen[0];
            }
        }
        self.fleet.deliver(keys, config, &delivery).await
    }

    async fn survey(&self, keys: &FleetKeys, config: &FleetConfig) -> Result<Survey, EngineError> {
        self.fleet.survey(keys, config).await
    }

    async fn second(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        second: u64,
        processes: &[ProcessId],
    ) -> Result<Vec<Option<Vec<u8>>>, EngineError> {
        self.fleet.second(keys, config, second, processes).await
    }

    async fn names(
        &self,
        keys: &FleetKeys,
        fetches: &[NamesFetch],
    ) -> Result<Vec<Vec<Vec<u8>>>, EngineError> {
        self.fleet.names(keys, fetches).await
    }
}

#[tokio::test]
async fn reporters_under_one_identity_lose_no_count() {
    let engine = Arc::new(Clones::default());
    let (mut reporters, mut identities) = (Vec::new(), Vec::new());
    for passes in [3, 4] {
        let registry = Arc::new(Registry::new());
        let builder = FleetReporter::builder("shop", "orders-1");
        let reporter = builder.start(&registry, Arc::clone(&engine)).unwrap();
        identities.push(reporter.process());
        reporter.watch().wait_for(|it| *it == FleetState::Connected).await.unwrap();
        for _ in 0..passes {
            registry.resource("orders").unwrap().enter().success();
        }
        reporters.push((reporter, registry));
    }
    let records = [reporters[0].0.close().await, reporters[1].0.close().await];
    assert_eq!(records.each_ref().map(|it| it.delivered.1[Success]), [3, 4]);
    assert_eq!(records.each_ref().map(|it| it.taken), [0, 1]);
    let known = [reporters[0].0.process(), reporters[1].0.process()];
    assert!(known[0] == identities[0] && known[1] != identities[1], "{known:?} {identities:?}");
}
