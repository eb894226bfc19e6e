use leaparray::Clock;
use std::collections::HashSet;
use std::time::Duration;

use super::{START, Tested, take, take_seconds};
use crate::format::{Direction, Message};
use crate::hub::frame::SERIALIZED;
use leaparray::MetricEvent::Success;

#[test]
fn new_node_is_listed_with_its_first_second() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    tested.succeed("orders", 1);
    let database = leaparray::TrafficType::Outbound;
    tested.registry.resource_with("database", database).unwrap().block();
    tested.next_second();
    let seconds = take_seconds(&viewer);
    let mut new: Vec<_> =
        seconds[1].new.iter().map(|it| (it.name.as_str(), it.direction)).collect();
    new.sort_unstable_by_key(|it| it.0);
    assert_eq!(new, [("database", Direction::Out), ("orders", Direction::In)]);
    let ids: HashSet<_> = seconds[1].new.iter().map(|it| it.id).collect();
    assert_eq!(seconds[1].rows.iter().map(|it| it.id).collect::<HashSet<_>>(), ids);
}

#[test]
fn evicted_node_keeps_its_rows_and_its_id_while_it_is_in_the_history() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.steps.step(tested.clock.now());
    tested.succeed("orders", 1);
    assert_eq!(tested.registry.evict_idle_at(tested.registry.clock().now(), Duration::ZERO), 1);
    tested.next_second();
    tested.succeed("orders", 1);
    tested.next_second();
    let seconds = take_seconds(&viewer);
    let id = seconds[0].new[0].id;
    assert_eq!(seconds[0].gone, [id], "listed and evicted within the second");
    assert_eq!((seconds[0].rows[0].id, seconds[0].rows[0].counts.events[Success]), (id, 1));
    assert_eq!((seconds[1].new[0].id, seconds[1].rows[0].id), (id, id), "listed again");
    assert!(seconds[1].gone.is_empty());
}

#[test]
fn id_is_not_used_again_once_the_node_has_left_the_history() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.succeed("orders", 1);
    tested.next_second();
    tested.registry.remove("orders");
    let mut last = take_seconds(&viewer);
    for _ in 0..60 {
        tested.next_second();
        last.extend(take_seconds(&viewer));
    }
    let (id, gone) = (last[0].rows[0].id, last.iter().filter(|it| !it.gone.is_empty()).count());
    assert_eq!(gone, 1, "it is gone once");
    let known = |tested: &Tested| {
        let later = tested.steps.join(None, None).unwrap();
        tested.steps.welcome();
        let messages = take(&later);
        let Message::Resources(resources) = &messages[1] else { panic!("{messages:?}") };
        resources.resources.iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(known(&tested), [id], "in the history");
    tested.next_second();
    assert!(known(&tested).is_empty());
    tested.succeed("orders", 1);
    tested.next_second();
    assert_ne!(known(&tested), [id]);
}

#[test]
fn relisted_node_counts_its_refused_requests_from_zero() {
    use leaparray::flow::Reason::Failing;

    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.registry.resource("orders").unwrap().refuse(Failing);
    tested.next_second();
    tested.registry.remove("orders");
    let again = tested.registry.resource("orders").unwrap();
    again.refuse(Failing);
    again.refuse(Failing);
    tested.next_second();
    let second = take_seconds(&viewer).pop().unwrap();
    assert_eq!(second.refused.unwrap()[0].counts[Failing], 2);
}

#[test]
fn ledger_of_relisted_nodes_is_that_of_the_new_ones() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    let names: Vec<_> = (0..1_000).map(|it| format!("resource {it}")).collect();
    for name in &names {
        tested.registry.resource(name).unwrap().block_many_at(tested.registry.clock().now(), 10);
    }
    tested.next_second();
    take(&viewer);
    for name in &names {
        tested.registry.remove(name);
        tested.registry.resource(name).unwrap();
    }
    tested.next_second();
    let ledger = take_seconds(&viewer).pop().unwrap().ledger.unwrap();
    assert_eq!((ledger.recorded, ledger.delisted), (10_000, 10_000));
}

/// The listed nodes that a viewer gets now: their names, and since when they are gone.
fn listed(tested: &Tested) -> Vec<(String, Option<u64>)> {
    let viewer = tested.steps.join(None, None).unwrap();
    tested.steps.welcome();
    let mut messages = take(&viewer).into_iter();
    let resources = messages.find_map(|it| match it {
        Message::Resources(resources) => Some(resources.resources),
        _ => None,
    });
    resources.unwrap().into_iter().map(|it| (it.name, it.gone)).collect()
}

#[test]
fn viewer_that_joins_later_learns_since_when_a_node_is_gone() {
    let mut tested = Tested::new();
    let handle = tested.registry.resource("payments").unwrap();
    tested.registry.remove("payments");
    handle.block();
    tested.succeed("orders", 1);
    let _first = tested.steps.join(None, None).unwrap();
    tested.next_second();
    let gone = START + 1;
    assert_eq!(listed(&tested), [("orders".into(), None), ("payments".into(), Some(gone))]);
    for _ in 0..59 {
        tested.next_second();
        assert!(listed(&tested).contains(&("payments".into(), Some(gone))));
    }
    tested.next_second();
    assert_eq!(listed(&tested), [("orders".into(), None)], "its last second has left the history");
}

#[test]
fn listed_nodes_are_serialized_for_viewers_that_join_only() {
    let mut tested = Tested::new();
    let _first = tested.steps.join(None, None).unwrap();
    tested.next_second();
    let before = SERIALIZED.get();
    for number in 0..10 {
        tested.succeed(&format!("orders of {number}"), 1);
        tested.next_second();
    }
    assert_eq!(SERIALIZED.get() - before, 11, "the seconds, and once a change");
    assert_eq!(listed(&tested).len(), 10);
    assert_eq!(SERIALIZED.get() - before, 14, "and once a hello, the nodes and the changes");
}
