//! The seconds of all resources, each delivered once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Pass, Rt, Success};
use leaparray::registry::{RegistryCursor, ResourceSecond};
use leaparray::{
    Clock, ManualClock, NodeConfig, Registry, RegistryConfig, Timestamp, TrafficType, WindowConfig,
};

use crate::registry::{NOON, SECOND, registry, registry_of, together};

/// A second, the name of a resource and of a context, and the number of blocked requests.
type Row<'a> = (u64, &'a str, Option<&'a str>, u64);

/// The rows of the seconds, counted from noon.
fn rows(seconds: &[ResourceSecond]) -> Vec<Row<'_>> {
    seconds.iter().map(row).collect()
}

fn row(second: &ResourceSecond) -> Row<'_> {
    let ResourceSecond { name, context, metrics, .. } = second;
    (
        metrics.second.saturating_since(NOON).as_secs(),
        name,
        context.as_deref(),
        metrics.counts[Block],
    )
}

fn geometry(secs: u32) -> NodeConfig {
    let window = |len: u32| WindowConfig::new(len as usize, SECOND / 2 * len).unwrap();
    NodeConfig::new(window(2), window(2 * secs)).unwrap()
}

fn block(registry: &Registry<ManualClock>, name: &str, count: u64) {
    registry.resource(name).unwrap().block_many_at(registry.clock().now(), count);
}

fn evict_all(registry: &Registry<ManualClock>) -> usize {
    registry.evict_idle_at(registry.clock().now(), Duration::ZERO)
}

#[test]
fn each_second_of_each_resource_and_context_is_delivered_once() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    let poll = || registry.now().poll_seconds(&cursor);
    let [orders, _idle] = ["orders", "idle"].map(|name| registry.resource(name).unwrap());
    let database = registry.resource_with("database", TrafficType::Outbound).unwrap();
    let web = orders.in_context("web").unwrap();
    orders.block_many_at(orders.clock().now(), 1);
    web.block_many_at(web.clock().now(), 2);
    let slow = database.enter();
    assert_eq!(rows(&poll()), [], "the second is not over");
    clock.advance(SECOND);
    slow.success();
    orders.block_many_at(orders.clock().now(), 3);
    clock.advance(SECOND);

    let seconds = poll();
    let expected: [Row<'_>; 5] = [
        (0, "database", None, 0),
        (0, "orders", None, 1),
        (0, "orders", Some("web"), 2),
        (1, "database", None, 0),
        (1, "orders", None, 3),
    ];
    assert_eq!(rows(&seconds), expected);
    let [entered, _, _, ended, _] = &seconds[..] else { unreachable!() };
    assert_eq!((entered.metrics.counts[Pass], entered.metrics.counts[Rt]), (1, 0));
    assert_eq!((ended.metrics.counts[Success], ended.metrics.counts.rt_sum()), (1, SECOND));
    assert_eq!(
        (entered.traffic_type, seconds[1].traffic_type),
        (TrafficType::Outbound, TrafficType::Inbound)
    );
    assert_eq!(rows(&poll()), []);
    clock.advance(SECOND * 5);
    assert_eq!(rows(&poll()), [], "all were idle");

    // A second that has left the window is missed.
    web.block_many_at(web.clock().now(), 4);
    clock.advance(SECOND * 65);
    web.block_many_at(web.clock().now(), 5);
    clock.advance(SECOND);
    assert_eq!(rows(&poll()), [(72, "orders", Some("web"), 5)]);
    assert_eq!(cursor.missed(), 7, "from the seventh up to the thirteenth");
}

#[test]
fn undelivered_seconds_of_an_evicted_resource_are_delivered() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    let poll = || registry.now().poll_seconds(&cursor);
    assert_eq!(rows(&poll()), []);
    block(&registry, "a", 1);
    clock.advance(SECOND);
    assert_eq!(rows(&poll()), [(0, "a", None, 1)]);
    block(&registry, "a", 2);
    registry
        .resource("a")
        .unwrap()
        .in_context("web")
        .unwrap()
        .block_many_at(registry.clock().now(), 3);
    clock.advance(SECOND);
    block(&registry, "a", 4);
    assert_eq!(evict_all(&registry), 1);
    let expected: [Row<'_>; 2] = [(1, "a", None, 2), (1, "a", Some("web"), 3)];
    assert_eq!(rows(&poll()), expected, "not again the second that was delivered");
    clock.advance(SECOND);
    assert_eq!(rows(&poll()), [(2, "a", None, 4)], "the second was not over");
    clock.advance(SECOND);
    assert_eq!(rows(&poll()), []);
}

#[test]
fn resource_that_is_evicted_right_after_a_poll_is_not_delivered_again() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    block(&registry, "a", 1);
    clock.advance(SECOND);
    assert_eq!(rows(&registry.now().poll_seconds(&cursor)), [(0, "a", None, 1)]);
    assert_eq!(evict_all(&registry), 1);
    for _ in 0..3 {
        assert_eq!(rows(&registry.now().poll_seconds(&cursor)), []);
        clock.advance(SECOND);
    }
}

