//! The fleet as the live page shows it.

use std::sync::Arc;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, ReservedPass, Rt, Success};
use leaparray::flow::Reason;
use leaparray::{Clock, Entry, TrafficType};
use leaparray_redis::engine::{EngineError, FleetEngine, MemoryFleet};
use leaparray_redis::fleet::{
    Budget, Delivery, FleetConfig, FleetKeys, NamesFetch, Outcome, ProcessId, Receipt, Survey,
};
use leaparray_redis::{FleetReader, FleetState};
use leaparray_web::format::{
    Counts, Direction, EventTotals, FleetProcessState, FleetStanding, reasons,
};

use super::simulated::{Fleet, Process, START};

fn work(process: &Process, resource: &str, requests: u64) {
    let resource = process.registry.resource(resource).unwrap();
    for _ in 0..requests {
        let begin = resource.clock().now();
        resource
            .enter_at(begin)
            .end_at(begin.saturating_add(Duration::from_millis(100)), leaparray::Outcome::Success);
    }
}

#[tokio::test]
async fn window_has_the_counts_of_the_fleet_under_their_names() {
    let fleet = Fleet::new();
    let mut one = fleet.join(1, Budget::default()).await;
    let mut two = fleet.join(2, Budget::default()).await;
    work(&one, "orders", 3);
    fleet.pass(2, &mut [&mut one, &mut two]).await;
    work(&one, "orders", 5);
    work(&two, "orders", 2);
    let orders = one.registry.resource("orders").unwrap();
    let now = fleet.clock.now();
    orders
        .enter_at(now)
        .end_at(now.saturating_add(Duration::from_millis(100)), leaparray::Outcome::Exception);
    orders.enter().cancel();
    for (count, reason) in (1..).zip([
        Reason::LimitReached,
        Reason::WaitTooLong,
        Reason::MoreThanLimit,
        Reason::Failing,
        Reason::Custom("maintenance"),
        Reason::QueueFull,
    ]) {
        (0..count).for_each(|_| orders.refuse(reason));
    }
    let payments = two.registry.resource_with("payments", TrafficType::Outbound).unwrap();
    let entry = payments.enter();
    fleet.pass(3, &mut [&mut one, &mut two]).await;
    fleet.reader.poll().await.unwrap();

    let shown = fleet.reader.to_web();
    assert_eq!((shown.name.as_str(), shown.server.as_str()), ("shop", "connected"));
    assert_eq!(shown.newest_final, Some(START + 2));
    let second = shown.last_second.unwrap();
    assert_eq!((second.start, second.end), (START + 2, START + 3));
    assert_eq!(second.standing, FleetStanding::Final);
    assert_eq!((second.present, second.expected), (2, 2));
    let [of_orders, of_payments] = &second.resources[..] else { panic!("{second:?}") };
    assert_eq!((of_orders.name.as_str(), of_orders.processes), ("orders", 2));
    assert_eq!((of_orders.direction, of_orders.left_out), (Direction::In, 0));
    let Counts { events, min, max, .. } = of_orders.counts;
    let counted = [Pass, Success, Exception, Cancelled, Block, Rt].map(|event| events[event]);
    assert_eq!(counted, [9, 7, 1, 1, 21, 8]);
    assert_eq!(events.rt_sum(), Duration::from_millis(800));
    assert_eq!((min, max), (Some(100_000_000), Some(100_000_000)));
    let Counts { p50, p90, p99, p999, .. } = of_orders.counts;
    for quantile in [p50, p90, p99, p999] {
        assert!(quantile.unwrap().abs_diff(100_000_000) < 3_000_000, "{quantile:?}");
    }
    assert_eq!(of_orders.refusals, [1, 2, 3, 4, 5, 6]);
    assert_eq!(reasons()[4..], ["other", "queue full"]);
    assert_eq!((of_payments.direction, of_payments.refusals.len()), (Direction::Out, 0));
    assert_eq!((of_payments.counts.in_flight, of_payments.counts.p50), (Some(1), None));
    assert_eq!((second.total.events[Pass], second.total.in_flight), (10, Some(1)));
    assert_eq!(second.refusals, [1, 2, 3, 4, 5, 6]);
    assert_eq!((second.left_out_rows, second.left_out), (0, zero()));

    let minute = shown.last_minute.unwrap();
    assert_eq!((minute.start, minute.end), (START, START + 3));
    assert_eq!((minute.total.events[Pass], minute.total.events[Success]), (13, 10));
    let of_one = &minute.processes[0];
    assert_eq!((of_one.id.as_str(), of_one.present), ("0000000000000001", 3));
    assert_eq!((of_one.counts.events[Success], of_one.counts.in_flight), (8, Some(0)));
    drop(entry);
}

