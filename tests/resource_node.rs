//! Nodes, entries and snapshots, by a clock that is set by hand.
#![expect(clippy::float_cmp, reason = "whole numbers over a second, or over half of one")]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Exception, OccupiedPass, Pass, Success};
use leaparray::{
    Clock, Entry, ManualClock, NodeConfig, NodeConfigError, ResourceNode, SecondsCursor, Timestamp,
    ViewError, WindowConfig,
};

const NOON: Timestamp = Timestamp::from_secs(43_200);
const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn node() -> (Arc<ResourceNode<ManualClock>>, ManualClock) {
    let clock = ManualClock::new(NOON);
    (Arc::new(ResourceNode::with_clock(NodeConfig::default(), clock.clone())), clock)
}

fn config(second: usize, minute: usize) -> NodeConfig {
    let second = WindowConfig::new(second, Duration::from_secs(1)).unwrap();
    NodeConfig::new(second, WindowConfig::new(minute, Duration::from_secs(60)).unwrap()).unwrap()
}

fn minute(node: &ResourceNode<ManualClock>) -> [u64; 4] {
    [Pass, Block, Success, Exception].map(|event| node.minute_sum(event))
}

#[test]
fn what_a_geometry_must_be() {
    let window = |samples, secs| WindowConfig::new(samples, Duration::from_secs(secs)).unwrap();
    let no_view = ViewError::IntervalNotADivisor {
        view: Duration::from_secs(7),
        array: Duration::from_secs(60),
    };
    assert_eq!(
        NodeConfig::new(window(14, 7), window(120, 60)),
        Err(NodeConfigError::NoView(no_view))
    );
    assert_eq!(
        NodeConfig::new(window(2, 3), window(40, 60)),
        Err(NodeConfigError::NoWholeSeconds { bucket_len: millis(1_500) })
    );
}

#[test]
fn an_entry_ends_once_however_it_ends() {
    let (node, clock) = node();
    node.enter().success();
    node.enter().exception();
    drop(node.enter());
    let early_return = || -> Option<()> {
        let entry = node.enter();
        None::<()>?;
        entry.success();
        Some(())
    };
    assert_eq!(early_return(), None);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _entry = node.enter();
        panic!("in the middle of a request");
    }));
    assert!(panicked.is_err());
    clock.advance(millis(1));
    assert_eq!(minute(&node), [5, 0, 1, 4]);
    assert_eq!((node.concurrency(), node.max_concurrency()), (0, Some(1)));
    assert_eq!(node.snapshot().second.totals.rt_count(), 5);
}

#[tokio::test]
async fn a_future_that_is_cancelled_where_it_awaits_ends_its_entry() {
    let (node, _) = node();
    let request = async {
        let entry = Arc::clone(&node).enter_owned();
        std::future::pending::<()>().await;
        entry.success();
    };
    assert!(tokio::time::timeout(millis(1), request).await.is_err());
    assert_eq!((minute(&node), node.concurrency()), ([1, 0, 0, 1], 0));
}

#[test]
fn an_entry_may_end_on_another_thread_and_later() {
    let (node, clock) = node();
    let entries: Vec<_> = (0..5).map(|_| Arc::clone(&node).enter_owned()).collect();
    assert_eq!(node.concurrency(), 5);
    clock.advance(millis(2_300));
    thread::spawn(move || entries.into_iter().for_each(Entry::success)).join().unwrap();
    assert_eq!((node.concurrency(), node.qps(Pass), node.qps(Success)), (0, 0.0, 5.0));
    assert_eq!([node.avg_rt(), node.min_rt(), node.max_rt()], [Some(millis(2_300)); 3]);
    // It entered three buckets ago.
    assert_eq!(node.max_concurrency(), None);
    assert_eq!(node.snapshot().minute.totals.max_concurrency(), Some(5));
}

#[test]
fn several_permits_are_one_request() {
    let (node, clock) = node();
    let entry = node.enter_many(7);
    assert_eq!(node.concurrency(), 1);
    clock.advance(millis(10));
    entry.success();
    node.block_many(3);
    assert_eq!(minute(&node), [7, 3, 7, 0]);
    assert_eq!(node.snapshot().second.totals.rt_count(), 1);
}

