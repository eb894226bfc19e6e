use leaparray::MetricEvent::Success;
use leaparray::flow::{LimiterExt, Rate, TokenBucket};
use leaparray::{Clock, NodeConfig};

use super::{SECOND, START, Tested, take, take_seconds};
use crate::format::{Detail, Message};

fn details(messages: Vec<Message>) -> Vec<Detail> {
    let detail = |message| match message {
        Message::Detail(detail) => Some(detail),
        _ => None,
    };
    messages.into_iter().filter_map(detail).collect()
}

#[test]
fn first_details_have_the_history_and_later_ones_the_newest_second() {
    let mut tested = Tested::new();
    for _ in 0..3 {
        tested.succeed("orders", 100);
        tested.clock.advance(SECOND);
    }
    let viewer = tested.steps.join(Some("orders"), None).unwrap();
    tested.steps.step(tested.clock.now());
    tested.succeed("orders", 200);
    tested.succeed("orders", 200);
    tested.next_second();
    tested.next_second();
    let details = details(take(&viewer));
    let seconds = |index: usize| {
        let node = details[index].node.as_ref().unwrap();
        let count = |it: &crate::format::SecondBins| it.bins.iter().map(|bin| bin.count).sum();
        node.seconds.iter().map(|it| (it.t - START, count(it))).collect::<Vec<(u64, u64)>>()
    };
    assert_eq!(seconds(0), [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(seconds(1), [(3, 2)]);
    assert_eq!(seconds(2), []);
    let node = details[1].node.as_ref().unwrap();
    assert_eq!(
        (node.scale, node.lifetime.counts[Success], node.minute.events[Success]),
        (Some(2), 5, 5)
    );
    assert_eq!((node.ledger.recorded, node.ledger.in_window), (10, 10));
    // 0.1 s is between 2^(-14/4) and 2^(-13/4).
    assert_eq!(details[0].node.as_ref().unwrap().seconds[0].bins[0].index, -14);
    assert_eq!((node.window.short.interval, node.window.long.buckets), (1.0, 120));
}

#[test]
fn viewer_that_joins_later_gets_the_history_before_the_next_second() {
    let mut tested = Tested::new();
    let first = tested.steps.join(None, None).unwrap();
    tested.succeed("orders", 100);
    tested.next_second();
    let viewer = tested.steps.join(Some("orders"), None).unwrap();
    tested.steps.welcome();
    let details = details(take(&viewer));
    assert_eq!(details[0].node.as_ref().unwrap().seconds.len(), 1);
    drop(first);
}

#[test]
fn node_without_a_histogram_has_counts_and_no_bins() {
    let mut tested = Tested::with_node(NodeConfig::default());
    tested.succeed("orders", 100);
    let viewer = tested.steps.join(Some("orders"), None).unwrap();
    tested.next_second();
    let node = details(take(&viewer)).remove(0).node.unwrap();
    assert_eq!((node.scale, node.seconds.len(), node.window.histogram_error), (None, 0, None));
    assert_eq!((node.minute.events[Success], node.minute.p50), (1, None));
}

#[test]
fn details_of_a_node_that_is_not_listed_are_empty() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(Some("nowhere"), None).unwrap();
    tested.next_second();
    let [detail] = &details(take(&viewer))[..] else { panic!("one message") };
    assert_eq!((detail.id, detail.node.as_ref()), (None, None));
    assert_eq!(detail.t, START);
}

#[test]
fn details_have_all_seconds_of_a_reading() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(Some("orders"), None).unwrap();
    tested.succeed("orders", 1);
    tested.next_second();
    take(&viewer);
    for _ in 0..3 {
        tested.succeed("orders", 1);
        tested.clock.advance(SECOND);
    }
    tested.steps.step(tested.clock.now());
    let node = details(take(&viewer)).remove(0).node.unwrap();
    assert_eq!(node.seconds.iter().map(|it| it.t - START).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn details_have_no_second_that_the_hub_has_not_read() {
    let mut tested = Tested::new();
    let first = tested.steps.join(None, None).unwrap();
    tested.succeed("orders", 1);
    tested.next_second();
    tested.succeed("orders", 1);
    tested.clock.advance(SECOND);
    let viewer = tested.steps.join(Some("orders"), None).unwrap();
    tested.steps.welcome();
    let detail = details(take(&viewer)).remove(0);
    let seconds: Vec<_> = detail.node.unwrap().seconds.iter().map(|it| it.t).collect();
    assert_eq!((detail.t, seconds), (START, vec![START]));
    assert_eq!(take_seconds(&first).len(), 1);
}

#[test]
fn refused_requests_have_the_names_of_their_limiters() {
    let mut tested = Tested::new();
    let orders = tested.registry.resource("orders").unwrap();
    for (name, requests) in [("clients", 1), ("all", 2)] {
        let limiter = TokenBucket::new(Rate::per_minute(1).unwrap(), 0).named(name);
        (0..requests).for_each(|_| assert!(limiter.try_enter(&*orders).is_err()));
    }
    let viewer = tested.steps.join(Some("orders"), None).unwrap();
    tested.next_second();
    let node = details(take(&viewer)).remove(0).node.unwrap();
    assert_eq!(node.refused_by, [("all".to_owned(), 2), ("clients".to_owned(), 1)]);
}
