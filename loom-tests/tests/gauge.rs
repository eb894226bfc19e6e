//! The balanced gauge: the concurrency is never negative, and it is zero once all requests have
//! ended, on whichever thread.
#![cfg(loom)]

use leaparray::{Entry, ManualClock, Outcome};
use leaparray_loom_tests::{Node, enter, explore_some, node, node_config, start};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, mpsc};
use loom::thread;

/// The number of executions to run of each model: all of them have too many to explore.
const SOME: usize = 20_000;

fn small() -> Arc<Node> {
    node(node_config(1, 1))
}

fn reader(node: &Arc<Node>) -> thread::JoinHandle<u64> {
    let node = node.clone();
    thread::spawn(move || node.concurrency())
}

/// A request enters on one thread and ends on another. Both threads have a bound cell. A reader
/// that sees the end also sees the entry, so the concurrency is not below zero.
#[test]
fn request_that_ends_on_another_thread_is_seen_to_enter() {
    explore_some(SOME, Some(1), || {
        let node = small();
        node.block_many_at(start(1), 1);
        let reader = reader(&node);
        let (sender, receiver) = mpsc::channel();
        let other = {
            let node = node.clone();
            thread::spawn(move || {
                node.block_many_at(start(1), 1);
                let entry: Entry<Arc<Node>, ManualClock> = receiver.recv().unwrap();
                entry.end_at(start(1), Outcome::Success);
            })
        };
        sender.send(enter(&node, 1)).unwrap();
        other.join().unwrap();
        let concurrency = reader.join().unwrap();
        assert!(concurrency <= 1, "{concurrency}");
        assert_eq!(node.concurrency(), 0);
    });
}

/// A request enters on a thread that has no cell yet, and ends on the main thread, which has one. A
/// reader that sees the end also sees the entry, so the concurrency is not below zero.
#[test]
fn request_that_enters_on_another_thread_is_seen_to_enter() {
    explore_some(SOME, Some(1), || {
        let node = small();
        enter(&node, 1).end_at(start(1), Outcome::Success);
        let reader = reader(&node);
        let other = {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1))
        };
        other.join().unwrap().end_at(start(1), Outcome::Success);
        let concurrency = reader.join().unwrap();
        assert!(concurrency <= 1, "{concurrency}");
        assert_eq!(node.concurrency(), 0);
    });
}

#[test]
fn three_threads_balance() {
    explore_some(SOME, Some(1), || {
        let node = small();
        enter(&node, 1).end_at(start(1), Outcome::Success);
        let others = [(); 2].map(|()| {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1).end_at(start(1), Outcome::Exception))
        });
        enter(&node, 1).end_at(start(1), Outcome::Success);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(node.concurrency(), 0);
    });
}

#[test]
fn request_in_flight_throughout_is_counted() {
    explore_some(SOME, Some(1), || {
        let node = small();
        let entered = Arc::new(AtomicBool::new(false));
        let reader = {
            let (node, entered) = (node.clone(), entered.clone());
            thread::spawn(move || (entered.load(Ordering::Acquire), node.concurrency()))
        };
        let there = enter(&node, 1);
        entered.store(true, Ordering::Release);
        enter(&node, 1).end_at(start(1), Outcome::Success);
        let (entered, concurrency) = reader.join().unwrap();
        assert!(concurrency >= u64::from(entered) && concurrency <= 2, "{entered}, {concurrency}");
        assert_eq!(node.concurrency(), 1);
        there.end_at(start(1), Outcome::Success);
    });
}

/// Two threads enter and end a request, one after the other, and the second adopts the cell of the
/// first. The gauge counts of the cell are kept.
#[test]
fn adopted_cell_keeps_its_gauge() {
    explore_some(SOME, Some(1), || {
        let node = small();
        let (reader, enter_and_end) = (reader(&node), |node: &Arc<Node>| {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1).end_at(start(1), Outcome::Success))
        });
        enter_and_end(&node).join().unwrap();
        enter_and_end(&node).join().unwrap();
        let concurrency = reader.join().unwrap();
        // Both requests, if they entered after the reader had read the ended counts.
        assert!(concurrency <= 2, "{concurrency}");
        assert_eq!(node.concurrency(), 0);
    });
}

/// One thread enters and ends a request, and another two, one after the other. At most two requests
/// are in flight at any time, so the highest concurrency is 1 or 2.
#[test]
fn highest_concurrency_was_reached() {
    explore_some(SOME, Some(1), || {
        let node = small();
        let other = {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1).end_at(start(1), Outcome::Success))
        };
        for _ in 0..2 {
            enter(&node, 1).end_at(start(1), Outcome::Success);
        }
        other.join().unwrap();
        let highest = node.lifetime().max_concurrency();
        assert!(highest.is_some_and(|highest| (1..=2).contains(&highest)), "{highest:?}");
    });
}
