use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Rt, Success};
use leaparray::flow::Reason;
use leaparray::node::Refusals;
use leaparray::{Clock, NodeConfig};

use super::{SECOND, START, Tested, take, take_seconds};
use crate::format::{Message, VERSION};

#[test]
fn history_and_live_seconds_have_every_count_once() {
    let mut tested = Tested::new();
    let mut expected = 0;
    for second in 0..5 {
        (0..=second).for_each(|_| tested.succeed("orders", 20));
        expected += second + 1;
        tested.clock.advance(SECOND);
    }
    let viewer = tested.steps.join(None, None).unwrap();
    tested.steps.step(tested.clock.now());
    for _ in 0..5 {
        tested.succeed("orders", 20);
        tested.succeed("users", 30);
        expected += 2;
        tested.next_second();
    }
    let seconds = take_seconds(&viewer);
    let numbers: Vec<_> = seconds.iter().map(|it| it.t).collect();
    assert_eq!(numbers, (START..START + 10).collect::<Vec<_>>());
    let rows = seconds.iter().flat_map(|it| &it.rows);
    assert_eq!(rows.map(|row| row.counts.events[Success]).sum::<u64>(), expected);
    let total: u64 = seconds.iter().map(|it| it.total.events[Success]).sum();
    assert_eq!(total, expected);
}

#[test]
fn row_has_the_counts_and_the_quantiles_of_its_second() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.steps.step(tested.clock.now());
    let orders = tested.registry.resource("orders").unwrap();
    let [failed, cancelled, _in_flight] = [(); 3].map(|()| orders.enter());
    for _ in 0..98 {
        tested.succeed("orders", 10);
    }
    tested.succeed("orders", 500);
    tested.clock.advance(SECOND / 10);
    failed.exception();
    cancelled.cancel();
    orders.block_many_at(orders.clock().now(), 4);
    tested.clock.advance(9 * SECOND / 10);
    tested.steps.step(tested.clock.now());

    let seconds = take_seconds(&viewer);
    let counts = &seconds.last().unwrap().rows[0].counts;
    let events = [Pass, Success, Exception, Cancelled, Block, Rt];
    assert_eq!(events.map(|event| counts.events[event]), [102, 99, 1, 1, 4, 100]);
    assert_eq!((counts.in_flight, counts.max_in_flight), (Some(1), 4));
    assert_eq!(counts.events.rt_sum(), Duration::from_millis(98 * 10 + 600));
    assert_eq!((counts.min, counts.max), (Some(10_000_000), Some(500_000_000)));
    let median = counts.p50.unwrap();
    assert!(median.abs_diff(10_000_000) < 220_000, "{median}");
    assert_eq!(counts.p999, Some(500_000_000));
    assert_eq!(seconds.last().unwrap().total, *counts, "it is the only node");
}

#[test]
fn quantiles_of_the_total_are_those_of_all_requests() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    for _ in 0..9 {
        tested.succeed("fast", 1);
    }
    tested.succeed("slow", 900);
    tested.next_second();
    let total = take_seconds(&viewer).pop().unwrap().total;
    assert!(total.p90.unwrap() < 2_000_000 && total.p99 == Some(900_000_000));
}

#[test]
fn quantiles_of_the_total_are_unknown_if_a_node_has_no_histogram() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.succeed("fast", 1);
    let plain = tested.registry.resource_with("plain", NodeConfig::default()).unwrap();
    let entry = plain.enter();
    tested.clock.advance(SECOND / 4);
    entry.success();
    tested.clock.advance(SECOND);
    tested.steps.step(tested.clock.now());
    let second = take_seconds(&viewer).into_iter().find(|it| it.total.events[Pass] > 0).unwrap();
    assert_eq!((second.total.p50, second.total.max), (None, Some(250_000_000)));
    let quantiles = second.rows.iter().map(|row| row.counts.p50.is_some());
    let mut quantiles: Vec<_> = quantiles.collect();
    quantiles.sort_unstable();
    assert_eq!(quantiles, [false, true]);
}

#[test]
fn requests_in_flight_are_unknown_before_the_first_viewer() {
    let mut tested = Tested::new();
    let orders = tested.registry.resource("orders").unwrap();
    let in_flight = orders.enter();
    tested.clock.advance(2 * SECOND);
    let viewer = tested.steps.join(None, None).unwrap();
    tested.steps.step(tested.clock.now());
    tested.next_second();
    in_flight.success();
    tested.next_second();
    tested.next_second();
    let seconds = take_seconds(&viewer);
    let of_total: Vec<_> = seconds.iter().map(|it| it.total.in_flight).collect();
    assert_eq!(of_total, [None, Some(1), Some(1), Some(0), Some(0)]);
    let rows: Vec<_> = seconds.iter().map(|it| it.rows.len()).collect();
    assert_eq!(
        rows,
        [1, 1, 1, 1, 0],
        "a node with nothing else has a row while a request is in flight"
    );
}