#[test]
fn removed_resource_is_delivered_while_it_has_handles_and_after() {
    // The resource is reclaimed by a poll, or by a read of the totals before it.
    deliver_removed(|_| {});
    deliver_removed(|registry| {
        registry.lifetime();
    });
}

fn deliver_removed(reclaim: impl Fn(&Registry<ManualClock>)) {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    let poll = || registry.now().poll_seconds(&cursor);
    poll();
    let held = registry.resource("a").unwrap();
    held.block_many_at(held.clock().now(), 1);
    assert!(registry.remove("a"));
    clock.advance(SECOND);
    held.block_many_at(held.clock().now(), 2);
    assert_eq!(rows(&poll()), [(0, "a", None, 1)]);
    clock.advance(SECOND);
    held.in_context("web").unwrap().block_many_at(held.clock().now(), 3);
    assert_eq!(rows(&poll()), [(1, "a", None, 2)]);
    clock.advance(SECOND);
    held.block_many_at(held.clock().now(), 4);
    drop(held);
    reclaim(&registry);
    assert_eq!(rows(&poll()), [(2, "a", Some("web"), 3)]);
    clock.advance(SECOND);
    assert_eq!(registry.lifetime().sum(Block), 10);
    assert_eq!(rows(&poll()), [(3, "a", None, 4)]);
}

#[test]
fn resource_that_is_listed_again_in_the_same_second_has_one_item() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    registry.now().poll_seconds(&cursor);
    block(&registry, "a", 1);
    assert_eq!(evict_all(&registry), 1);
    block(&registry, "a", 2);
    let held = registry.resource("a").unwrap();
    assert!(registry.remove("a"));
    held.block_many_at(held.clock().now(), 4);
    block(&registry, "a", 8);
    registry
        .resource("a")
        .unwrap()
        .in_context("web")
        .unwrap()
        .block_many_at(registry.clock().now(), 16);
    clock.advance(SECOND);
    block(&registry, "a", 32);
    let expected: [Row<'_>; 2] = [(0, "a", None, 15), (0, "a", Some("web"), 16)];
    assert_eq!(rows(&registry.now().poll_seconds(&cursor)), expected);

    // A name with two directions in one second is two resources.
    drop(held);
    assert!(registry.remove("a"));
    registry
        .resource_with("a", TrafficType::Outbound)
        .unwrap()
        .block_many_at(registry.clock().now(), 64);
    clock.advance(SECOND);
    let expected: [Row<'_>; 2] = [(1, "a", None, 32), (1, "a", None, 64)];
    assert_eq!(rows(&registry.now().poll_seconds(&cursor)), expected);
}

#[test]
fn seconds_are_delivered_under_any_change_of_the_geometry() {
    let (registry, clock) = registry_of(RegistryConfig::default().node(geometry(10)));
    let cursor = RegistryCursor::new();
    registry.now().poll_seconds(&cursor);
    let held = registry.resource("held").unwrap();
    held.block_many_at(held.clock().now(), 1);
    block(&registry, "evicted", 2);
    registry.reconfigure(geometry(30));
    held.block_many_at(held.clock().now(), 4);
    block(&registry, "evicted", 8);
    assert_eq!(evict_all(&registry), 1);
    clock.advance(SECOND * 9);
    registry.reconfigure(geometry(5));
    // Five seconds are in the window, and the oldest of them is not whole.
    assert_eq!((rows(&registry.now().poll_seconds(&cursor)), cursor.missed()), (vec![], 5));

    // A resource can have a longer or a shorter window than the registry.
    let short = registry.resource_with("short", geometry(2)).unwrap();
    let long = registry.resource_with("long", geometry(60)).unwrap();
    short.block();
    long.block();
    clock.advance(SECOND * 4);
    // The registry's window still has the second, the window of `short` no longer.
    let expected: [Row<'_>; 1] = [(9, "long", None, 1)];
    assert_eq!(rows(&registry.now().poll_seconds(&cursor)), expected);
}

#[test]
fn two_cursors_deliver_each_second_once_each() {
    let (registry, clock) = registry();
    let [often, seldom] = [(); 2].map(|()| RegistryCursor::new());
    for cursor in [&often, &seldom] {
        registry.now().poll_seconds(cursor);
    }
    let mut all = Vec::new();
    for second in 0..4 {
        block(&registry, "a", second + 1);
        assert_eq!(evict_all(&registry), 1);
        clock.advance(SECOND);
        let seconds = registry.now().poll_seconds(&often);
        assert_eq!(rows(&seconds), [(second, "a", None, second + 1)]);
        all.extend(seconds);
    }
    assert_eq!(registry.now().poll_seconds(&seldom), all);
    assert_eq!(rows(&registry.now().poll_seconds(&seldom)), []);
}

#[test]
fn cursor_that_is_older_than_its_first_poll_finds_what_is_listed() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::default();
    block(&registry, "evicted", 1);
    assert_eq!(evict_all(&registry), 1);
    block(&registry, "listed", 2);
    clock.advance(SECOND);
    // Nothing is kept for a cursor that has not polled yet.
    assert_eq!(rows(&registry.now().poll_seconds(&cursor)), [(0, "listed", None, 2)]);
}

#[test]
fn last_second_of_time_is_kept_and_not_delivered() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    registry.now().poll_seconds(&cursor);
    clock.set(Timestamp::MAX.saturating_sub(SECOND));
    block(&registry, "a", 1);
    clock.set(Timestamp::MAX);
    block(&registry, "a", 2);
    assert_eq!(evict_all(&registry), 1);
    let seconds = registry.now().poll_seconds(&cursor);
    assert_eq!(seconds.iter().map(|it| it.metrics.counts[Block]).collect::<Vec<_>>(), [1]);
    assert_eq!(rows(&registry.now().poll_seconds(&cursor)), []);
}

