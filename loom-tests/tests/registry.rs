//! A registry: a name has one node, no more nodes are listed than there is room for, a resource
//! with a holder is not evicted, no record is lost, and a new geometry reaches every node.
#![cfg(loom)]

use std::time::Duration;

use leaparray::MetricEvent::{Block, Success};
use leaparray::TrafficType::Inbound;
use leaparray::registry::SeriesReader;
use leaparray::{
    Entry, ManualClock, Outcome, Registry, RegistryConfig, Resource, Timestamp, show_all_words,
};
use leaparray_loom_tests::{explore, node_config, start};
use loom::sync::{Arc, mpsc};
use loom::thread;

type Model = Registry<ManualClock>;

/// An empty registry, whose nodes have one bucket.
fn registry(max_resources: usize) -> Arc<Model> {
    let config = RegistryConfig::default().node(node_config(1, 1)).max_resources(max_resources);
    Arc::new(Registry::with_clock(config, ManualClock::new(Timestamp::MIN)))
}

fn same(one: &Resource<ManualClock>, other: &Resource<ManualClock>) -> bool {
    std::ptr::eq(&raw const **one, &raw const **other)
}

/// Evicts every resource without a holder: all of these count as idle, whenever they were last
/// recorded in.
fn evict_all(registry: &Model) -> usize {
    registry.evict_idle_at(start(9), Duration::ZERO)
}

