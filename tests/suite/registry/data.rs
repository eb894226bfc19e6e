//! Values that live with a resource: made once, dropped with the resource.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use leaparray::flow::{LimiterExt, Rate, TokenBucket};
use leaparray::{Clock, ManualClock, MetricEvent, NodeConfig, Registry, Resource, WindowConfig};

use crate::registry::{SECOND, registry, together};

/// A value that counts its drop.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Inserts a value, and returns the count of its drops.
fn insert_counted(resource: &Resource<ManualClock>) -> Arc<AtomicU64> {
    let drops = Arc::new(AtomicU64::new(0));
    resource.data_or_insert_with(|| Counted(Arc::clone(&drops)));
    drops
}

/// Lists and evicts other resources until the value is dropped, or until the map must have freed
/// it: the map frees its entries in batches.
fn is_dropped_in_time(drops: &AtomicU64, registry: &Registry<ManualClock>) -> bool {
    (0..1_000).any(|_| {
        drop(registry.resource("another one").unwrap());
        registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
        registry.lifetime();
        drops.load(Ordering::Relaxed) > 0
    })
}

#[test]
fn value_is_made_once_under_any_race() {
    for _ in 0..300 {
        let (registry, _) = registry();
        let resource = registry.resource("a").unwrap();
        let made = AtomicU64::new(0);
        let found = together(|number| {
            let value = resource.data_or_insert_with(|| {
                made.fetch_add(1, Ordering::Relaxed);
                // The other threads come to the slot before it has the value.
                thread::yield_now();
                [number; 2]
            });
            (std::ptr::from_ref(value).addr(), *value)
        });
        assert_eq!(made.into_inner(), 1);
        assert!(found.iter().all(|one| *one == found[0]), "two values of one type: {found:?}");
    }
}

#[test]
fn types_have_values_of_their_own() {
    let (registry, clock) = registry();
    let orders = registry.resource("orders").unwrap();
    assert_eq!((orders.data::<u64>(), orders.data::<String>()), (None, None));
    assert_eq!(*orders.data_or_insert_with(|| 7_u64), 7);
    assert_eq!(orders.data_or_insert_with(|| "seven".to_owned()), "seven");
    let rate = Rate::new(1, SECOND).unwrap();
    let bucket = orders.data_or_insert_with(|| TokenBucket::with_clock(rate, 1, clock));
    assert!(bucket.try_acquire().is_admitted() && !bucket.try_acquire().is_admitted());

    let again = registry.resource("orders").unwrap();
    assert_eq!(*again.data_or_insert_with(|| -> u64 { panic!("there is one") }), 7);
    assert_eq!(again.data::<String>().map(String::as_str), Some("seven"));
    assert!(
        again.data::<TokenBucket<ManualClock>>().is_some_and(|it| it.try_acquire().is_refused())
    );
    assert_eq!(again.data::<u32>(), None);
    assert_eq!(registry.resource("users").unwrap().data::<u64>(), None);
}

#[test]
fn context_has_values_of_its_own() {
    let (registry, _) = registry();
    let orders = registry.resource("orders").unwrap();
    let [web, batch] = ["web", "batch"].map(|name| orders.in_context(name).unwrap());
    for (number, one) in [&orders, &web].into_iter().enumerate() {
        assert_eq!(*one.data_or_insert_with(|| number), number);
    }
    let values = [&orders, &web, &batch].map(|one| one.data::<usize>().copied());
    assert_eq!(values, [Some(0), Some(1), None]);
    assert_eq!(orders.in_context("web").unwrap().data::<usize>(), Some(&1));
    assert_eq!(batch.without_context().data::<usize>(), Some(&0));
}

#[test]
fn read_does_not_wait_for_a_value_that_is_being_made() {
    let (registry, _) = registry();
    let resource = registry.resource("a").unwrap();
    let found = resource.data_or_insert_with(|| {
        // On the same thread, so a call that waited would wait for ever.
        assert_eq!(resource.data::<u64>(), None, "not made yet");
        assert_eq!(*resource.data_or_insert_with(|| 1_u32), 1);
        assert_eq!(resource.data::<u32>(), Some(&1));
        2_u64
    });
    assert_eq!((*found, resource.data::<u64>()), (2, Some(&2)));
}

#[test]
fn panic_in_make_leaves_no_value() {
    let (registry, _) = registry();
    let resource = registry.resource("a").unwrap();
    let broken = || -> u64 { panic!("broken") };
    for _ in 0..2 {
        let panics = catch_unwind(AssertUnwindSafe(|| resource.data_or_insert_with(broken)));
        assert!(panics.is_err());
        assert_eq!(resource.data::<u64>(), None);
    }
    assert_eq!(*resource.data_or_insert_with(|| 3_u64), 3);
}

#[test]
fn value_stays_when_the_geometry_changes() {
    let (registry, _) = registry();
    let orders = registry.resource("orders").unwrap();
    let web = orders.in_context("web").unwrap();
    let drops = [&orders, &web].map(insert_counted);
    let window = |buckets, secs| WindowConfig::new(buckets, SECOND * secs).unwrap();
    let finer = NodeConfig::new(window(10, 1), window(600, 60)).unwrap();
    registry.reconfigure(finer);
    assert_eq!([&orders, &web].map(|one| *one.config()), [finer; 2]);
    assert!([&orders, &web].iter().all(|one| one.data::<Counted>().is_some()));
    assert!(drops.iter().all(|drops| drops.load(Ordering::Relaxed) == 0));
}

