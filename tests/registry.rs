//! Resources by name: one node for each under any race, a cap, removal, eviction, contexts, totals.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Exception, Pass, Success};
use leaparray::{
    Entry, ManualClock, NodeConfig, Registry, RegistryConfig, RegistryError, Resource,
    ResourceConfig, Timestamp, Traffic, WindowConfig,
};

const NOON: Timestamp = Timestamp::from_secs(43_200);
const SECOND: Duration = Duration::from_secs(1);
const THREADS: usize = 4;

fn registry_of(config: RegistryConfig) -> (Registry<ManualClock>, ManualClock) {
    let clock = ManualClock::new(NOON);
    (Registry::with_clock(config, clock.clone()), clock)
}

fn registry() -> (Registry<ManualClock>, ManualClock) {
    registry_of(RegistryConfig::default())
}

fn geometry(second: usize, minute: usize) -> NodeConfig {
    let second = WindowConfig::new(second, SECOND).unwrap();
    NodeConfig::new(second, WindowConfig::new(minute, SECOND * 60).unwrap()).unwrap()
}

/// Has several threads do this at once, each with its number, and returns what they did.
fn together<R: Send>(work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(THREADS);
    let run = |number| {
        start.wait();
        work(number)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn names(registry: &Registry<ManualClock>) -> Vec<String> {
    let mut names: Vec<_> = registry.iter().map(|resource| resource.name().to_owned()).collect();
    names.sort();
    names
}

fn send_sync<T: Send + Sync + 'static>() {}

#[test]
fn handles_can_be_kept_and_sent() {
    send_sync::<Registry>();
    send_sync::<Resource>();
    send_sync::<Entry<Resource>>();
}

#[test]
fn at_most_one_node_for_a_name_under_any_race() {
    for _ in 0..300 {
        let (registry, _) = registry();
        let found = together(|_| {
            ["a", "b", "c"].map(|name| {
                let resource = registry.resource(name).unwrap();
                resource.enter().success();
                resource
            })
        });
        for all in &found {
            for (one, other) in all.iter().zip(&found[0]) {
                assert!(
                    std::ptr::eq(&raw const **one, &raw const **other),
                    "two nodes of one name"
                );
            }
        }
        for resource in &registry {
            assert_eq!(resource.minute_sum(Success), THREADS as u64);
        }
        assert_eq!(
            (registry.len(), names(&registry)),
            (3, ["a", "b", "c"].map(String::from).to_vec())
        );
    }
}

#[test]
fn no_more_than_the_cap_whoever_races() {
    for _ in 0..100 {
        let (registry, _) = registry_of(RegistryConfig::default().max_resources(5));
        let listed = AtomicU64::new(0);
        let refused: u64 = together(|number| {
            let mut refused = 0;
            for i in 0..8 {
                // Half of the names are asked for by all, half by one.
                let name = if i % 2 == 0 { format!("{i}") } else { format!("{number}: {i}") };
                match registry.resource(&name) {
                    Ok(_) => {
                        listed.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        refused += 1;
                        assert_eq!(error, RegistryError::Full { max: 5, name: name.into() });
                    }
                }
                assert!(registry.len() <= 5 && registry.iter().count() <= 5);
            }
            refused
        })
        .into_iter()
        .sum();
        assert_eq!(registry.refused(), refused);
        // Every place that was taken in vain was given back.
        let filled = (0..).map_while(|i| registry.resource(&format!("more {i}")).ok()).count();
        assert_eq!((registry.len(), registry.iter().count()), (5, 5), "{filled} more");
        assert!(registry.remove(&names(&registry)[0]));
        assert!(registry.resource("one for the other").is_ok());
        assert!(registry.resource("one too many").is_err());
    }
}

#[test]
fn the_cap_may_be_nothing() {
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(0).max_contexts(0));
    let error = registry.resource("a").unwrap_err();
    assert_eq!(error.to_string(), r#""a" would be one more than the 0 resources there may be"#);
    assert!(registry.is_empty() && registry.get("a").is_none() && !registry.remove("a"));
    assert_eq!(Registry::new().max_resources(), 10_000);
}

#[test]
fn what_is_idle_and_not_held_is_evicted() {
    let (registry, clock) = registry();
    let minute = SECOND * 60;
    let resource = |name| registry.resource(name).unwrap();
    resource("never used");
    resource("used").enter().success();
    let held = resource("held");
    let context = resource("in a context").in_context("web").unwrap();
    assert_eq!(registry.evict_idle(SECOND), 0, "they have just been made");

    clock.advance(minute);
    resource("used").block();
    context.block();
    drop(context);
    clock.advance(minute / 2);
    assert_eq!(registry.evict_idle(minute), 1);
    assert_eq!(names(&registry), ["held", "in a context", "used"]);
    // The bucket ends half a second after it began.
    clock.advance(minute / 2 + Duration::from_millis(499));
    assert_eq!(registry.evict_idle(minute), 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(registry.evict_idle(minute), 2);
    assert_eq!(names(&registry), ["held"]);

    // An entry holds its resource, whatever became of the handle.
    let entry = Entry::enter(held);
    clock.advance(minute * 10);
    assert_eq!(registry.evict_idle(Duration::ZERO), 0);
    entry.success();
    assert_eq!(registry.evict_idle(minute), 0, "it has just ended");
    assert_eq!(registry.evict_idle(Duration::ZERO), 1);
    assert!(registry.is_empty());
    let lifetime = registry.lifetime();
    assert_eq!([Pass, Block, Success].map(|event| lifetime.sum(event)), [2, 2, 2]);
}

#[test]
fn permits_of_the_future_are_no_idleness() {
    let (registry, _) = registry();
    let taken = registry.resource("a").unwrap().try_occupy_next(1, 1).unwrap();
    let one_bucket_later = taken.begins().saturating_add(Duration::from_millis(499));
    assert_eq!(registry.evict_idle_at(one_bucket_later, Duration::from_nanos(1)), 0);
    let later = one_bucket_later.saturating_add(SECOND);
    assert_eq!(registry.evict_idle_at(later, Duration::from_nanos(1)), 1);
    assert_eq!(registry.lifetime().sum(Pass), 1);
}

/// Looks up, records and lets go, while another thread takes off the list whatever it can.
#[test]
fn the_books_balance_while_others_evict_and_remove() {
    const ROUNDS: u64 = 3_000;
    let (registry, _) = registry();
    let (registry, done, gone) = (&registry, &AtomicBool::new(false), &AtomicU64::new(0));
    let all = thread::scope(|scope| {
        scope.spawn(move || {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let evicted =
                    registry.evict_idle(Duration::ZERO) + usize::from(registry.remove("b"));
                gone.fetch_add(evicted as u64, Ordering::Relaxed);
                let passes = registry.lifetime().sum(Pass);
                assert!(passes >= last, "lifetime totals went back from {last} to {passes}");
                last = passes;
            }
        });
        let rounds = together(|_| {
            let mut rounds = 0;
            // Until enough has raced, however the threads are scheduled, if it ever does.
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

/// One request, in one of four ways.
fn record(resource: &Resource<ManualClock>, way: u32) {
    match way {
        0 => resource.enter().success(),
        1 => resource.in_context("web").unwrap().enter().exception(),
        2 => resource.enter_owned().success(),
        _ => Entry::enter(resource.in_context("web").unwrap()).success(),
    }
}

#[test]
fn who_holds_what_was_not_removed_holds_what_is_listed() {
    let (registry, _) = registry();
    let (registry, done) = (&registry, &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                registry.evict_idle(Duration::ZERO);
            }
        });
        together(|_| {
            for _ in 0..3_000 {
                let mine = registry.resource("a").unwrap();
                let listed = registry.get("a").expect("it is held, and so listed");
                assert!(std::ptr::eq(&raw const *mine, &raw const *listed));
                assert!(!mine.is_removed());
            }
        });
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_removed_goes_on_for_those_who_hold_it() {
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(1));
    let old = registry.resource("a").unwrap();
    let entry = old.enter_owned();
    assert!(registry.remove("a") && !registry.remove("a"));
    assert!(registry.is_empty() && old.is_removed());
    let new = registry.resource("a").unwrap();
    entry.success();
    old.clone().enter().success();
    new.enter().success();
    assert_eq!((old.minute_sum(Success), new.minute_sum(Success)), (2, 1));
    assert_eq!(registry.lifetime().sum(Success), 3);
    assert_eq!(registry.inbound_snapshot().minute.totals.sum(Success), 1);
    assert_eq!(registry.evict_idle(Duration::ZERO), 0, "what is listed is held");
    old.in_context("web").unwrap().block();
    drop((old, new));
    assert_eq!(registry.lifetime().sum(Block), 1);
    assert!(registry.remove("a"));
    let lifetime = registry.lifetime();
    assert_eq!([Success, Block].map(|event| lifetime.sum(event)), [3, 1]);
}

#[test]
fn contexts_have_nodes_of_their_own_and_one_sum() {
    let (registry, clock) = registry_of(RegistryConfig::default().max_contexts(2));
    clock.advance(SECOND * 60);
    let orders = registry.resource("orders").unwrap();
    clock.advance(SECOND * 60);
    let (web, batch) = (orders.in_context("web").unwrap(), orders.in_context("batch").unwrap());
    assert_eq!((orders.context(), web.context(), web.name()), (None, Some("web"), "orders"));
    let slow = web.enter();
    clock.advance(Duration::from_millis(20));
    slow.success();
    let quick = batch.enter();
    clock.advance(Duration::from_millis(10));
    quick.exception();
    batch.block();
    let _under_way = [orders.enter(), web.enter()];

    assert_eq!([&orders, &web, &batch].map(|one| one.minute_sum(Pass)), [1, 2, 1]);
    let sum = orders.total_snapshot();
    assert_eq!(sum, batch.total_snapshot(), "whoever of them is asked");
    assert_eq!((sum.pass_qps(), sum.block_qps(), sum.success_qps()), (4.0, 1.0, 1.0));
    assert_eq!(sum.second.length, SECOND, "of the node that is there for so long");
    assert_eq!(sum.concurrency, 2);
    let totals = &sum.minute.totals;
    assert_eq!(totals.avg_rt(), Some(Duration::from_millis(15)));
    assert_eq!(totals.min_rt(), Some(Duration::from_millis(10)));
    assert_eq!(totals.max_rt(), Some(Duration::from_millis(20)));
    assert_eq!(registry.inbound_snapshot(), sum);
    assert_eq!(registry.lifetime().sum(Pass), 4);

    let refused = registry.resource("orders").unwrap().in_context("more").unwrap_err();
    let (resource, context) = ("orders".into(), "more".into());
    assert_eq!(refused, RegistryError::TooManyContexts { max: 2, resource, context });
    assert_eq!(
        refused.to_string(),
        r#""more" would be one more than the 2 contexts that "orders" may have"#
    );
    assert_eq!(registry.refused(), 1);
    let again = batch.in_context("web").unwrap();
    assert!(std::ptr::eq(&raw const *again, &raw const *web));
    let contexts: Vec<_> = orders.contexts().map(|one| one.context().map(String::from)).collect();
    assert_eq!(contexts, [Some("web".into()), Some("batch".into())]);
}

#[test]
fn at_most_one_node_for_a_context_and_no_more_than_the_cap_under_any_race() {
    for _ in 0..300 {
        let (registry, _) = registry_of(RegistryConfig::default().max_contexts(3));
        let resource = registry.resource("a").unwrap();
        let found = together(|number| {
            let mut contexts = ["x", "y", "z", "w"];
            contexts.rotate_left(number);
            contexts.map(|name| resource.in_context(name).map(|context| context.block()).is_ok())
        });
        let recorded = found.iter().flatten().filter(|&&ok| ok).count();
        assert_eq!(resource.contexts().count(), 3);
        assert_eq!(recorded, 3 * THREADS, "three are there for all, and the fourth for none");
        assert_eq!(registry.lifetime().sum(Block), recorded as u64);
        assert_eq!(registry.refused(), THREADS as u64);
    }
}

#[test]
fn a_geometry_reaches_all_nodes() {
    let (registry, _) = registry();
    let (before, own, after) = (NodeConfig::default(), geometry(5, 300), geometry(10, 600));
    let first = registry.resource("first").unwrap();
    let context = first.in_context("web").unwrap();
    let second = registry.resource_with("second", own).unwrap();
    let again = registry.resource_with("first", own).unwrap();
    assert_eq!(
        [&first, &context, &second, &again].map(|one| *one.config()),
        [before, before, own, before]
    );
    first.enter().success();
    registry.reconfigure(after);
    first.enter().success();
    assert_eq!([&first, &context, &second].map(|one| *one.config()), [after; 3]);
    assert_eq!((first.minute_sum(Success), registry.config()), (2, after));
    assert_eq!(*registry.resource("third").unwrap().config(), after);
    assert_eq!(*second.in_context("web").unwrap().config(), after);
    let own = registry.resource_with("fourth", ResourceConfig::default().node(own)).unwrap();
    assert_eq!(*own.config(), geometry(5, 300), "of its own again");
}

#[test]
fn a_geometry_reaches_what_is_listed_meanwhile() {
    let geometries = [geometry(5, 300), geometry(10, 600)];
    for round in 0..200 {
        let (registry, _) = registry();
        let resources = together(|number| {
            let mut resources = Vec::new();
            for i in 0..4 {
                if number == 0 {
                    registry.reconfigure(geometries[(round + i) % 2]);
                } else {
                    let resource = registry.resource(&format!("{number} {i}")).unwrap();
                    resources.push(resource.in_context("web").unwrap());
                    resources.push(resource);
                }
            }
            resources
        });
        for resource in resources.iter().flatten() {
            assert_eq!(*resource.config(), registry.config(), "{resource:?}");
        }
    }
}

#[test]
fn what_comes_in_is_added_up_when_it_is_read() {
    let (registry, clock) = registry();
    clock.advance(SECOND);
    let orders = registry.resource("orders").unwrap();
    let database = registry.resource_with("database", Traffic::Outbound).unwrap();
    let users = registry.resource("users").unwrap();
    for resource in [&orders, &database, &users] {
        resource.enter().success();
    }
    users.in_context("web").unwrap().block();
    let inbound = registry.inbound_snapshot();
    assert_eq!(inbound.minute.totals.sum(Success), 2);
    assert_eq!(inbound.minute.totals.sum(Block), 1);
    assert_eq!(inbound.timestamp, clock_now(&clock));
    let later = registry.inbound_snapshot_at(clock_now(&clock).saturating_add(SECOND * 60));
    assert_eq!(later.minute.totals.sum(Success), 0);
    let of = |traffic| registry.lifetime_of(traffic).sum(Success);
    assert_eq!((of(Traffic::Inbound), of(Traffic::Outbound)), (2, 1));
    drop((orders, database, users));
    assert_eq!(registry.evict_idle(Duration::ZERO), 3);
    assert_eq!((of(Traffic::Inbound), of(Traffic::Outbound)), (2, 1));
    assert_eq!(registry.inbound_snapshot().minute.totals.sum(Success), 0);
}

fn clock_now(clock: &ManualClock) -> Timestamp {
    leaparray::Clock::now(clock)
}

#[test]
fn who_is_there_throughout_is_found_once_while_others_come_and_go() {
    let (registry, _) = registry();
    let stay: Vec<_> =
        (0..200).map(|i| registry.resource(&format!("stays {i}")).unwrap()).collect();
    let (registry, done) = (&registry, &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                // As many as make the map grow again and again.
                registry.resource(&format!("goes {}", i % 5_000)).unwrap();
                if i % 5_000 == 4_999 {
                    registry.evict_idle(Duration::ZERO);
                }
            }
        });
        for _ in 0..200 {
            let mut found: Vec<_> = registry.iter().map(|one| one.name().to_owned()).collect();
            found.sort();
            let all = found.len();
            found.dedup();
            assert_eq!(found.len(), all, "something came twice");
            let stays = found.iter().filter(|name| name.starts_with("stays")).count();
            assert_eq!(stays, stay.len(), "something did not come");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_world_is_not_printed() {
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(9));
    let resource = registry.resource("a").unwrap();
    resource.enter().success();
    assert_eq!(format!("{registry:?}"), "Registry { len: 1, max_resources: 9, refused: 0, .. }");
    let context = resource.in_context("web").unwrap();
    assert_eq!(format!("{context:?}"), r#"Resource { name: "a", context: Some("web"), .. }"#);
    assert_eq!(format!("{:?}", registry.iter()), "Resources { left: 1 }");
}

#[test]
fn a_resource_outlives_its_registry() {
    let (registry, _) = registry();
    let registry = Arc::new(registry);
    let entry = registry.resource("a").unwrap().enter_owned();
    drop(registry);
    thread::spawn(move || entry.success()).join().unwrap();
}
