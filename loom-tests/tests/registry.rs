//! A registry: a name has one node, no more nodes are listed than there is room for, a resource
//! with a holder is not evicted, and a new geometry reaches every node.
#![cfg(loom)]

use leaparray::{ManualClock, Registry, RegistryConfig, Resource, Timestamp};
use leaparray_loom_tests::{evict_all, explore, node_config, registry};
use loom::thread;

fn same(one: &Resource<ManualClock>, other: &Resource<ManualClock>) -> bool {
    std::ptr::eq(&raw const **one, &raw const **other)
}

#[test]
fn two_threads_that_list_a_name_get_one_node() {
    explore(None, || {
        let registry = registry(2);
        let other = {
            let registry = registry.clone();
            thread::spawn(move || registry.resource("a").unwrap())
        };
        let mine = registry.resource("a").unwrap();
        let theirs = other.join().unwrap();
        assert!(same(&mine, &theirs), "one node for the name");
        assert_eq!((registry.len(), registry.iter().count()), (1, 1));
        assert!(registry.resource("b").is_ok(), "the room that was not needed is free");
    });
}

#[test]
fn one_of_two_threads_gets_the_last_room() {
    explore(None, || {
        let registry = registry(1);
        let other = {
            let registry = registry.clone();
            thread::spawn(move || registry.resource("a").is_ok())
        };
        let mine = registry.resource("b").is_ok();
        assert!(other.join().unwrap() ^ mine, "one of two threads gets the room");
        assert_eq!((registry.len(), registry.iter().count(), registry.refused()), (1, 1, 1));
    });
}

#[test]
fn room_is_released_once() {
    explore(None, || {
        let registry = registry(1);
        drop(registry.resource("a"));
        // May find the resource gone and still in the map. It then removes the name as well, to
        // list a new resource.
        let other = {
            let registry = registry.clone();
            thread::spawn(move || drop(registry.resource("a")))
        };
        registry.remove("a");
        other.join().unwrap();
        registry.remove("a");
        assert_eq!((registry.len(), registry.iter().count()), (0, 0));
        assert!(registry.resource("b").is_ok() && registry.resource("c").is_err());
    });
}

/// The thread that looks up clones the handle that the resource keeps, or takes one of its own,
/// while the eviction releases it. Without a bound, that is a million executions.
#[test]
fn held_resource_stays_listed() {
    explore(Some(3), || {
        let registry = registry(2);
        drop(registry.resource("a"));
        let other = {
            let registry = registry.clone();
            thread::spawn(move || {
                let held = registry.resource("a").unwrap();
                assert!(!held.is_removed());
                let listed = registry.get("a").expect("a resource with a holder is not evicted");
                assert!(same(&held, &listed), "another resource is listed");
            })
        };
        evict_all(&registry);
        other.join().unwrap();
        assert_eq!(registry.len(), registry.iter().count());
        assert!(registry.len() <= 1);
    });
}

/// The resource keeps a handle for look-ups, and is still in the map for a moment.
#[test]
fn resource_that_is_seen_removed_is_not_found() {
    explore(None, || {
        let registry = registry(2);
        let held = registry.resource("a").unwrap();
        drop(registry.get("a"));
        let other = {
            let registry = registry.clone();
            thread::spawn(move || registry.remove("a"))
        };
        if held.is_removed() {
            assert!(registry.get("a").is_none(), "a removed resource is found");
        }
        assert!(other.join().unwrap());
    });
}

/// A handle asks for a context while its registry is dropped. Loom notices if the context keeps a
/// handle, which would keep the resource for ever.
#[test]
fn context_keeps_no_handle_beyond_its_registry() {
    for is_kept in [false, true] {
        context_beside_the_drop_of_its_registry(is_kept);
    }
}

fn context_beside_the_drop_of_its_registry(is_kept: bool) {
    explore(Some(3), move || {
        let config = RegistryConfig::default().node(node_config(1, 1));
        let registry = Registry::with_clock(config, ManualClock::new(Timestamp::MIN));
        let held = registry.resource("a").unwrap();
        if is_kept {
            drop(held.in_context("web").unwrap());
        }
        let other = thread::spawn(move || drop(held.in_context("web").unwrap()));
        drop(registry);
        other.join().unwrap();
    });
}

#[test]
fn geometry_reaches_resources_listed_during_the_change() {
    explore(None, || {
        let registry = registry(2);
        let other = {
            let registry = registry.clone();
            thread::spawn(move || registry.resource("a").unwrap())
        };
        registry.reconfigure(node_config(1, 2));
        let resource = other.join().unwrap();
        assert_eq!(*resource.config(), node_config(1, 2));
    });
}

#[test]
fn geometry_reaches_a_context_made_during_the_change() {
    explore(None, || {
        let registry = registry(1);
        let resource = registry.resource("a").unwrap();
        let other = thread::spawn(move || resource.in_context("web").unwrap());
        registry.reconfigure(node_config(1, 2));
        let context = other.join().unwrap();
        assert_eq!(*context.config(), node_config(1, 2));
    });
}

/// One thread lists a resource, another finds it and makes a context, and the main thread changes
/// the geometry. The thread that lists may not have seen the change yet when the context is made.
/// Both nodes get the new geometry.
#[test]
fn geometry_reaches_a_context_of_a_resource_that_was_just_listed() {
    explore(Some(3), || {
        let registry = registry(1);
        let lister = {
            let registry = registry.clone();
            thread::spawn(move || registry.resource("a").unwrap())
        };
        let finder = {
            let registry = registry.clone();
            thread::spawn(move || registry.get("a").map(|a| a.in_context("web").unwrap()))
        };
        registry.reconfigure(node_config(1, 2));
        let (resource, context) = (lister.join().unwrap(), finder.join().unwrap());
        for node in [Some(resource), context].iter().flatten() {
            assert_eq!(*node.config(), node_config(1, 2));
        }
    });
}

/// One thread makes a context while another changes the geometry and changes it back. The context
/// may be made with the first geometry when its resource has the second one. It ends up with the
/// first.
#[test]
fn geometry_that_returns_reaches_a_context_that_is_being_made() {
    explore(Some(3), || {
        let registry = registry(1);
        let resource = registry.resource("a").unwrap();
        let first = *resource.config();
        let maker = {
            let resource = resource.clone();
            thread::spawn(move || resource.in_context("web").unwrap())
        };
        registry.reconfigure(node_config(1, 2));
        registry.reconfigure(first);
        assert_eq!(*maker.join().unwrap().config(), first);
    });
}

#[test]
fn two_threads_that_ask_for_a_context_get_one_node() {
    explore(None, || {
        let registry = registry(1);
        let resource = registry.resource("a").unwrap();
        let other = {
            let resource = resource.clone();
            thread::spawn(move || resource.in_context("web").unwrap())
        };
        let mine = resource.in_context("web").unwrap();
        assert!(same(&mine, &other.join().unwrap()), "one node for the context");
        assert_eq!(resource.contexts().count(), 1);
    });
}
