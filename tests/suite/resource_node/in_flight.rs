//! The number of requests in flight, on threads that come and go.

use std::cell::RefCell;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Exception, Pass, Success};
use leaparray::{Entry, ManualClock, NodeConfig, ResourceNode, Timestamp};

use crate::resource_node::{millis, node};

#[test]
fn highest_concurrency_of_one_thread_is_exact() {
    let (node, clock) = node();
    let mut under_way = Vec::new();
    let highest = [3, 1, 5, 2].map(|count| {
        under_way.resize_with(count, || None);
        for place in &mut under_way {
            place.get_or_insert_with(|| node.enter());
        }
        node.now().short().totals().max_concurrency()
    });
    assert_eq!(highest, [3, 3, 5, 5].map(Some));
    clock.advance(millis(1_000));
    assert_eq!(node.now().short().totals().max_concurrency(), None);
    under_way.push(Some(node.enter()));
    assert_eq!(
        node.now().short().totals().max_concurrency(),
        Some(3),
        "the maximum of a new bucket"
    );
}

#[test]
fn first_request_in_a_bucket_is_in_its_highest_concurrency() {
    let (node, clock) = node();
    clock.advance(Duration::from_nanos(499_999_999));
    node.enter().success();
    // The thread last read the gauge a nanosecond ago, but not in this bucket.
    clock.advance(Duration::from_nanos(1));
    node.enter().success();
    clock.advance(millis(500));
    assert_eq!(node.now().short().totals().max_concurrency(), Some(1));
}

/// Runs `run` on a new thread, and returns once its thread-locals have been dropped.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn highest_concurrency_is_exact_where_requests_end_elsewhere() {
    let (node, _clock) = node();
    let mut in_flight = Vec::new();
    let highest = [3, 3, 4, 2, 4, 5, 1, 6].map(|count| {
        in_flight.extend((0..count).map(|_| node.enter()));
        on_a_thread(|| in_flight.drain(..).for_each(Entry::success));
        node.now().short().totals().max_concurrency()
    });
    assert_eq!(highest, [3, 3, 4, 4, 4, 5, 5, 6].map(Some));
}

#[test]
fn maximum_is_found_where_two_threads_end_requests_of_each_other() {
    let (node, _clock) = node();
    let enter = |count| (0..count).map(|_| node.enter()).collect::<Vec<_>>();
    let end = |entries: Vec<Entry<_, _>>| entries.into_iter().for_each(Entry::success);
    let here = enter(3);
    on_a_thread(|| {
        let there = enter(2);
        // All requests of the other thread end. Both requests of this thread are in flight.
        end(here);
        let elsewhere = on_a_thread(|| enter(3));
        assert_eq!(node.now().short().totals().max_concurrency(), Some(5));
        let more = enter(3);
        assert_eq!(node.now().short().totals().max_concurrency(), Some(8), "2 + 3 + 3");
        end(elsewhere);
        end(there);
        end(more);
    });
}

#[test]
fn thread_that_first_ends_a_request_of_another_thread_finds_its_own_maximum() {
    // At the beginning of time, no read of the gauge is long ago, so none is due by time.
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(Timestamp::MIN));
    let entry = node.enter();
    on_a_thread(|| {
        entry.success();
        let _in_flight = [(); 5].map(|()| node.enter());
        assert_eq!(node.now().short().totals().max_concurrency(), Some(5));
    });
}

#[test]
fn maximum_is_found_after_a_thread_has_used_many_nodes() {
    let (node, _clock) = node();
    let enter = || [(); 3].map(|()| node.enter());
    on_a_thread(|| {
        let ended = enter();
        on_a_thread(|| ended.into_iter().for_each(Entry::success));
        let _in_flight = enter();
        // Two of these nodes share a set of the thread cache with the first one, whose entry moves
        // to the second place.
        for _ in 0..2 * 512 {
            crate::resource_node::node().0.enter().success();
        }
        let _one_more = node.enter();
        assert_eq!(node.now().short().totals().max_concurrency(), Some(4));
    });
}

#[test]
fn maximum_of_one_thread_is_found_beside_requests_of_another() {
    let (node, clock) = node();
    drop([(); 8].map(|()| node.enter()));
    let _there = on_a_thread(|| [(); 4].map(|()| node.enter()));
    // In the same bucket, and so long after the thread's last read of the gauge that the next one
    // is due.
    clock.advance(millis(1));
    let mut here = Vec::new();
    let highest = [1, 4, 5, 8].map(|count| {
        here.resize_with(count, || node.enter());
        node.now().short().totals().max_concurrency()
    });
    assert_eq!(highest, [8, 8, 9, 12].map(Some));
}