#[test]
fn value_is_dropped_with_an_evicted_resource() {
    let (registry, _) = registry();
    let drops = insert_counted(&registry.resource("orders").unwrap());
    let in_context = registry.resource("orders").unwrap().in_context("web").unwrap();
    let drops_of_the_context = insert_counted(&in_context);
    assert!(!is_dropped_in_time(&drops, &registry), "the resource has a handle");
    assert!(registry.get("orders").unwrap().data::<Counted>().is_some(), "still listed");
    drop(in_context);
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    assert!(is_dropped_in_time(&drops, &registry));
    let drops = [drops, drops_of_the_context];
    assert_eq!(drops.each_ref().map(|drops| drops.load(Ordering::Relaxed)), [1, 1]);

    assert!(registry.resource("orders").unwrap().data::<Counted>().is_none(), "listed again");
    drop(registry);
    assert_eq!(drops.map(|drops| drops.load(Ordering::Relaxed)), [1, 1], "dropped once");
}

#[test]
fn value_of_a_removed_resource_is_dropped_after_its_last_handle() {
    let (registry, _) = registry();
    let old = registry.resource("orders").unwrap();
    let drops = insert_counted(&old);
    assert!(registry.remove("orders"));
    let new = registry.resource("orders").unwrap();
    assert!(new.data::<Counted>().is_none(), "a new resource");
    let drops_of_the_new = insert_counted(&new);
    assert!(!is_dropped_in_time(&drops, &registry));
    assert!(old.data::<Counted>().is_some_and(|it| Arc::ptr_eq(&it.0, &drops)));
    drop(old);
    assert!(is_dropped_in_time(&drops, &registry));
    assert_eq!(drops_of_the_new.load(Ordering::Relaxed), 0);
    drop((new, registry));
    assert_eq!([drops, drops_of_the_new].map(|drops| drops.load(Ordering::Relaxed)), [1, 1]);
}

/// A resource keeps handles for the look-ups of each thread.
#[test]
fn value_is_dropped_although_its_resource_was_looked_up_again() {
    let looked_up = || {
        let (registry, _) = registry();
        let drops = insert_counted(&registry.resource("orders").unwrap());
        let in_context = || registry.resource("orders").unwrap().in_context("web").unwrap();
        let drops_of_the_context = insert_counted(&in_context());
        together(|_| drop((registry.get("orders").unwrap(), in_context())));
        (registry, [drops, drops_of_the_context])
    };

    let (evicting, drops) = looked_up();
    assert_eq!(evicting.evict_idle_at(evicting.clock().now(), Duration::ZERO), 1);
    assert!(drops.iter().all(|it| is_dropped_in_time(it, &evicting)), "evicted");

    let (removing, drops) = looked_up();
    assert!(removing.remove("orders"));
    assert!(drops.iter().all(|it| is_dropped_in_time(it, &removing)), "removed");

    let (dropped, drops) = looked_up();
    drop(dropped);
    assert_eq!(drops.map(|it| it.load(Ordering::Relaxed)), [1, 1], "with the registry");

    let (dropped, drops) = looked_up();
    let kept = dropped.get("orders").unwrap();
    dropped.remove("orders");
    drop(dropped);
    drop((kept.in_context("web").unwrap(), kept.without_context()));
    assert_eq!(drops.each_ref().map(|it| it.load(Ordering::Relaxed)), [0, 0], "has a handle");
    drop(kept);
    assert_eq!(drops.map(|it| it.load(Ordering::Relaxed)), [1, 1], "with its last handle");
}

#[test]
fn error_of_make_leaves_no_value() {
    let (registry, _) = registry();
    let orders = registry.resource("orders").unwrap();
    assert_eq!(orders.data_or_try_insert_with(|| Err::<u64, _>("not yet")), Err("not yet"));
    assert_eq!(orders.data::<u64>(), None);
    assert_eq!(orders.data_or_try_insert_with(|| Ok::<_, ()>(7_u64)), Ok(&7));
    assert_eq!(orders.data_or_try_insert_with(|| Err::<u64, _>("never called")), Ok(&7));
}

/// A value whose drop reads the registry, and then panics.
struct Reader(Weak<Registry<ManualClock>>);

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(registry) = self.0.upgrade() {
            let recorded = registry.lifetime().sum(MetricEvent::Block);
            panic!("dropped after {recorded} blocks");
        }
    }
}

#[test]
fn drop_of_a_value_may_read_the_registry_and_panic() {
    let (registry, _) = registry();
    let registry = Arc::new(registry);
    let mut handles = Vec::new();
    for name in ["first", "second"] {
        let resource = registry.resource(name).unwrap();
        // Two panics at once would abort the process.
        if name == "first" {
            resource.data_or_insert_with(|| Reader(Arc::downgrade(&registry)));
        }
        resource.block();
        handles.push(resource);
        registry.remove(name);
    }
    // The map frees what was taken out of it, so that the registry's list of removed resources has
    // the last reference.
    for turn in 0..1_000 {
        registry.resource(&turn.to_string()).unwrap();
        registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
    }
    drop(handles);
    let read = || registry.lifetime();
    assert!(catch_unwind(AssertUnwindSafe(read)).is_err(), "no value was dropped");
    assert_eq!(registry.lifetime().sum(MetricEvent::Block), 2, "a panic loses no count");
}
