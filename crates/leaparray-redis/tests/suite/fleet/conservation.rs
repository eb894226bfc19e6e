//! Where each count of a process is.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Pass, Success};
use leaparray::{Clock, MonotonicClock, Registry, RegistryConfig, Timestamp};
use leaparray_redis::fleet::{Archive, Budget, Collector, FleetConfig, Outbox, ProcessId};

use crate::fleet::parts::{Process, START, check};

#[test]
fn late_counts_are_told_from_unfinished_ones() {
    let mut server = Archive::new(FleetConfig::default());
    let mut process = Process::new(1, START);
    process.work("orders", 2);
    process.next_second();
    process.work("orders", 5);
    // A thread that has stalled.
    let orders = process.registry.resource("orders").unwrap();
    orders.block_many_at(Timestamp::from_secs(START), 7);
    // In the same second: no other one is read.
    process.collect();
    process.deliver(&mut server);
    let record = process.record();
    check(&record);
    assert_eq!((record.late[Block], record.late[Pass]), (7, 0));
    assert_eq!((record.unfinished()[Pass], record.unfinished()[Block]), (5, 0));
    assert_eq!(record.delivered.1[Pass], 2);
    assert_eq!((record.lifetime[Pass], record.lifetime[Block]), (7, 7));
}

#[test]
fn counts_of_evicted_and_removed_resources_are_delivered() {
    let mut server = Archive::new(FleetConfig::default());
    let mut process = Process::new(1, START);
    process.deliver(&mut server);
    process.work("evicted", 3);
    assert_eq!(process.registry.evict_idle_at(process.registry.clock().now(), Duration::ZERO), 1);
    process.work("removed", 4);
    let held = process.registry.resource("removed").unwrap();
    assert!(process.registry.remove("removed"));
    held.block();
    process.collect();
    check(&process.record());
    assert!(process.record().late.is_zero(), "{:?}", process.record());
    for _ in 0..2 {
        process.next_second();
        process.deliver(&mut server);
        let record = process.record();
        check(&record);
        assert_eq!((record.delivered.1[Pass], record.delivered.1[Block]), (7, 1));
        assert!(record.late.is_zero() && record.unfinished().is_zero(), "{record:?}");
    }
    held.block();
    drop(held);
    process.next_second();
    process.deliver(&mut server);
    assert_eq!(process.record().delivered.1[Block], 2);
    check(&process.record());
}

#[test]
fn counts_before_the_start_belong_to_no_second() {
    let clock = leaparray::ManualClock::new(Timestamp::from_secs(START));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
    let orders = registry.resource("orders").unwrap();
    orders.block_many_at(Timestamp::from_secs(START - 1), 4);
    // In the first second, before the start.
    orders.block_many_at(Timestamp::from_secs(START), 3);
    let now = Timestamp::from_secs(START);
    let mut collector = Collector::new(Arc::clone(&registry), now, Budget::default());
    let mut outbox = Outbox::new(FleetConfig::default(), ProcessId(1), "one", START, 1 << 20);
    clock.advance(Duration::from_secs(1));
    collector.collect_into(Timestamp::from_secs(START + 1), &mut outbox);
    let record = outbox.record();
    check(&record);
    assert_eq!((record.lifetime[Block], record.waiting[Block], record.late[Block]), (3, 3, 0));
}

#[test]
fn seconds_that_were_not_read_in_time_are_missed() {
    let mut server = Archive::new(FleetConfig::default());
    let mut process = Process::new(1, START);
    process.deliver(&mut server);
    process.work("orders", 1);
    process.next_second();
    process.deliver(&mut server);
    // The task does not run for 100 seconds. The registry keeps 60.
    for _ in 0..100 {
        process.work("orders", 2);
        process.clock.advance(Duration::from_secs(1));
    }
    process.collect();
    let record = process.record();
    check(&record);
    assert_eq!(record.late[Pass], 0);
    // Missed counts are not taken for late ones at the next reading.
    process.collect();
    process.deliver(&mut server);
    let record = process.record();
    check(&record);
    assert_eq!(record.delivered.0 + record.missed.0, 101);
    assert_eq!(record.missed.1[Pass], 2 * record.missed.0);
    assert_eq!((record.unfinished()[Pass], record.waiting[Pass], record.late[Pass]), (0, 0, 0));
    assert_eq!(record.lifetime[Pass], 201);
}

/// Threads record while seconds are read: nothing is late, and at the end each count is in one
/// place.
#[test]
fn counts_of_racing_threads_are_each_in_one_place() {
    let registry = Arc::new(Registry::<MonotonicClock>::new());
    let now = || registry.clock().now();
    let mut collector = Collector::new(Arc::clone(&registry), now(), Budget::default());
    let first = now().as_secs();
    let mut outbox = Outbox::new(FleetConfig::default(), ProcessId(1), "one", first, 1 << 20);
    let recorded: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let orders = registry.resource("orders").unwrap();
                    let end = first + 2;
                    let mut passes = 0;
                    while now().as_secs() < end {
                        orders.enter().success();
                        passes += 1;
                    }
                    passes
                })
            })
            .collect();
        while now().as_secs() < first + 2 {
            collector.collect_into(now(), &mut outbox);
            let record = outbox.record();
            check(&record);
        }
        threads.into_iter().map(|it| it.join().unwrap()).sum()
    });
    // The threads may have ended in the second after.
    while now().as_secs() < first + 4 {
        thread::sleep(Duration::from_millis(20));
    }
    collector.collect_into(now(), &mut outbox);
    let record = outbox.record();
    check(&record);
    assert_eq!((record.lifetime[Pass], record.lifetime[Success]), (recorded, recorded));
    assert!(record.unfinished().is_zero(), "{record:?}");
    assert_eq!(record.waiting[Pass] + record.late[Pass], recorded);
}
