//! The totals of the second that is not complete yet.

use fastrand::Rng;
use leaparray::{Clock, HistogramConfig, MetricTotals, Outcome};

use super::*;

/// Returns the passed and the blocked requests that no complete second has at `now`.
fn unfinished(node: &ResourceNode<ManualClock>, now: Timestamp) -> [u64; 2] {
    let totals = node.at(now).unfinished();
    [Pass, Block].map(|event| totals.sum(event))
}

#[test]
fn idle_node_has_nothing_unfinished() {
    let (node, clock) = node();
    assert_eq!(node.now().unfinished(), MetricTotals::default(), "a new node");
    node.block();
    for secs in [1, 59, 60, 3_600] {
        let later = NOON.saturating_add(millis(secs * 1_000));
        assert_eq!(node.at(later).unfinished(), MetricTotals::default(), "{secs} s later");
    }
    clock.set(Timestamp::MAX);
    assert_eq!(node.now().unfinished(), MetricTotals::default());
    assert_eq!(unfinished(&node, NOON), [0, 1], "the record is still there");
}

#[test]
fn unfinished_second_has_each_kind_of_count() {
    for config in
        [NodeConfig::default(), NodeConfig::default().with_histogram(HistogramConfig::default())]
    {
        let clock = ManualClock::new(NOON);
        let node = ResourceNode::with_clock(config, clock.clone());
        clock.advance(millis(1_300));
        let entries = [(); 4].map(|()| node.enter());
        clock.advance(millis(200));
        node.block_many_at(node.clock().now(), 7);
        let outcomes = [Outcome::Success, Outcome::Success, Outcome::Exception, Outcome::Cancelled];
        for (entry, outcome) in entries.into_iter().zip(outcomes) {
            entry.end_with(outcome);
        }
        // All of it is in one second, in two buckets.
        let unfinished = node.now().unfinished();
        assert_eq!(unfinished, node.lifetime());
        assert_eq!((unfinished.rt_count(), unfinished.max_concurrency()), (3, Some(4)));
        assert_eq!(unfinished.min_rt(), Some(millis(200)));
        clock.advance(millis(499));
        assert_eq!(node.now().unfinished(), unfinished, "until the end of the second");
        clock.advance(millis(1));
        assert_eq!(node.now().unfinished(), MetricTotals::default());
    }
}

#[test]
fn records_ahead_are_unfinished_and_stale_records_are_not() {
    let (node, clock) = node();
    clock.set(NOON.saturating_add(millis(10_700)));
    let now = clock.now();
    let at = |secs: u64| NOON.saturating_add(millis(secs * 1_000));
    node.block_many_at(now, 1);
    node.block_many_at(at(11), 10);
    node.block_many_at(at(12).saturating_add(millis(900)), 100);
    for stale in [at(10).saturating_sub(millis(1)), at(9), at(2), Timestamp::MIN] {
        node.block_many_at(stale, 1_000);
    }
    assert_eq!(unfinished(&node, now), [0, 111]);
    assert_eq!(unfinished(&node, at(11)), [0, 110]);
    assert_eq!(unfinished(&node, at(12)), [0, 100]);
    assert_eq!(unfinished(&node, at(13)), [0, 0]);
    assert_eq!(unfinished(&node, at(9)), [0, 2_111], "the records at 9 s and at 9.999 s");
}

#[test]
fn reserved_permits_of_the_next_bucket_are_unfinished() {
    let (node, clock) = node();
    clock.set(NOON.saturating_add(millis(5_100)));
    node.enter().success();
    assert!(
        node.reserve_next_at(node.clock().now(), 3, 100).is_some(),
        "of the bucket from 5.5 s on"
    );
    assert_eq!(unfinished(&node, clock.now()), [4, 0]);
    clock.set(NOON.saturating_add(millis(5_600)));
    let reservation =
        node.reserve_next_at(node.clock().now(), 20, 100).expect("of the bucket from 6 s on");
    assert_eq!(unfinished(&node, clock.now()), [24, 0]);
    assert_eq!(node.now().unfinished().sum(ReservedPass), 23);
    clock.advance(reservation.wait());
    assert_eq!(unfinished(&node, clock.now()), [20, 0]);
    clock.advance(millis(1_000));
    assert_eq!(unfinished(&node, clock.now()), [0, 0]);
}