/// Threads record in, evict, remove and poll the same resources. No thread reads the clock, and
/// records later: the time advances while no thread records.
#[test]
fn seconds_that_threads_poll_together_add_up_to_the_lifetime_totals() {
    const SECONDS: u64 = 40;
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    registry.now().poll_seconds(&cursor);
    let (recording, ended) = (RwLock::new(()), AtomicU64::new(0));
    let delivered = Mutex::new(HashMap::new());
    let deliver = |seconds: &mut Vec<ResourceSecond>| {
        registry.now().poll_seconds_into(&cursor, seconds);
        let mut delivered = delivered.lock().unwrap();
        for ResourceSecond { name, context, metrics, .. } in seconds.drain(..) {
            let key = (metrics.second, name, context);
            assert!(delivered.insert(key, metrics).is_none(), "a second was delivered twice");
        }
    };
    let is_over = AtomicBool::new(false);
    together(|number| {
        let mut seconds = Vec::new();
        if number == 0 {
            for second in 1..=SECONDS {
                // Enough records in each second, for any scheduling of the threads. The wait is
                // limited.
                let is_enough = || ended.load(Ordering::Relaxed) >= 50 * second;
                (0..10_000).take_while(|_| !is_enough()).for_each(|_| thread::yield_now());
                let _no_thread_records = recording.write().unwrap();
                clock.advance(SECOND);
            }
            is_over.store(true, Ordering::Relaxed);
        }
        let mut turn = 0;
        while !is_over.load(Ordering::Relaxed) {
            turn += 1;
            let name = ["a", "b", "c"][(turn + number) % 3];
            {
                let _time_stands = recording.read().unwrap();
                let resource = registry.resource(name).unwrap();
                let web = resource.in_context("web").unwrap();
                web.block();
                resource.enter().success();
                ended.fetch_add(1, Ordering::Relaxed);
                if turn % 5 == 0 {
                    registry.remove(name);
                }
                // A removed resource still has handles.
                resource.enter().success();
                ended.fetch_add(1, Ordering::Relaxed);
            }
            match turn % 3 {
                0 => deliver(&mut seconds),
                1 => assert!(registry.lifetime().sum(Pass) > 0),
                _ => {
                    evict_all(&registry);
                }
            }
        }
    });
    clock.advance(SECOND);
    deliver(&mut Vec::new());
    let lifetime = registry.lifetime();
    let delivered = delivered.into_inner().unwrap();
    let sum =
        |of: fn(&leaparray::metric::SecondMetrics) -> u64| delivered.values().map(of).sum::<u64>();
    assert_eq!(sum(|it| it.counts[Success]), ended.into_inner());
    assert_eq!(
        [
            sum(|it| it.counts[Pass]),
            sum(|it| it.counts[Success]),
            sum(|it| it.counts[Block]),
            sum(|it| it.counts[Rt])
        ],
        [lifetime.sum(Pass), lifetime.sum(Success), lifetime.sum(Block), lifetime.rt_count()]
    );
    let rt_sum = delivered.values().map(|it| it.counts.rt_sum()).sum::<Duration>();
    assert_eq!((rt_sum, cursor.missed()), (lifetime.rt_sum(), 0));
}

#[test]
fn time_that_is_ahead_of_the_clock_skips_no_second() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    registry.now().poll_seconds(&cursor);
    registry.resource("orders").unwrap().block();
    let an_hour_ahead = clock.now().saturating_add(SECOND * 3_600);
    assert!(registry.at(an_hour_ahead).poll_seconds(&cursor).is_empty());
    clock.advance(SECOND);
    assert_eq!(registry.now().poll_seconds(&cursor).len(), 1);
    assert_eq!(cursor.missed(), 0);
}

#[test]
fn eviction_at_a_time_that_is_ahead_keeps_the_undelivered_seconds() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    registry.now().poll_seconds(&cursor);
    for number in 0..200 {
        registry.resource(&number.to_string()).unwrap().block();
    }
    let an_hour_ahead = clock.now().saturating_add(SECOND * 3_600);
    assert_eq!(registry.evict_idle_at(an_hour_ahead, Duration::ZERO), 200);
    clock.advance(SECOND);
    assert_eq!(registry.now().poll_seconds(&cursor).len(), 200);
}