/// Counts without a request, of which the number in flight is known.
fn zero() -> Counts {
    let mut counts = Counts::default();
    counts.in_flight = Some(0);
    counts
}

#[tokio::test]
async fn contexts_of_a_resource_have_rows_of_their_own() {
    let fleet = Fleet::new();
    let mut process = fleet.join(1, Budget::default()).await;
    fleet.pass(2, &mut [&mut process]).await;
    let orders = process.registry.resource("orders").unwrap();
    orders.in_context("web").unwrap().enter().success();
    fleet.pass(3, &mut [&mut process]).await;
    fleet.reader.poll().await.unwrap();
    let rows = fleet.reader.to_web().last_second.unwrap().resources;
    let contexts: Vec<_> = rows.iter().map(|it| it.context.as_deref()).collect();
    assert_eq!(contexts, [Some("web")]);
}

#[tokio::test]
async fn process_without_the_newest_second_has_no_number_in_flight() {
    let fleet = Fleet::new();
    let mut live = fleet.join(1, Budget::default()).await;
    let mut lost = fleet.join(2, Budget::default()).await;
    work(&lost, "orders", 2);
    let entry = Entry::enter(lost.registry.resource("orders").unwrap());
    fleet.pass(2, &mut [&mut live, &mut lost]).await;
    fleet.pass(7, &mut [&mut live]).await;
    fleet.reader.poll().await.unwrap();
    drop(entry);

    let shown = fleet.reader.to_web();
    let states: Vec<_> = shown.processes.iter().map(|it| it.state).collect();
    assert_eq!(states, [FleetProcessState::Live, FleetProcessState::Lost]);
    assert_eq!(shown.processes[1].name, "orders-2");
    for window in [shown.last_second.unwrap(), shown.last_minute.unwrap()] {
        assert_eq!((window.present, window.expected), (1, 2));
        let [live, lost] = &window.processes[..] else { panic!("{window:?}") };
        assert_eq!((live.missing, live.counts.in_flight), (0, Some(0)));
        assert!(lost.missing > 0 && lost.waiting == 0, "{lost:?}");
        assert_eq!(lost.counts.in_flight, None);
    }
    // A second that is waited for is shown as such.
    let second = fleet.reader.with(|view| view.window(START + 8..START + 9));
    assert_eq!(second.standing, leaparray_redis::fleet::Standing::Waiting);
}

#[tokio::test]
async fn ledger_has_the_place_of_each_count() {
    let fleet = Fleet::new();
    let mut process = fleet.join(1, Budget::default()).await;
    work(&process, "orders", 3);
    let orders = process.registry.resource("orders").unwrap();
    let reservation = orders.reserve_next_at(orders.clock().now(), 2, 100).unwrap();
    fleet.clock.advance(reservation.wait());
    Entry::enter_reserved_at(&*orders, orders.clock().now(), reservation).success();
    fleet.pass(1, &mut [&mut process]).await;
    // The server is away until the deadline of the second with these requests has passed.
    work(&process, "orders", 3);
    fleet.clock.advance(Duration::from_secs(40));
    fleet.pass(3, &mut [&mut process]).await;
    work(&process, "orders", 1);
    process.outbox.leave();
    fleet.pass(1, &mut [&mut process]).await;
    fleet.reader.poll().await.unwrap();

    let shown = fleet.reader.to_web();
    assert_eq!(shown.processes[0].state, FleetProcessState::Left);
    let ledger = shown.processes[0].ledger;
    let reserved = |it: EventTotals| it.counts[ReservedPass];
    assert_eq!((ledger.delivered.counts[Success], reserved(ledger.delivered)), (6, 2));
    assert_eq!((ledger.missed.counts[Success], ledger.late.counts[Success]), (3, 0));
    assert_eq!((ledger.waiting.counts[Pass], ledger.unfinished.counts[Pass]), (0, 0));
    assert_eq!((ledger.lifetime.counts[Success], reserved(ledger.lifetime)), (9, 2));
}