#[test]
fn the_readings_of_a_second_and_of_a_minute() {
    let (node, clock) = node();
    clock.advance(Duration::from_secs(10));
    for _ in 0..4 {
        node.enter().success();
    }
    clock.advance(millis(500));
    node.enter().exception();
    node.block_many(6);
    assert_eq!([Pass, Block, Success, Exception].map(|e| node.qps(e)), [5.0, 6.0, 4.0, 1.0]);
    assert_eq!((node.total_qps(), node.max_qps(Success)), (11.0, 8.0));
    assert_eq!([Pass, Block].map(|event| node.previous_qps(event)), [Some(8.0), Some(0.0)]);
    let snapshot = node.snapshot();
    assert_eq!(
        (snapshot.previous_pass_qps(), snapshot.previous_block_qps()),
        (Some(8.0), Some(0.0))
    );
    assert_eq!((snapshot.max_success_qps, snapshot.total_qps()), (8.0, 11.0));
    assert_eq!((snapshot.success_qps(), snapshot.exception_qps()), (4.0, 1.0));
    clock.advance(Duration::from_secs(30));
    assert_eq!((node.total_qps(), node.previous_qps(Pass)), (0.0, Some(0.0)));
    assert_eq!(minute(&node), [5, 6, 4, 1]);
    clock.advance(Duration::from_secs(60));
    assert_eq!(minute(&node), [0; 4]);
    let lifetime = node.lifetime();
    assert_eq!([Pass, Block, Success, Exception].map(|event| lifetime.sum(event)), [5, 6, 4, 1]);
}

#[test]
fn the_highest_concurrency_of_one_thread_is_exact() {
    let (node, clock) = node();
    let mut under_way = Vec::new();
    let highest = [3, 1, 5, 2].map(|count| {
        under_way.resize_with(count, || None);
        for place in &mut under_way {
            place.get_or_insert_with(|| node.enter());
        }
        node.max_concurrency()
    });
    assert_eq!(highest, [3, 3, 5, 5].map(Some));
    clock.advance(millis(1_000));
    assert_eq!(node.max_concurrency(), None);
    under_way.push(Some(node.enter()));
    assert_eq!(node.max_concurrency(), Some(3), "of a new bucket");
}

#[test]
fn first_request_in_a_bucket_is_in_its_highest_concurrency() {
    let (node, clock) = node();
    clock.advance(Duration::from_nanos(499_999_999));
    node.enter().success();
    // The thread has looked at the gauge a nanosecond ago, but not in this bucket.
    clock.advance(Duration::from_nanos(1));
    node.enter().success();
    clock.advance(millis(500));
    assert_eq!(node.max_concurrency(), Some(1));
}

#[test]
fn shorter_geometry_that_is_left_counts_once_in_a_longer_one() {
    let (node, clock) = node();
    let minute = WindowConfig::new(4, Duration::from_secs(2)).unwrap();
    node.reconfigure(
        NodeConfig::new(WindowConfig::new(2, Duration::from_secs(1)).unwrap(), minute).unwrap(),
    );
    for _ in 0..3 {
        node.enter().success();
        clock.advance(millis(500));
    }
    node.reconfigure(NodeConfig::default());
    assert_eq!(node.minute_sum(Pass), 3);
    assert_eq!(node.snapshot().minute.totals.sum(Pass), 3);
    clock.advance(Duration::from_secs(57));
    assert_eq!(node.minute_sum(Pass), 3);
    clock.advance(Duration::from_secs(3));
    assert_eq!(node.minute_sum(Pass), 0);
}

/// Runs on a thread of its own, and is over when the thread's locals are gone.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn requests_of_ended_threads_stay_in_flight() {
    let (node, clock) = node();
    let enter = |count| (0..count).map(|_| node.clone().enter_owned()).collect::<Vec<_>>();
    let first = on_a_thread(|| enter(3));
    let mut in_flight = first.len() as u64;
    // In each new bucket one cell is retired; before that, and after it, a thread may adopt it.
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

/// Enters when the thread that has it ends, and passes the request on.
struct EntersAtTheEnd(Arc<ResourceNode<ManualClock>>, mpsc::Sender<OwnedEntry>);

type OwnedEntry = Entry<Arc<ResourceNode<ManualClock>>, ManualClock>;

impl Drop for EntersAtTheEnd {
    fn drop(&mut self) {
        self.1.send(self.0.clone().enter_owned()).unwrap();
    }
}

#[test]
fn request_of_a_thread_that_is_ending_is_in_flight() {
    thread_local! {
        static AT_THE_END: RefCell<Option<EntersAtTheEnd>> = const { RefCell::new(None) };
    }
    // Thread locals end in the order in which they began, or in the reverse: try both.
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
        assert_eq!(node.concurrency(), 1, "cache first: {cache_first}");
        entries.recv().unwrap().success();
        assert_eq!(node.concurrency(), 0, "cache first: {cache_first}");
    }
}