#[test]
fn second_without_a_message_is_one_that_was_missed() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    assert_eq!(take_seconds(&viewer)[0].t, START);
    tested.clock.advance(100 * SECOND);
    tested.steps.step(tested.clock.now());
    let numbers: Vec<_> = take_seconds(&viewer).iter().map(|it| it.t).collect();
    assert_eq!(numbers, (START + 101 - 59..START + 101).collect::<Vec<_>>());
}

#[test]
fn seconds_before_the_page_are_known_from_the_first_record_on() {
    let mut tested = Tested::new();
    tested.clock.advance(10 * SECOND);
    tested.succeed("orders", 1);
    tested.clock.advance(5 * SECOND);
    let mut later = super::Steps::new(tested.registry.clone());
    let viewer = later.join(None, None).unwrap();
    tested.next_second();
    later.step(tested.clock.now());
    let numbers: Vec<_> = take_seconds(&viewer).iter().map(|it| it.t).collect();
    assert_eq!(numbers, (START + 10..START + 16).collect::<Vec<_>>());
}

#[test]
fn refused_requests_are_counted_by_reason_from_message_to_message() {
    let mut tested = Tested::new();
    let orders = tested.registry.resource("orders").unwrap();
    orders.refuse(Reason::QueueFull);
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    for _ in 0..2 {
        orders.refuse(Reason::Failing);
        orders.refuse_many_at(tested.clock.now(), 2, Reason::LimitReached);
        tested.next_second();
    }
    tested.next_second();
    let seconds = take_seconds(&viewer);
    assert_eq!(seconds[0].refused, None, "from before the first viewer");
    for second in &seconds[1..3] {
        let [refused] = &second.refused.as_deref().unwrap() else { panic!("one node") };
        let expected = Refusals::from([(Reason::Failing, 1), (Reason::LimitReached, 2)]);
        assert_eq!(refused.counts, expected);
    }
    assert_eq!(seconds[3].refused.as_deref(), Some(&[][..]));
}

#[test]
fn refused_requests_have_a_reason_although_the_resource_was_evicted() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    let refuse = |tested: &Tested, reason| {
        tested.registry.resource("orders").unwrap().refuse(reason);
    };
    refuse(&tested, Reason::Failing);
    assert_eq!(tested.registry.evict_idle_at(tested.registry.clock().now(), Duration::ZERO), 1);
    refuse(&tested, Reason::LimitReached);
    tested.next_second();
    refuse(&tested, Reason::QueueFull);
    assert_eq!(tested.registry.evict_idle_at(tested.registry.clock().now(), Duration::ZERO), 1);
    tested.next_second();
    let seconds = &take_seconds(&viewer)[1..];
    let of = |second: &crate::format::Second| second.refused.as_ref().unwrap()[0].counts;
    let first = Refusals::from([(Reason::Failing, 1), (Reason::LimitReached, 1)]);
    assert_eq!(
        seconds.iter().map(of).collect::<Vec<_>>(),
        [first, Refusals::from([(Reason::QueueFull, 1)])]
    );
}

#[test]
fn reasons_of_a_second_add_up_to_its_refused_requests() {
    let mut tested = Tested::new();
    let orders = tested.registry.resource("orders").unwrap();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    for second in 0..4 {
        // Some are refused before the second is read, and after its end.
        orders.refuse_many_at(tested.clock.now(), 9, Reason::LimitReached);
        tested.clock.advance(SECOND);
        orders.refuse_many_at(tested.clock.now(), 3 * (second % 2), Reason::Failing);
        tested.steps.step(tested.clock.now());
    }
    // One reading of several seconds.
    for _ in 0..3 {
        orders.refuse_many_at(tested.clock.now(), 7, Reason::LimitReached);
        tested.clock.advance(SECOND);
    }
    tested.steps.step(tested.clock.now());
    let (mut seen, mut failing) = (Vec::new(), 0);
    for second in &take_seconds(&viewer)[1..] {
        let refused = &second.refused.as_deref().unwrap()[0];
        seen.push((second.rows[0].counts.events[Block], refused.counts.sum()));
        failing += refused.counts[Reason::Failing];
    }
    assert_eq!(seen, [9, 9, 12, 9, 10, 7, 7].map(|count| (count, count)));
    assert_eq!(failing, 6);
}