#[test]
fn requests_of_ended_threads_stay_in_flight() {
    let (node, clock) = node();
    let enter = |count| (0..count).map(|_| Entry::enter(node.clone())).collect::<Vec<_>>();
    let first = on_a_thread(|| enter(3));
    let mut in_flight = first.len() as u64;
    // In each new bucket, abandoned cells are retired. A thread may adopt a cell before that, or
    // after it.
    let mut later = Vec::new();
    for round in 0..6 {
        assert_eq!(node.concurrency(), in_flight, "round {round}");
        clock.advance(millis(500));
        node.enter().success();
        assert_eq!(node.concurrency(), in_flight, "round {round}, in a new bucket");
        if round % 2 == 1 {
            later.extend(on_a_thread(|| enter(10)));
            in_flight += 10;
        }
    }
    on_a_thread(|| first.into_iter().for_each(Entry::success));
    assert_eq!(node.concurrency(), 30);
    clock.advance(millis(500));
    later.into_iter().for_each(Entry::success);
    assert_eq!(node.concurrency(), 0);
}

/// When it is dropped, at the end of its thread, enters two requests and sends their entries.
struct EntersAtTheEnd(Arc<ResourceNode<ManualClock>>, mpsc::Sender<OwnedEntry>);

type OwnedEntry = Entry<Arc<ResourceNode<ManualClock>>, ManualClock>;

impl Drop for EntersAtTheEnd {
    fn drop(&mut self) {
        for _ in 0..2 {
            self.1.send(Entry::enter(self.0.clone())).unwrap();
        }
    }
}

#[test]
fn request_of_a_thread_that_is_ending_is_in_flight() {
    thread_local! {
        static AT_THE_END: RefCell<Option<EntersAtTheEnd>> = const { RefCell::new(None) };
    }
    // Thread-locals are dropped in the order of their initialization or in reverse, so both orders
    // are tested.
    for cache_first in [false, true] {
        let (node, _clock) = node();
        let (sender, entries) = mpsc::channel();
        let keep = || AT_THE_END.set(Some(EntersAtTheEnd(node.clone(), sender.clone())));
        on_a_thread(|| {
            if cache_first {
                node.enter().success();
                keep();
            } else {
                keep();
                node.enter().success();
            }
        });
        assert_eq!(node.concurrency(), 2, "cache first: {cache_first}");
        assert_eq!(
            node.now().short().totals().max_concurrency(),
            Some(2),
            "cache first: {cache_first}"
        );
        entries.try_iter().for_each(Entry::success);
        assert_eq!(node.concurrency(), 0, "cache first: {cache_first}");
    }
}

#[test]
fn counts_balance_when_threads_end_requests_of_others() {
    const ROUNDS: u64 = 20_000;
    let node = Arc::new(ResourceNode::new(NodeConfig::default()));
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(16);
        let (reader, stop) =
            (Arc::clone(&node), Arc::new(std::sync::atomic::AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let looking = scope.spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                // The channel holds 16 entries, and each of the three threads has one more.
                assert!(reader.concurrency() <= 16 + 3 + 2 * ROUNDS, "never negative");
                let totals = reader.now().snapshot().short.totals;
                assert!(totals.rt_count() <= totals.sum(Success) + totals.sum(Exception));
            }
        });
        let entering: Vec<_> = [sender.clone(), sender]
            .into_iter()
            .map(|sender| {
                let node = Arc::clone(&node);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        sender.send(Entry::enter(Arc::clone(&node))).unwrap();
                    }
                })
            })
            .collect();
        receiver.into_iter().enumerate().for_each(|(number, entry)| match number % 3 {
            0 => entry.success(),
            1 => entry.exception(),
            _ => drop(entry),
        });
        for thread in entering {
            thread.join().unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        looking.join().unwrap();
    });
    let lifetime = node.lifetime();
    let sums = [Pass, Success, Exception].map(|event| lifetime.sum(event));
    assert_eq!(sums, [2 * ROUNDS, 2 * ROUNDS / 3 + 1, 4 * ROUNDS / 3]);
    assert_eq!((lifetime.rt_count(), node.concurrency()), (2 * ROUNDS, 0));
}
