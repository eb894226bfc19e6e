//! A request ends on another thread while the thread on which it entered looks for a new highest concurrency.

use std::sync::Arc;

use super::threads::{Led, watched};
use crate::clock::ManualClock;
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
