//! Evicted and removed resources, and their counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Exception, Pass, Success};
use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
use leaparray::node::SecondsCursor;
use leaparray::{Clock, Entry, ManualClock, RegistryConfig, Resource, TrafficType};

use crate::registry::{SECOND, names, registry, registry_of, together};

#[test]
fn idle_resource_without_handles_is_evicted() {
    let (registry, clock) = registry();
    let minute = SECOND * 60;
    let resource = |name| registry.resource(name).unwrap();
    resource("never used");
    resource("used").enter().success();
    let held = resource("held");
    let context = resource("in a context").in_context("web").unwrap();
    assert_eq!(
        registry.evict_idle_at(registry.clock().now(), SECOND),
        0,
        "the resources have just been made"
    );

    clock.advance(minute);
    resource("used").block();
    context.block();
    drop(context);
    clock.advance(minute / 2);
    assert_eq!(registry.evict_idle_at(registry.clock().now(), minute), 1);
    assert_eq!(names(&registry), ["held", "in a context", "used"]);
    // A resource is idle from the end of its last bucket, half a second after the start of that
    // bucket.
    clock.advance(minute / 2 + Duration::from_millis(499));
    assert_eq!(registry.evict_idle_at(registry.clock().now(), minute), 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(registry.evict_idle_at(registry.clock().now(), minute), 2);
    assert_eq!(names(&registry), ["held"]);

    // The entry has taken the handle, and keeps the resource listed.
    let entry = Entry::enter(held);
    clock.advance(minute * 10);
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 0);
    entry.success();
    assert_eq!(
        registry.evict_idle_at(registry.clock().now(), minute),
        0,
        "the request has just ended"
    );
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    assert!(registry.is_empty());
    let lifetime = registry.lifetime();
    assert_eq!([Pass, Block, Success].map(|event| lifetime.sum(event)), [2, 2, 2]);
}

#[test]
fn permits_of_the_future_are_no_idleness() {
    let (registry, _) = registry();
    let taken =
        registry.resource("a").unwrap().reserve_next_at(registry.clock().now(), 1, 1).unwrap();
    let one_bucket_later = taken.begins().saturating_add(Duration::from_millis(499));
    assert_eq!(registry.evict_idle_at(one_bucket_later, Duration::from_nanos(1)), 0);
    let later = one_bucket_later.saturating_add(SECOND);
    assert_eq!(registry.evict_idle_at(later, Duration::from_nanos(1)), 1);
    assert_eq!(registry.lifetime().sum(Pass), 1);
}

/// Threads look resources up, record, and drop the handles, while another thread evicts and removes
/// resources.
#[test]
fn counts_balance_while_others_evict_and_remove() {
    const ROUNDS: u64 = 3_000;
    let (registry, _) = registry();
    let (registry, done, gone) = (&registry, &AtomicBool::new(false), &AtomicU64::new(0));
    let all = thread::scope(|scope| {
        scope.spawn(move || {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let evicted = registry.evict_idle_at(registry.clock().now(), Duration::ZERO)
                    + usize::from(registry.remove("b"));
                gone.fetch_add(evicted as u64, Ordering::Relaxed);
                let passes = registry.lifetime().sum(Pass);
                assert!(passes >= last, "lifetime totals went back from {last} to {passes}");
                last = passes;
            }
        });
        let rounds = together(|_| {
            let mut rounds = 0;
            // Until enough resources are evicted or removed, for any scheduling of the threads. The
            // rounds are limited.
            let is_enough = || gone.load(Ordering::Relaxed) >= 10;
            while rounds < ROUNDS || (rounds < 100 * ROUNDS && !is_enough()) {
                for (round, name) in (0..12).zip(["a", "b", "c"].into_iter().cycle()) {
                    record(&registry.resource(name).unwrap(), round % 4);
                }
                rounds += 12;
            }
            rounds
        });
        done.store(true, Ordering::Relaxed);
        rounds.into_iter().sum::<u64>()
    });
    let lifetime = registry.lifetime();
    assert_eq!([Pass, Success, Exception].map(|e| lifetime.sum(e)), [all, all / 4 * 3, all / 4]);
    assert_eq!(lifetime.rt_count(), all);
    assert!(registry.len() <= 3 && registry.len() == registry.iter().count());
    assert_eq!(registry.refused(), 0);
}

/// Records one request, in one of four ways.
fn record(resource: &Resource<ManualClock>, way: u32) {
    match way {
        0 => resource.enter().success(),
        1 => resource.in_context("web").unwrap().enter().exception(),
        2 => Entry::enter(resource.clone()).success(),
        _ => Entry::enter(resource.in_context("web").unwrap()).success(),
    }
}