#[test]
fn all_geometries_are_unfinished() {
    let (node, clock) = node();
    clock.advance(millis(1_100));
    node.block();
    assert!(
        node.reserve_next_at(node.clock().now(), 1_000, 2_000).is_some(),
        "of the bucket from 1.5 s on"
    );
    node.reconfigure(config(4, 240));
    node.block_many_at(node.clock().now(), 10);
    node.reconfigure(config(10, 600));
    clock.advance(millis(800));
    node.block_many_at(node.clock().now(), 100);
    assert_eq!(unfinished(&node, clock.now()), [1_000, 111]);
    // Back to a geometry whose newest bucket is an earlier one.
    node.reconfigure(NodeConfig::default());
    assert_eq!(unfinished(&node, clock.now()), [1_000, 111]);
    clock.advance(millis(100));
    assert_eq!(unfinished(&node, clock.now()), [0, 0]);
    node.block_many_at(node.clock().now(), 5);
    assert_eq!(unfinished(&node, clock.now()), [0, 5]);
}

/// Each count is in a delivered second, unfinished, or late.
#[test]
fn counts_are_delivered_unfinished_or_late() {
    let mut with_late = 0;
    for seed in 0..40 {
        let (node, clock) = node();
        let (mut random, cursor) = (Rng::with_seed(seed), SecondsCursor::new());
        let (mut delivered, mut late, mut first) = (0, 0, 0);
        for _ in 0..400 {
            let now = clock.now();
            let count = random.u64(1..100);
            match random.u32(..12) {
                0..=2 => clock.advance(millis(random.u64(..900))),
                3 => {
                    let geometries = [NodeConfig::default(), config(4, 240), config(1, 60)];
                    node.reconfigure(geometries[random.usize(..3)]);
                }
                4 => {
                    let _reserved = node.reserve_next_at(node.clock().now(), count, 1_000_000);
                }
                5 => node.block_many_at(now.saturating_add(millis(random.u64(..1_500))), count),
                6 | 7 => {
                    let then = now.saturating_sub(millis(random.u64(..3_000)));
                    node.block_many_at(then, count);
                    late += if then.as_secs() < first { count } else { 0 };
                }
                8 => {
                    let seconds = node.now().poll_seconds(&cursor);
                    delivered += seconds.map(|it| it.counts[Pass] + it.counts[Block]).sum::<u64>();
                    first = now.as_secs();
                }
                9 => {
                    let lifetime = node.lifetime();
                    let parts = [lifetime, node.now().unfinished()];
                    let [all, open] = parts.map(|it| it.sum(Pass) + it.sum(Block));
                    if first == now.as_secs() {
                        assert_eq!(all, delivered + open + late, "seed {seed}");
                    } else {
                        assert!(all >= delivered + open + late, "seed {seed}");
                    }
                }
                _ => node.block_many_at(node.clock().now(), count),
            }
        }
        with_late += u32::from(late > 0);
    }
    assert!(with_late > 30, "{with_late} with late counts");
}

/// While a thread records, lifetime − unfinished is a lower bound, if the lifetime is read first.
#[test]
fn lifetime_read_first_gives_a_lower_bound() {
    let (node, clock) = node();
    node.block_many_at(node.clock().now(), 5);
    clock.advance(millis(1_000));
    let now = clock.now();
    thread::scope(|scope| {
        let recording = scope.spawn(|| (0..20_000).for_each(|_| node.block_many_at(now, 1)));
        loop {
            let is_over = recording.is_finished();
            let lifetime = node.lifetime().sum(Block);
            let unfinished = node.at(now).unfinished().sum(Block);
            assert!(lifetime <= unfinished + 5, "{lifetime} and {unfinished}");
            if is_over {
                break assert_eq!(lifetime, unfinished + 5);
            }
        }
    });
}
