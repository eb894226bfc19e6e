//! Nodes, entries and snapshots, with a manual clock.
#![expect(clippy::float_cmp, reason = "whole numbers divided by a second or half a second")]

mod endings;
mod geometry;
mod in_flight;
mod readings;
mod refused_by;
mod responses;
mod unfinished;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Exception, Pass, ReservedPass, Rt, Success};
use leaparray::node::SecondsCursor;
use leaparray::{
    Clock, Entry, ManualClock, NodeConfig, Outcome, ResourceNode, Timestamp, WindowConfig,
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
    [Pass, Block, Success, Exception].map(|event| node.now().long().sum(event))
}

#[test]
fn entry_ends_once_however_it_ends() {
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
    assert_eq!((node.concurrency(), node.now().short().totals().max_concurrency()), (0, Some(1)));
    assert_eq!(node.now().snapshot().short.totals.rt_count(), 5);
}

#[tokio::test]
async fn future_that_is_cancelled_where_it_awaits_ends_its_entry() {
    let (node, _) = node();
    let request = async {
        let entry = Entry::enter(Arc::clone(&node));
        std::future::pending::<()>().await;
        entry.success();
    };
    assert!(tokio::time::timeout(millis(1), request).await.is_err());
    assert_eq!((minute(&node), node.concurrency()), ([1, 0, 0, 1], 0));
}

#[test]
fn entry_may_end_on_another_thread_and_later() {
    let (node, clock) = node();
    let entries: Vec<_> = (0..5).map(|_| Entry::enter(Arc::clone(&node))).collect();
    assert_eq!(node.concurrency(), 5);
    clock.advance(millis(2_300));
    thread::spawn(move || entries.into_iter().for_each(Entry::success)).join().unwrap();
    assert_eq!(
        (node.concurrency(), node.now().short().sum(Pass), node.now().short().sum(Success)),
        (0, 0, 5)
    );
    assert_eq!(
        [
            node.now().short().totals().avg_rt(),
            node.now().short().totals().min_rt(),
            node.now().short().totals().max_rt()
        ],
        [Some(millis(2_300)); 3]
    );
    // The requests entered four buckets ago, before the short window.
    assert_eq!(node.now().short().totals().max_concurrency(), None);
    assert_eq!(node.now().snapshot().long.totals.max_concurrency(), Some(5));
}

#[test]
fn entry_for_several_permits_is_one_request() {
    let (node, clock) = node();
    let entry = Entry::enter_many_at(&*node, node.clock().now(), 7);
    assert_eq!((node.concurrency(), entry.permits(), entry.started()), (1, 7, NOON));
    assert!(format!("{entry:?}").starts_with("Entry { started: Timestamp"));
    clock.advance(millis(10));
    entry.end_at(NOON.saturating_add(millis(10)), Outcome::Success);
    node.block_many_at(node.clock().now(), 3);
    assert_eq!(minute(&node), [7, 3, 7, 0]);
    assert_eq!(node.now().snapshot().short.totals.rt_count(), 1);
}

#[test]
fn readings_of_a_second_and_of_a_minute() {
    let (node, clock) = node();
    clock.advance(Duration::from_secs(10));
    for _ in 0..4 {
        node.enter().success();
    }
    // The short window now covers half a second.
    clock.advance(millis(500));
    node.enter().exception();
    node.block_many_at(node.clock().now(), 6);
    assert_eq!(
        [Pass, Block, Success, Exception].map(|e| node.now().short().qps(e)),
        [10.0, 12.0, 8.0, 2.0]
    );
    assert_eq!(
        (node.now().snapshot().total_qps(), node.now().short().max_qps(Success)),
        (22.0, 8.0)
    );
    assert_eq!(
        [Pass, Block].map(|event| node.now().short().previous_qps(event)),
        [Some(8.0), Some(0.0)]
    );
    let snapshot = node.now().snapshot();
    assert_eq!(
        (snapshot.previous_pass_qps(), snapshot.previous_block_qps()),
        (Some(8.0), Some(0.0))
    );
    assert_eq!((snapshot.max_success_qps, snapshot.total_qps()), (8.0, 22.0));
    assert_eq!((snapshot.success_qps(), snapshot.exception_qps()), (8.0, 2.0));
    clock.advance(Duration::from_secs(30));
    assert_eq!(
        (node.now().snapshot().total_qps(), node.now().short().previous_qps(Pass)),
        (0.0, Some(0.0))
    );
    assert_eq!(minute(&node), [5, 6, 4, 1]);
    clock.advance(Duration::from_secs(60));
    assert_eq!(minute(&node), [0; 4]);
    let lifetime = node.lifetime();
    assert_eq!([Pass, Block, Success, Exception].map(|event| lifetime.sum(event)), [5, 6, 4, 1]);
}

