//! Requests enter and end while another thread adds up how many are in flight.

use std::sync::Arc;
use std::time::Duration;

use super::threads::{Led, watched};
use crate::clock::ManualClock;
use crate::geometry::WindowConfig;
use crate::node::{Entry, NodeConfig, ResourceNode};
use crate::sync::stall::Point;
use crate::timestamp::Timestamp;

type Node = Arc<ResourceNode<ManualClock>>;

fn node() -> Node {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    Arc::new(ResourceNode::with_clock(NodeConfig::default(), clock))
}

fn enter(node: &Node) -> Entry<Node, ManualClock> {
    node.clone().enter_owned()
}

/// Four are in flight, one of them ends elsewhere, and two more enter: five at once.
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
    assert_eq!((node.concurrency(), node.max_concurrency()), (5, Some(5)));
}

/// The request ends after the other thread has decided to look, and before it looks.
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
            (node.concurrency(), node.max_concurrency())
        }
    });
    assert!(stopped.lead(0));
    stopped.lead_to(Point::GaugeDue);
    watched("a thread that ends a request", move || drop(receiver.recv().unwrap())).result();
    let (found, _) = stopped.finish();
    assert_eq!(found, (5, Some(5)));
}

/// The request enters under a geometry that is new since the reader began, and ends under the one before.
#[test]
fn gauge_is_not_negative_beside_a_reader_that_is_stopped_before_the_geometry_changes() {
    let node = node();
    let before = *node.config();
    let second = WindowConfig::new(4, Duration::from_secs(1)).unwrap();
    let mut stopped = Led::start({
        let node = node.clone();
        move |leash| {
            leash.put_on();
            node.concurrency()
        }
    });
    assert!(stopped.lead(0));
    stopped.lead_to(Point::MomentTaken);
    node.reconfigure(NodeConfig::new(second, second).unwrap());
    let entry = enter(&node);
    node.reconfigure(before);
    entry.success();
    let (found, _) = stopped.finish();
    assert_eq!(found, 0);
}

/// The look has found that one has entered, and then that one more has ended than before.
#[test]
fn gauge_is_added_up_again_after_a_request_has_ended_in_the_middle_of_a_look() {
    let node = node();
    let entry = enter(&node);
    let mut stopped = Led::start({
        let node = node.clone();
        move |leash| {
            leash.put_on();
            node.concurrency()
        }
    });
    // Once for the stamp, once for the requests that have ended, and once for those that have entered.
    for _ in 0..3 {
        assert!(stopped.lead(0));
        stopped.lead_to(Point::MomentTaken);
    }
    entry.success();
    let (found, _) = stopped.finish();
    assert_eq!(found, 0);
}
