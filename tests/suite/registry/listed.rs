//! Listed resources: one node for a name, and no more than the cap, under any race.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::Success;
use leaparray::registry::RegistryError;
use leaparray::{Clock, Entry, ManualClock, Registry, RegistryConfig, Resource, ResourceNode};

use crate::registry::{THREADS, names, registry, registry_of, together};

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
            assert_eq!(resource.now().long().sum(Success), THREADS as u64);
        }
        assert_eq!(
            (registry.len(), names(&registry)),
            (3, ["a", "b", "c"].map(String::from).to_vec())
        );
    }
}

#[test]
fn no_more_than_the_cap_under_any_race() {
    for _ in 0..100 {
        let (registry, _) = registry_of(RegistryConfig::default().max_resources(5));
        let listed = AtomicU64::new(0);
        let refused: u64 = together(|number| {
            let mut refused = 0;
            for i in 0..8 {
                // All threads ask for the even names, and one thread for each of the odd names.
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
        // Every place that a thread took without listing a resource was given back.
        let filled = (0..).map_while(|i| registry.resource(&format!("more {i}")).ok()).count();
        assert_eq!((registry.len(), registry.iter().count()), (5, 5), "{filled} more");
        assert!(registry.remove(&names(&registry)[0]));
        assert!(registry.resource("one for the other").is_ok());
        assert!(registry.resource("one too many").is_err());
    }
}

#[test]
fn cap_of_zero_refuses_every_resource() {
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(0).max_contexts(0));
    let error = registry.resource("a").unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"no room for resource "a": the registry is limited to 0 resources"#
    );
    assert!(registry.is_empty() && registry.get("a").is_none() && !registry.remove("a"));
    assert_eq!(Registry::new().max_resources(), 10_000);
}

#[test]
fn resource_that_stays_listed_is_found_once_while_others_come_and_go() {
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
                // Enough names to make the map grow repeatedly.
                registry.resource(&format!("goes {}", i % 5_000)).unwrap();
                if i % 5_000 == 4_999 {
                    registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
                }
            }
        });
        for _ in 0..200 {
            let mut found: Vec<_> = registry.iter().map(|one| one.name().to_owned()).collect();
            found.sort();
            let all = found.len();
            found.dedup();
            assert_eq!(found.len(), all, "the iterator has found a resource twice");
            let stays = found.iter().filter(|name| name.starts_with("stays")).count();
            assert_eq!(stays, stay.len(), "the iterator has missed a resource");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn all_resources_and_contexts_that_were_ever_listed_have_distinct_ids() {
    let (registry, _) = registry();
    let list = |_| -> Vec<_> {
        let list = |number: usize| {
            let resource = registry.resource(&format!("{}", number % 10)).unwrap();
            let context = resource.in_context("web").unwrap();
            registry.remove(resource.name());
            (resource, context)
        };
        (0..500).map(list).collect()
    };
    let handles: Vec<_> = together(list).into_iter().flatten().collect();
    let mut resources = HashMap::new();
    for (resource, context) in &handles {
        assert_eq!(resource.id(), context.without_context().id());
        // Threads may have found one resource.
        for node in [resource, context] {
            let address = std::ptr::from_ref::<ResourceNode<_>>(node);
            let of_id = resources.entry(node.id()).or_insert(address);
            assert_eq!(*of_id, address, "two nodes have the id {:?}", node.id());
        }
    }
    let nodes: HashSet<_> = resources.values().collect();
    assert_eq!(nodes.len(), resources.len(), "a node has two ids");
}

#[test]
fn debug_output_is_short() {
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(9));
    let resource = registry.resource("a").unwrap();
    resource.enter().success();
    assert!(!registry.is_empty());
    assert_eq!(format!("{registry:?}"), "Registry { len: 1, max_resources: 9, refused: 0, .. }");
    let context = resource.in_context("web").unwrap();
    assert_eq!(format!("{context:?}"), r#"Resource { name: "a", context: Some("web"), .. }"#);
    assert_eq!(format!("{:?}", registry.iter()), "Resources { left: 1 }");
    assert_eq!(registry.iter().size_hint(), (0, Some(1)), "it may be evicted before its turn");
    let mut resources = registry.iter();
    assert!(resources.next().is_some());
    assert_eq!(resources.size_hint(), (0, Some(0)));
}

#[test]
fn resource_outlives_its_registry() {
    let (registry, _) = registry();
    let registry = Arc::new(registry);
    let entry = Entry::enter(registry.resource("a").unwrap());
    drop(registry);
    thread::spawn(move || entry.success()).join().unwrap();
}

/// A clone begins with the word of its holder. A handle that was cloned before keeps its own copy.
#[test]
fn clone_of_a_handle_begins_with_the_newest_word_of_its_holder() {
    let (registry, _) = registry();
    let handle = registry.resource("orders").unwrap();
    let before = handle.clone();
    handle.set_rule_place(7);
    let words = |it: &Resource<ManualClock>| (it.rule_place(), it.shared_rule_place());
    assert_eq!([&handle, &before, &before.clone()].map(words), [(7, 7), (0, 7), (7, 7)]);
    let context = handle.in_context("web").unwrap();
    assert_eq!(words(&context), (0, 7), "another holder");
    before.set_rule_place(8);
    assert_eq!([&handle, &before, &handle.clone()].map(words), [(7, 8), (8, 8), (8, 8)]);
    let found = registry.resource("orders").unwrap();
    found.set_rule_place(9);
    let again = registry.resource("orders").unwrap();
    assert_eq!(words(&again), (9, 9), "its holder is kept for look-ups");
    // Two words, which are passed in registers.
    assert_eq!(size_of_val(&found), 2 * size_of::<u64>());
}
