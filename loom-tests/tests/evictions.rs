//! Records beside evictions and removals of resources: none is lost, and none counts twice.
#![cfg(loom)]

use std::time::Duration;

use leaparray::MetricEvent::{Block, Success};
use leaparray::TrafficType::Inbound;
use leaparray::registry::SeriesReader;
use leaparray::{Entry, ManualClock, Outcome, show_all_words};
use leaparray_loom_tests::{RegistryModel as Model, blocks, evict_all, explore, registry, start};
use loom::sync::mpsc;
use loom::thread;

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