#[test]
fn ledger_has_every_event_at_rest() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    for second in 0..80 {
        tested.succeed("orders", 20);
        tested.registry.resource("orders").unwrap().in_context("web").unwrap().block();
        if second == 40 {
            tested.succeed("removed", 1);
            tested.registry.remove("removed");
        }
        tested.next_second();
        take(&viewer);
    }
    tested.next_second();
    let second = take_seconds(&viewer).pop().unwrap();
    let ledger = second.ledger.unwrap();
    assert_eq!(ledger.recorded, 80 * 3 + 2);
    assert_eq!(ledger.delisted, 2);
    assert_eq!(ledger.in_window + ledger.expired + ledger.late, 80 * 3);
    assert_eq!(ledger.in_window, 58 * 3, "the window begins within the second before them");
    assert_eq!(ledger.age, 0);
}

#[test]
fn ledger_of_many_nodes_is_read_in_turn_and_exact_at_rest() {
    let mut tested = Tested::with_node(NodeConfig::default());
    let viewer = tested.steps.join(None, None).unwrap();
    tested.steps.step(tested.clock.now());
    let names: Vec<_> = (0..1_000).map(|it| format!("resource {it}")).collect();
    for _ in 0..3 {
        for name in &names {
            tested.registry.resource(name).unwrap().block();
        }
        tested.next_second();
    }
    let ledgers = take_seconds(&viewer);
    let newest = ledgers.last().unwrap().ledger.unwrap();
    assert!(newest.recorded < 3_000 && newest.age == 2, "{newest:?}");
    for _ in 0..8 {
        tested.next_second();
    }
    let newest = take_seconds(&viewer).pop().unwrap().ledger.unwrap();
    assert_eq!((newest.recorded, newest.in_window, newest.age), (3_000, 3_000, 7));
}

#[test]
fn hello_and_resources_come_first() {
    let mut tested = Tested::new();
    tested.registry.resource("orders").unwrap().in_context("web").unwrap();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    let messages = take(&viewer);
    let [Message::Hello(hello), Message::Resources(resources), Message::Second(_)] = &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!((hello.version, hello.history, hello.pid), (VERSION, 60, std::process::id()));
    assert_eq!(hello.reasons.len(), Reason::ALL.len());
    let names: Vec<_> =
        resources.resources.iter().map(|it| (it.name.as_str(), it.context.as_deref())).collect();
    assert_eq!(names, [("orders", None), ("orders", Some("web"))]);
}

/// The clock was set back after the task has read it.
#[test]
fn reading_at_a_time_ahead_of_the_clock_loses_no_second() {
    use leaparray::flow::Reason::Failing;

    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.registry.resource("payments").unwrap();
    tested.next_second();
    take_seconds(&viewer);
    tested.registry.resource("orders").unwrap().refuse(Failing);
    tested.steps.step(tested.clock.now().saturating_add(SECOND));
    tested.next_second();
    let seconds = take_seconds(&viewer);
    let [second] = &seconds[..] else { panic!("{seconds:?}") };
    assert_eq!((second.t, second.total.events[Block]), (START + 1, 1));
    assert_eq!((second.new.len(), second.refused.as_ref().unwrap()[0].counts[Failing]), (1, 1));
    assert!(second.gone.is_empty());
}

#[test]
fn counts_stop_at_the_highest_number() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    // A counter stops at 2^62.
    let names = ["one", "two", "three", "four", "five"];
    for name in names {
        tested
            .registry
            .resource(name)
            .unwrap()
            .block_many_at(tested.registry.clock().now(), u64::MAX);
    }
    tested.next_second();
    for name in names {
        tested.registry.remove(name);
    }
    tested.next_second();
    tested.registry.resource("six").unwrap().block_many_at(tested.registry.clock().now(), u64::MAX);
    tested.next_second();
    let seconds = take_seconds(&viewer);
    let [first, second, third] = &seconds[..] else { panic!("{seconds:?}") };
    assert_eq!(third.ledger.unwrap().recorded, u64::MAX);
    let ledger = first.ledger.unwrap();
    assert_eq!((first.total.events[Block], ledger.recorded), (u64::MAX, u64::MAX));
    assert_eq!((second.ledger.unwrap().in_window, second.ledger.unwrap().delisted), (0, u64::MAX));
}

#[test]
fn history_has_the_seconds_of_the_last_minute_although_some_were_missed() {
    let long = leaparray::WindowConfig::new(10, 10 * SECOND).unwrap();
    let mut tested = Tested::with_node(NodeConfig::new(long, long).unwrap());
    let _first = tested.steps.join(None, None).unwrap();
    for _ in 0..10 {
        tested.next_second();
    }
    tested.clock.advance(55 * SECOND);
    tested.steps.step(tested.clock.now());
    let later = tested.steps.join(None, None).unwrap();
    let seconds: Vec<_> = take_seconds(&later).iter().map(|it| it.t - START).collect();
    assert_eq!(seconds, [5, 6, 7, 8, 9, 56, 57, 58, 59, 60, 61, 62, 63, 64]);
}