#[test]
fn counts_stay_when_the_geometry_changes_and_when_it_changes_back() {
    let (node, clock) = node();
    clock.advance(Duration::from_secs(100));
    let passes = |geometry: NodeConfig| {
        node.reconfigure(geometry);
        assert_eq!(*node.config(), geometry);
        node.enter().success();
        (node.qps(Pass), node.minute_sum(Pass), node.lifetime().sum(Pass))
    };
    assert_eq!(passes(NodeConfig::default()), (1.0, 1, 1));
    assert_eq!(passes(config(10, 600)), (2.0, 2, 2));
    clock.advance(millis(700));
    // Half a second that began 700 ms ago is partly outside of the last tenths.
    assert_eq!(passes(config(10, 600)), (3.0, 3, 3));
    assert_eq!(passes(config(1, 60)), (4.0, 4, 4));
    clock.advance(millis(400));
    // Buckets of half a second that lie within the last one: 100.5 s and 101 s.
    assert_eq!(passes(NodeConfig::default()), (2.0 + 0.0, 5, 5));
    assert_eq!(node.max_qps(Success), 2.0);
    assert_eq!(node.concurrency(), 0);
    clock.advance(Duration::from_secs(61));
    assert_eq!((node.minute_sum(Pass), node.lifetime().sum(Pass)), (0, 5));
    assert_eq!(node.account().recorded(), node.lifetime());
}

#[test]
fn a_ring_that_is_left_keeps_its_counts_for_a_longer_window() {
    let (node, clock) = node();
    clock.advance(Duration::from_secs(100));
    let ten_seconds = WindowConfig::new(20, Duration::from_secs(10)).unwrap();
    node.reconfigure(NodeConfig::new(*config(2, 120).second(), ten_seconds).unwrap());
    node.enter_many(7).success();
    node.reconfigure(NodeConfig::default());
    for secs in [9, 11, 59, 60] {
        clock.set(NOON.saturating_add(Duration::from_secs(100 + secs)));
        assert_eq!(node.minute_sum(Pass), if secs < 60 { 7 } else { 0 }, "{secs} s later");
    }
    // And where it begins with time itself.
    clock.set(Timestamp::MIN);
    let node = ResourceNode::with_clock(config(1, 60), clock.clone());
    let short = WindowConfig::new(1, Duration::from_secs(1)).unwrap();
    node.reconfigure(NodeConfig::new(short, short).unwrap());
    node.block();
    clock.advance(Duration::from_secs(1));
    node.block();
    node.reconfigure(config(1, 60));
    clock.advance(Duration::from_secs(9));
    assert_eq!(node.minute_sum(Block), 1, "the other one has left its ring");
}

#[test]
fn a_limit_is_one_for_all_geometries_and_for_who_comes_late() {
    let (node, clock) = node();
    clock.advance(millis(450));
    assert!(node.try_occupy_next(5, 5).is_some());
    node.reconfigure(config(10, 600));
    assert!(node.try_occupy_next(1, 5).is_none());
    assert_eq!(node.waiting(), 5);
    clock.advance(millis(60));
    assert!(node.try_occupy_next(1, 6).is_some());
    let late = clock.now().saturating_sub(millis(100));
    assert!(node.try_occupy_next_at(late, 6, 11).is_none(), "five and one are taken");
    assert!(node.try_occupy_next_at(late, 5, 11).is_some());
}

#[test]
fn a_long_window_of_less_than_two_seconds() {
    let (node, clock) = node();
    let tenth = WindowConfig::new(10, millis(100)).unwrap();
    node.reconfigure(NodeConfig::new(tenth, tenth).unwrap());
    let cursor = SecondsCursor::new();
    for _ in 0..5 {
        clock.advance(millis(1));
        assert_eq!((node.poll_seconds(&cursor).count(), cursor.missed()), (0, 0));
    }
    let second = WindowConfig::new(1, Duration::from_secs(1)).unwrap();
    let halves = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    node.reconfigure(NodeConfig::new(second, halves).unwrap());
    assert_eq!((node.snapshot().previous, node.previous_qps(Pass)), (None, None));
}

#[test]
fn a_younger_geometry_knows_how_old_the_node_is() {
    let (node, clock) = node();
    clock.advance(millis(500));
    node.reconfigure(config(10, 600));
    node.enter_many(12).success();
    assert!((node.qps(Pass) - 12.0 / 0.6).abs() < 1e-9, "six tenths of a second");
}