fn blocks(registry: &Model) -> u64 {
    registry.lifetime().sum(Block)
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
fn record_beside_an_eviction_is_not_lost() {
    explore(Some(2), || {
        let registry = registry(2);
        drop(registry.resource("a"));
        let other = {
            let registry = registry.clone();
            thread::spawn(move || registry.resource("a").unwrap().block_many_at(start(1), 1))
        };
        evict_all(&registry);
        other.join().unwrap();
        assert_eq!(blocks(&registry), 1);
        evict_all(&registry);
        assert_eq!((blocks(&registry), registry.len()), (1, 0));
    });
}

/// One thread records in a resource while another evicts idle resources. The resource was idle when
/// the eviction began, and is not evicted after the record. A look-up leaves a handle that the
/// resource keeps, and a visit leaves none.
#[test]
fn resource_that_was_just_recorded_in_is_not_evicted() {
    let look_up = |registry: &Model| registry.resource("a").unwrap();
    let visit = |registry: &Model| match registry.iter().next() {
        Some(visited) => visited,
        // Evicted before the visit.
        None => registry.resource("a").unwrap(),
    };
    for find in [look_up, visit] {
        explore(Some(3), move || {
            let registry = registry(2);
            drop(registry.resource("a"));
            let other = {
                let registry = registry.clone();
                thread::spawn(move || find(&registry).block_many_at(start(8), 1))
            };
            // A resource is idle if it was last recorded in before bucket 8.
            registry.evict_idle_at(start(9), Duration::from_millis(1));
            other.join().unwrap();
            let seen = registry.get("a").map(|listed| listed.at(start(8)).long().sum(Block));
            assert_eq!(seen, Some(1), "evicted with the new record");
        });
    }
}

/// The last holder records twice while another thread evicts. At the second record its cell is
/// bound already, so no fence of the slow path orders that record. If the resource is evicted, the
/// totals have both records.
#[test]
fn eviction_keeps_records_of_the_last_holder() {
    show_all_words();
    explore(None, || {
        let registry = registry(2);
        let held = registry.resource("a").unwrap();
        let other = thread::spawn(move || {
            held.block_many_at(start(1), 1);
            held.block_many_at(start(1), 1);
        });
        if evict_all(&registry) == 1 {
            assert_eq!(blocks(&registry), 2, "evicted after both records");
        }
        other.join().unwrap();
        assert_eq!(blocks(&registry), 2);
    });
}

/// The last holder records twice, for the same reason, while another thread removes the resource,
/// or removes it once the first record is made. The totals have both records, and have them once.
fn last_holder_records_beside_a_removal(preemptions: usize, after_the_first: bool) {
    explore(Some(preemptions), move || {
        let registry = registry(2);
        let held = registry.resource("a").unwrap();
        let (sender, receiver) = mpsc::channel();
        let other = thread::spawn(move || {
            held.block_many_at(start(1), 1);
            if after_the_first {
                sender.send(()).unwrap();
            }
            held.block_many_at(start(1), 1);
        });
        if after_the_first {
            receiver.recv().unwrap();
        }
        assert!(registry.remove("a"));
        let before = blocks(&registry);
        other.join().unwrap();
        assert!((u64::from(after_the_first)..=2).contains(&before));
        assert_eq!([(); 2].map(|()| blocks(&registry)), [2; 2]);
    });
}

/// Beside both records, two preemptions are 210,000 executions with each of the slots.
#[test]
fn record_in_a_removed_resource_is_not_lost() {
    show_all_words();
    last_holder_records_beside_a_removal(1, false);
    last_holder_records_beside_a_removal(2, true);
}

#[test]
fn totals_only_grow_beside_an_eviction() {
    explore(None, || {
        let registry = registry(2);
        Entry::enter_at(registry.resource("a").unwrap(), start(1))
            .end_at(start(1), Outcome::Success);
        let reader = {
            let registry = registry.clone();
            thread::spawn(move || registry.lifetime().sum(Success))
        };
        evict_all(&registry);
        assert_eq!(reader.join().unwrap(), 1);
    });
}

/// Returns the refused requests that a reading finds new, and all that it finds, dropped ones
/// included.
fn read_blocks(reader: &mut SeriesReader<ManualClock>, registry: &Model) -> (u64, u64) {
    let reading = reader.read(registry);
    (reading.iter().map(|it| it.newly(Block)).sum(), reading.lifetime(Inbound).sum(Block))
}

/// A resource departs while its series is read. In whichever place the reading finds its node, the
/// count is there, and once.
#[test]
fn series_has_its_counts_beside_an_eviction() {
    explore(None, || {
        let registry = registry(2);
        registry.resource("a").unwrap().block_many_at(start(1), 1);
        let mut reader = registry.series();
        let other = {
            let registry = registry.clone();
            thread::spawn(move || {
                evict_all(&registry);
            })
        };
        assert_eq!(read_blocks(&mut reader, &registry), (1, 1));
        other.join().unwrap();
        assert_eq!(read_blocks(&mut reader, &registry), (0, 1));
    });
}

/// The last holder records in a removed resource, and ends, while the series is read. The readings
/// together have the record once.
#[test]
fn record_in_a_removed_resource_is_in_its_series_once() {
    show_all_words();
    explore(Some(1), || {
        let registry = registry(2);
        let held = registry.resource("a").unwrap();
        let mut reader = registry.series();
        let other = thread::spawn(move || held.block_many_at(start(1), 1));
        assert!(registry.remove("a"));
        let (new, all) = read_blocks(&mut reader, &registry);
        assert_eq!(new, all);
        other.join().unwrap();
        assert_eq!(read_blocks(&mut reader, &registry), (1 - new, 1));
        assert_eq!(read_blocks(&mut reader, &registry), (0, 1));
    });
}

/// A name is listed again and recorded in while its former resource departs. The series has both.
#[test]
fn series_continues_when_its_name_is_listed_again() {
    explore(Some(2), || {
        let registry = registry(2);
        registry.resource("a").unwrap().block_many_at(start(1), 1);
        let mut reader = registry.series();
        let other = {
            let registry = registry.clone();
            thread::spawn(move || {
                registry.remove("a");
                registry.resource("a").unwrap().block_many_at(start(1), 1);
            })
        };
        let (first, _) = read_blocks(&mut reader, &registry);
        other.join().unwrap();
        let (second, all) = read_blocks(&mut reader, &registry);
        assert_eq!((first + second, all), (2, 2));
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