#[tokio::test]
async fn rows_for_which_there_was_no_room_are_counted_with_their_requests() {
    let fleet = Fleet::new();
    let mut process = fleet.join(1, Budget { process: 200, ..Budget::default() }).await;
    fleet.pass(2, &mut [&mut process]).await;
    for resource in 0..40 {
        work(&process, &format!("resource-{resource}"), 40 - resource);
    }
    fleet.pass(3, &mut [&mut process]).await;
    fleet.reader.poll().await.unwrap();
    let second = fleet.reader.to_web().last_second.unwrap();
    let in_rows: u64 = second.resources.iter().map(|it| it.counts.events[Pass]).sum();
    let (without, with): (Vec<_>, Vec<_>) = second.resources.iter().partition(|it| it.left_out > 0);
    assert!(!with.is_empty() && !without.is_empty() && second.left_out_unnamed > 0, "{second:?}");
    assert!(with.iter().all(|it| it.counts.events[Pass] > 0 && it.processes == 1), "{with:?}");
    assert!(
        without.iter().all(|it| (it.counts.events[Pass], it.left_out) == (0, 1)),
        "{without:?}"
    );
    assert_eq!(without.len() as u64 + second.left_out_unnamed, second.left_out_rows);
    assert_eq!(with.len() as u64 + second.left_out_rows, 40);
    assert_eq!(second.total.events[Pass], (1..=40).sum::<u64>());
    assert_eq!(second.left_out.events[Pass], second.total.events[Pass] - in_rows);
}

#[tokio::test]
async fn records_that_cannot_be_read_are_counted() {
    let engine = Arc::new(MemoryFleet::new());
    let reader = FleetReader::builder("shop").start(Arc::clone(&engine)).unwrap();
    reader.poll().await.unwrap();
    assert_eq!(reader.to_web().unreadable, 0);
    for id in 1..=2 {
        let delivery = Delivery {
            process: ProcessId(id),
            base: 0,
            first: u64::MAX / 10_000_000,
            record: vec![255],
            seconds: Vec::new(),
            names_before: 0,
            names: Vec::new(),
        };
        let receipt = engine.deliver(reader.keys(), &FleetConfig::default(), &delivery).await;
        assert_eq!(receipt.unwrap().outcome, Outcome::Taken);
    }
    reader.poll().await.unwrap();
    assert_eq!(reader.to_web().unreadable, 2);
}

#[tokio::test]
async fn fleet_without_a_final_second_has_the_processes() {
    let fleet = Fleet::new();
    let process = fleet.join(1, Budget::default()).await;
    work(&process, "orders", 1);
    fleet.reader.poll().await.unwrap();
    let shown = fleet.reader.to_web();
    assert_eq!((shown.newest_final, shown.last_second, shown.last_minute), (None, None, None));
    assert_eq!(shown.processes.len(), 1);
}

/// A server that does not answer.
#[derive(Debug)]
struct Away(MemoryFleet);

impl FleetEngine for Away {
    async fn deliver(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        delivery: &Delivery,
    ) -> Result<Receipt, EngineError> {
        self.0.deliver(keys, config, delivery).await
    }

    async fn survey(&self, _: &FleetKeys, _: &FleetConfig) -> Result<Survey, EngineError> {
        Err(EngineError::Server("the cable is out".into()))
    }

    async fn second(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        second: u64,
        processes: &[ProcessId],
    ) -> Result<Vec<Option<Vec<u8>>>, EngineError> {
        self.0.second(keys, config, second, processes).await
    }

    async fn names(
        &self,
        keys: &FleetKeys,
        fetches: &[NamesFetch],
    ) -> Result<Vec<Vec<Vec<u8>>>, EngineError> {
        self.0.names(keys, fetches).await
    }
}

#[tokio::test]
async fn page_says_for_how_long_the_server_is_away_and_why() {
    let reader = Arc::new(FleetReader::builder("shop").start(Away(MemoryFleet::new())).unwrap());
    assert_eq!(reader.to_web().server, "connecting");
    let mut states = reader.watch();
    states.wait_for(|it| matches!(it, FleetState::Away { .. })).await.unwrap();
    let shown = reader.to_web();
    let why = shown.server.strip_prefix("away for ").unwrap();
    assert!(why.ends_with(" s: the server cannot be used: the cable is out"), "{why}");
    assert_eq!((shown.processes.len(), shown.last_second), (0, None));
}