#[test]
fn permits_of_the_next_bucket() {
    let (node, clock) = node();
    clock.advance(millis(10_400));
    node.enter_many(6).success();
    clock.advance(millis(500));
    // In bucket 10.5 s; the window that ends with 11.0 s covers this and that one.
    node.enter_many(2).success();
    assert!(node.try_occupy_next(5, 6).is_none(), "2 are there, 4 are free");
    let occupied = node.try_occupy_next(3, 6).unwrap();
    assert_eq!((occupied.permits(), occupied.wait()), (3, millis(100)));
    assert!(node.try_occupy_next(2, 6).is_none(), "1 is free");
    let more = node.try_occupy_next(1, 6).unwrap();
    assert_eq!((node.waiting(), node.qps(Pass), node.qps(OccupiedPass)), (4, 8.0, 0.0));
    clock.advance(millis(100));
    assert_eq!((node.waiting(), node.qps(Pass), node.qps(OccupiedPass)), (0, 6.0, 4.0));
    for occupied in [occupied, more] {
        node.enter_occupied(occupied).success();
    }
    assert_eq!((node.qps(Pass), node.qps(Success), node.concurrency()), (6.0, 6.0, 0));
    clock.advance(Duration::from_secs(5));
    assert_eq!((node.qps(Pass), node.minute_sum(Pass)), (0.0, 12));
    clock.advance(Duration::from_secs(60));
    let lifetime = node.lifetime();
    assert_eq!([Pass, OccupiedPass].map(|event| lifetime.sum(event)), [12, 4]);
    assert_eq!(node.account().expired.sum(Pass), 8, "what was borrowed is not told apart");
}

#[test]
fn each_second_is_delivered_once() {
    let (node, clock) = node();
    let cursor = SecondsCursor::new();
    let poll = || node.poll_seconds(&cursor).collect::<Vec<_>>();
    clock.advance(millis(700));
    node.enter().success();
    node.block();
    clock.advance(millis(400));
    let held = node.enter_many(2);
    assert_eq!(poll().iter().map(|item| (item.pass, item.block)).collect::<Vec<_>>(), [(1, 1)]);
    clock.advance(millis(1_000));
    held.exception();
    let [item] = &poll()[..] else { panic!("one second was over") };
    let second = NOON.saturating_add(millis(1_000));
    assert_eq!((item.second, item.pass, item.exception, item.concurrency), (second, 2, 0, 1));
    // Five idle seconds, and then one with a permit that was taken in the one before.
    clock.advance(millis(5_800));
    assert!(node.try_occupy_next(4, 4).is_some());
    clock.advance(millis(2_000));
    let [ended, occupied] = &poll()[..] else { panic!("two in which something happened") };
    assert_eq!((ended.exception, ended.avg_rt), (2, Some(millis(1_000))));
    assert_eq!((occupied.pass, occupied.occupied_pass), (4, 4));
    assert_eq!((poll(), cursor.missed()), (vec![], 0));
    node.block();
    clock.advance(Duration::from_secs(70));
    assert_eq!((poll(), cursor.missed()), (vec![], 11));
    assert_eq!(SecondsCursor::default().missed(), 0);
}

#[test]
fn seconds_survive_a_change_of_the_geometry() {
    let (node, clock) = node();
    let cursor = SecondsCursor::new();
    node.block();
    node.reconfigure(config(10, 600));
    node.block_many(2);
    clock.advance(millis(1_000));
    let blocks: Vec<_> = node.poll_seconds(&cursor).map(|item| item.block).collect();
    assert_eq!(blocks, [3]);
}

#[test]
fn time_does_not_end_in_the_middle_of_an_entry() {
    let (node, clock) = node();
    for now in [Timestamp::MIN, Timestamp::MAX] {
        clock.set(now);
        node.enter().success();
        node.block();
        let _ = (node.snapshot(), node.previous_qps(Pass), node.max_qps(Success), node.waiting());
        let occupied = node.try_occupy_next(1, 10);
        assert_eq!(occupied.is_some(), now == Timestamp::MIN);
        node.reconfigure(config(1, 60));
        assert_eq!(node.minute_sum(Block), 1);
    }
    // Ended before it began.
    let entry = node.enter_at(NOON);
    entry.success_at(Timestamp::MIN);
    assert_eq!(node.concurrency(), 0);
}

#[test]
fn the_books_balance_when_threads_enter_and_end_each_others() {
    const ROUNDS: u64 = 20_000;
    let node = Arc::new(ResourceNode::new(NodeConfig::default()));
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(16);
        let (reader, stop) =
            (Arc::clone(&node), Arc::new(std::sync::atomic::AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let looking = scope.spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                // 16 wait, each of the three threads has one more in hand.
                assert!(reader.concurrency() <= 16 + 3 + 2 * ROUNDS, "never negative");
                let totals = reader.snapshot().second.totals;
                assert!(totals.rt_count() <= totals.sum(Success) + totals.sum(Exception));
            }
        });
        let entering: Vec<_> = [sender.clone(), sender]
            .into_iter()
            .map(|sender| {
                let node = Arc::clone(&node);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        sender.send(Arc::clone(&node).enter_owned()).unwrap();
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