#[test]
fn held_resource_that_was_not_removed_is_listed() {
    let (registry, _) = registry();
    let (registry, done) = (&registry, &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
            }
        });
        together(|_| {
            for _ in 0..3_000 {
                let mine = registry.resource("a").unwrap();
                let listed = registry.get("a").expect("a held resource is listed");
                assert!(std::ptr::eq(&raw const *mine, &raw const *listed));
                assert!(!mine.is_removed());
            }
        });
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn handle_removes_its_own_resource_only() {
    let [(registry, _), (other, _)] = [registry(), registry()];
    let [former, foreign] = [&registry, &other].map(|it| it.resource("a").unwrap());
    assert!(!registry.remove_resource(&foreign) && !foreign.is_removed() && !former.is_removed());
    let context = former.in_context("web").unwrap();
    assert!(registry.remove_resource(&context) && former.is_removed());
    let anew = registry.resource("a").unwrap();
    assert!(!registry.remove_resource(&former) && !anew.is_removed());
    assert_eq!((registry.len(), other.len()), (1, 1));
    anew.block();
    assert!(registry.remove_resource(&anew) && registry.is_empty());
    assert_eq!(registry.lifetime().sum(Block), 1);
}

/// A handle that is kept asks the limiter of the removed resource, and a look-up the limiter of the
/// resource that was listed after it.
#[test]
fn removed_resource_and_its_successor_limit_apart() {
    let (registry, _) = registry_of(RegistryConfig::default());
    let admits = |resource: &Resource<ManualClock>| {
        let limiter = resource.data_or_insert_with(|| Arc::new(ConcurrencyLimiter::new(1)));
        limiter.try_acquire().at_once().ok()
    };
    let former = registry.resource("a").unwrap();
    let permit = admits(&former).unwrap();
    assert!(registry.remove("a"));
    let anew = registry.resource("a").unwrap();
    let second = admits(&anew).unwrap();
    assert!(admits(&former).is_none() && admits(&anew).is_none(), "one of each is in flight");
    drop(permit);
    assert!(
        admits(&former).is_some() && admits(&anew).is_none(),
        "the former one got its own back"
    );
    // The permit keeps its limiter, and the handle its resource.
    let third = admits(&former).unwrap();
    drop((former, registry.lifetime()));
    drop((third, second));
    assert!(admits(&anew).is_some());
}

#[test]
fn handle_outlives_its_registry() {
    let (registry, clock) = registry_of(RegistryConfig::default());
    let orders = registry.resource("a").unwrap();
    let removed = registry.resource("b").unwrap();
    let entry = Entry::enter(removed.clone());
    assert!(registry.remove("b"));
    drop(registry);
    orders.in_context("web").unwrap().enter().success();
    entry.success();
    clock.advance(Duration::from_secs(2));
    assert_eq!(
        (
            orders.now().long().sum(Success),
            orders.total_snapshot(clock.now()).long.totals.sum(Success)
        ),
        (0, 1)
    );
    assert_eq!((removed.now().long().sum(Success), removed.concurrency()), (1, 0));
    assert_eq!(removed.now().poll_seconds(&SecondsCursor::new()).count(), 1);
    assert_eq!((orders.is_removed(), removed.is_removed()), (false, true));
}

#[test]
fn removed_resource_still_works_for_its_handles() {
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(1));
    let old = registry.resource("a").unwrap();
    let entry = Entry::enter(old.clone());
    assert!(registry.remove("a") && !registry.remove("a"));
    assert!(registry.is_empty() && old.is_removed());
    let new = registry.resource("a").unwrap();
    entry.success();
    old.clone().enter().success();
    new.enter().success();
    assert_eq!((old.now().long().sum(Success), new.now().long().sum(Success)), (2, 1));
    assert_eq!(registry.lifetime().sum(Success), 3);
    assert_eq!(registry.lifetime_of(TrafficType::Inbound).sum(Success), 3);
    assert_eq!(registry.lifetime_of(TrafficType::Outbound).sum(Success), 0);
    assert_eq!(registry.now().inbound().long.totals.sum(Success), 1);
    assert_eq!(
        registry.evict_idle_at(registry.clock().now(), Duration::ZERO),
        0,
        "the listed resource is held"
    );
    old.in_context("web").unwrap().block();
    let outside = old.in_context("web").unwrap().without_context();
    drop(old);
    outside.enter().exception();
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 0);
    drop((outside, new));
    assert_eq!([Block, Exception].map(|event| registry.lifetime().sum(event)), [1, 1]);
    assert!(registry.remove("a"));
    let lifetime = registry.lifetime();
    assert_eq!([Success, Block].map(|event| lifetime.sum(event)), [3, 1]);
}

#[test]
fn weak_reference_prevents_no_eviction_but_its_upgrade_does() {
    let (registry, _) = registry();
    registry.resource("orders").unwrap();
    let orders = registry.get("orders").unwrap().downgrade();
    let evict = || registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
    let upgraded = orders.upgrade().unwrap();
    assert_eq!((evict(), upgraded.is_removed()), (0, false));
    drop(upgraded);
    assert_eq!(evict(), 1);
    assert!(orders.upgrade().is_none());
    registry.resource("orders").unwrap();
    assert!(orders.upgrade().is_none(), "another resource");
}

#[test]
fn weak_reference_to_a_removed_resource_is_not_upgraded() {
    let (registry, _) = registry();
    let resource = registry.resource("orders").unwrap();
    let orders = resource.downgrade();
    assert_eq!(orders.upgrade().unwrap().id(), resource.id());
    registry.remove("orders");
    assert!(orders.upgrade().is_none());
}
