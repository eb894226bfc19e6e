//! The balanced gauge: what is under way is never negative, and none when all have ended, on whichever
//! thread.
#![cfg(loom)]

use leaparray::{Entry, ManualClock};
use leaparray_loom_tests::{Node, enter, explore, node, node_config, start};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, mpsc};
use loom::thread;

fn small() -> Arc<Node> {
    node(node_config(1, 1))
}

fn reader(node: &Arc<Node>) -> thread::JoinHandle<u64> {
    let node = node.clone();
    thread::spawn(move || node.concurrency())
}

/// The one that lets it in has a cell of its own, the one where it ends shares one, and has the bucket in
/// hand.
#[test]
fn who_ends_on_another_thread_has_entered() {
    explore(Some(2), || {
        let node = small();
        node.block_at(start(1));
        let reader = reader(&node);
        let (sender, receiver) = mpsc::channel();
        let other = {
            let node = node.clone();
            thread::spawn(move || {
                node.block_at(start(1));
                let entry: Entry<Arc<Node>, ManualClock> = receiver.recv().unwrap();
                entry.success_at(start(1));
            })
        };
        sender.send(enter(&node, 1)).unwrap();
        other.join().unwrap();
        let concurrency = reader.join().unwrap();
        assert!(concurrency <= 1, "{concurrency}");
        assert_eq!(node.concurrency(), 0);
    });
}

/// And the other way round.
#[test]
fn who_entered_in_a_shared_cell_ends_in_an_owned_one() {
    explore(None, || {
        let node = small();
        enter(&node, 1).success_at(start(1));
        let reader = reader(&node);
        let other = {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1))
        };
        other.join().unwrap().success_at(start(1));
        let concurrency = reader.join().unwrap();
        assert!(concurrency <= 1, "{concurrency}");
        assert_eq!(node.concurrency(), 0);
    });
}

#[test]
fn two_that_share_a_cell_and_one_that_owns_one() {
    explore(Some(1), || {
        let node = small();
        enter(&node, 1).success_at(start(1));
        let others = [(); 2].map(|()| {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1).exception_at(start(1)))
        });
        enter(&node, 1).success_at(start(1));
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(node.concurrency(), 0);
    });
}

#[test]
fn whoever_was_there_all_the_time_is_counted() {
    explore(None, || {
        let node = small();
        let entered = Arc::new(AtomicBool::new(false));
        let reader = {
            let (node, entered) = (node.clone(), entered.clone());
            thread::spawn(move || (entered.load(Ordering::Acquire), node.concurrency()))
        };
        let there = enter(&node, 1);
        entered.store(true, Ordering::Release);
        enter(&node, 1).success_at(start(1));
        let (entered, concurrency) = reader.join().unwrap();
        assert!(concurrency >= u64::from(entered) && concurrency <= 2, "{entered}, {concurrency}");
        assert_eq!(node.concurrency(), 1);
        there.success_at(start(1));
    });
}

/// The next thread with the token goes on with the cell.
#[test]
fn a_cell_is_handed_on() {
    explore(Some(2), || {
        let node = small();
        let (reader, enter_and_end) = (reader(&node), |node: &Arc<Node>| {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1).success_at(start(1)))
        });
        enter_and_end(&node).join().unwrap();
        enter_and_end(&node).join().unwrap();
        let concurrency = reader.join().unwrap();
        // Both, if they came after it had read what ended.
        assert!(concurrency <= 2, "{concurrency}");
        assert_eq!(node.concurrency(), 0);
    });
}

/// Two are never there while the other one looks, however many come and go.
#[test]
fn the_highest_concurrency_was_reached() {
    explore(Some(2), || {
        let node = small();
        let other = {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1).success_at(start(1)))
        };
        for _ in 0..2 {
            enter(&node, 1).success_at(start(1));
        }
        other.join().unwrap();
        let highest = node.lifetime().max_concurrency();
        assert!(highest.is_some_and(|highest| (1..=2).contains(&highest)), "{highest:?}");
    });
}
