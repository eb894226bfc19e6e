//! Tests of requests that enter and end while another thread adds up the gauge.

use std::sync::Arc;
use std::time::Duration;

use super::threads::{Led, watched};
use crate::node::{Entry, NodeConfig, ResourceNode};
use crate::sync::stall::Point;
use crate::time::{ManualClock, Timestamp, WindowConfig};

type Node = Arc<ResourceNode<ManualClock>>;

fn node() -> Node {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    Arc::new(ResourceNode::with_clock(NodeConfig::default(), clock))
}

fn enter(node: &Node) -> Entry<Node, ManualClock> {
    Entry::enter(node.clone())
}

/// The number of passes in which a read of the concurrency goes through the arrays, and stops
/// at [`Point::MomentTaken`]: for the stamp, for the ended requests, and for the entered requests.
const PASSES: usize = 3;

/// Starts a thread that reads the concurrency, and stops it in that pass of its look.
fn reader_stopped_in(pass: usize, node: &Node) -> Led<u64> {
    let mut stopped = Led::start({
        let node = node.clone();
        move |leash| {
            leash.put_on();
            node.concurrency()
        }
    });
    for _ in 0..pass {
        assert!(stopped.lead(0));
        stopped.lead_to(Point::MomentTaken);
    }
    stopped
}

/// Four requests are in flight, one of them ends on another thread, and two more enter: five are in
/// flight at once.
#[test]
fn maximum_is_found_beside_a_thread_that_is_stopped_while_it_ends_a_request() {
    let node = node();
    let mut in_flight: Vec<_> = (0..4).map(|_| enter(&node)).collect();
    let ended = in_flight.pop();
    let mut stopped = Led::start(move |leash| {
        leash.put_on();
        drop(ended);
    });
    assert!(stopped.lead(0));
    stopped.lead_to(Point::EndNoted);
    in_flight.push(enter(&node));
    stopped.finish();
    in_flight.push(enter(&node));
    assert_eq!((node.concurrency(), node.now().short().totals().max_concurrency()), (5, Some(5)));
}

/// The request ends after the other thread has decided to look, and before that thread looks.
#[test]
fn maximum_is_found_by_a_thread_that_is_stopped_before_it_looks() {
    let node = node();
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut stopped = Led::start({
        let node = node.clone();
        move |leash| {
            let mut in_flight: Vec<_> = (0..4).map(|_| enter(&node)).collect();
            sender.send(in_flight.pop()).unwrap();
            leash.put_on();
            in_flight.push(enter(&node));
            in_flight.push(enter(&node));
            (node.concurrency(), node.now().short().totals().max_concurrency())
        }
    });
    assert!(stopped.lead(0));
    stopped.lead_to(Point::GaugeDue);
    watched("a thread that ends a request", move || drop(receiver.recv().unwrap())).result();
    let (found, _) = stopped.finish();
    assert_eq!(found, (5, Some(5)));
}

/// The request enters under a geometry that was added after the reader was stopped, and ends under
/// the geometry before.
#[test]
fn stopped_reader_finds_no_negative_gauge_beside_a_change_of_the_geometry() {
    for pass in 1..=PASSES {
        let node = node();
        let before = *node.config();
        let stopped = reader_stopped_in(pass, &node);
        let second = WindowConfig::new(4, Duration::from_secs(1)).unwrap();
        node.reconfigure(NodeConfig::new(second, second).unwrap());
        let entry = enter(&node);
        node.reconfigure(before);
        entry.success();
        let (found, _) = stopped.finish();
        assert_eq!(found, 0, "pass {pass}");
    }
}

/// The look counts a request as entered, and finds that it has ended since the ended ones were
/// added up.
#[test]
fn gauge_is_added_up_again_after_a_request_has_ended_in_the_middle_of_a_look() {
    let node = node();
    let entry = enter(&node);
    let stopped = reader_stopped_in(PASSES, &node);
    entry.success();
    let (found, _) = stopped.finish();
    assert_eq!(found, 0);
}