#[test]
fn permits_of_the_next_bucket() {
    let (node, clock) = node();
    clock.advance(millis(10_400));
    Entry::enter_many_at(&*node, node.clock().now(), 6).success();
    clock.advance(millis(500));
    // In the bucket of 10.5 s. The window that ends with the bucket of 11.0 s covers these two.
    Entry::enter_many_at(&*node, node.clock().now(), 2).success();
    assert!(node.reserve_next_at(node.clock().now(), 5, 6).is_none(), "2 have passed, 4 are free");
    let reservation = node.reserve_next_at(node.clock().now(), 3, 6).unwrap();
    assert_eq!((reservation.permits(), reservation.wait()), (3, millis(100)));
    assert!(node.reserve_next_at(node.clock().now(), 2, 6).is_none(), "1 is free");
    let more = node.reserve_next_at(node.clock().now(), 1, 6).unwrap();
    assert_eq!(
        (node.now().reserved(), node.now().short().sum(Pass), node.now().short().sum(ReservedPass)),
        (4, 8, 0)
    );
    clock.advance(millis(100));
    assert_eq!(
        (node.now().reserved(), node.now().short().sum(Pass), node.now().short().sum(ReservedPass)),
        (0, 6, 4)
    );
    for reservation in [reservation, more] {
        Entry::enter_reserved_at(&*node, node.clock().now(), reservation).success();
    }
    assert_eq!(
        (node.now().short().sum(Pass), node.now().short().sum(Success), node.concurrency()),
        (6, 6, 0)
    );
    clock.advance(Duration::from_secs(5));
    assert_eq!((node.now().short().sum(Pass), node.now().long().sum(Pass)), (0, 12));
    clock.advance(Duration::from_secs(60));
    let lifetime = node.lifetime();
    assert_eq!([Pass, ReservedPass].map(|event| lifetime.sum(event)), [12, 4]);
    assert_eq!(
        node.now().long().ledger().expired.sum(Pass),
        8,
        "reserved permits stay in the window"
    );
}

#[test]
fn permits_of_an_old_bucket_do_not_count_in_a_later_bucket_of_the_same_slot() {
    let (node, clock) = node();
    // The ring of permits has one slot more than the long window has buckets.
    let slots = u32::try_from(node.config().long().sample_count() + 1).unwrap();
    for _ in 0..3 {
        assert!(node.reserve_next_at(node.clock().now(), 5, 5).is_some());
        assert!(node.reserve_next_at(node.clock().now(), 1, 5).is_none());
        assert_eq!(node.now().reserved(), 5);
        clock.advance(node.config().long().bucket_len() * slots);
    }
}

#[test]
fn permits_of_the_last_bucket_of_all_are_counted() {
    let (node, clock) = node();
    let bucket = node.config().long().bucket_len();
    clock.set(Timestamp::MAX.saturating_sub(bucket));
    assert!(node.reserve_next_at(node.clock().now(), 2, 5).is_some());
    assert_eq!(node.now().reserved(), 2);
    clock.set(Timestamp::MAX);
    assert!(node.reserve_next_at(node.clock().now(), 1, 5).is_none());
    assert_eq!(node.now().reserved(), 0);
}

#[test]
fn each_second_is_delivered_once() {
    let (node, clock) = node();
    let cursor = SecondsCursor::new();
    let poll = || node.now().poll_seconds(&cursor).collect::<Vec<_>>();
    clock.advance(millis(700));
    node.enter().success();
    node.block();
    clock.advance(millis(400));
    let held = Entry::enter_many_at(&*node, node.clock().now(), 2);
    assert_eq!(
        poll().iter().map(|item| (item.counts[Pass], item.counts[Block])).collect::<Vec<_>>(),
        [(1, 1)]
    );
    clock.advance(millis(1_000));
    held.exception();
    let [item] = &poll()[..] else { panic!("one second has ended") };
    let second = NOON.saturating_add(millis(1_000));
    assert_eq!(
        (item.second, item.counts[Pass], item.counts[Exception], item.concurrency),
        (second, 2, 0, 1)
    );
    // Five idle seconds, and then a second with permits that were reserved in the second before.
    clock.advance(millis(5_800));
    assert!(node.reserve_next_at(node.clock().now(), 4, 4).is_some());
    clock.advance(millis(2_000));
    let [ended, reservation] = &poll()[..] else { panic!("two seconds have events") };
    assert_eq!((ended.counts[Exception], ended.avg_rt()), (2, Some(millis(1_000))));
    assert_eq!((ended.counts.rt_sum(), ended.counts[Rt]), (millis(1_000), 1));
    assert_eq!((reservation.counts[Pass], reservation.counts[ReservedPass]), (4, 4));
    assert_eq!((poll(), cursor.missed()), (vec![], 0));
    node.block();
    clock.advance(Duration::from_secs(70));
    assert_eq!((poll(), cursor.missed()), (vec![], 11));
    assert_eq!(SecondsCursor::default().missed(), 0);
}

#[test]
fn time_does_not_end_in_the_middle_of_an_entry() {
    let (node, clock) = node();
    for now in [Timestamp::MIN, Timestamp::MAX] {
        clock.set(now);
        node.enter().success();
        node.block();
        let _ = (
            node.now().snapshot(),
            node.now().short().previous_qps(Pass),
            node.now().short().max_qps(Success),
            node.now().reserved(),
        );
        let reservation = node.reserve_next_at(node.clock().now(), 1, 10);
        assert_eq!(reservation.is_some(), now == Timestamp::MIN);
        node.reconfigure(config(1, 60));
        assert_eq!(node.now().long().sum(Block), 1);
    }
    // The request ends at a time before it entered.
    let entry = node.enter_at(NOON);
    entry.end_at(Timestamp::MIN, Outcome::Success);
    assert_eq!(node.concurrency(), 0);
}
