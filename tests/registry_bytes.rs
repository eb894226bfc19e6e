//! The memory of idle resources: of 25,000 that were never used, used once, or evicted, and of 500
//! that were used for a minute.
//!
//! The chunks of the process-wide slab of cells and the threads' caches are left out, since all
//! windows share them; the cells that are in use are counted instead.
//!
//! This is a separate file because the profiler counts the allocations of the whole process.

use std::fs;
use std::thread;
use std::time::Duration;

use leaparray::node::CellMemory;
use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Timestamp};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const RESOURCES: usize = 25_000;
const FEW: usize = 500;
const BUCKET: Duration = Duration::from_millis(500);
const CELL: usize = 128;

fn bytes() -> usize {
    let cells = CellMemory::current();
    dhat::HeapStats::get().curr_bytes - cells.bytes - cells.cache_bytes + cells.in_use * CELL
}

/// Returns at least the number of processors of the machine: a quota or an affinity of this process
/// does not count.
fn processors() -> usize {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let highest = online.trim_end().rsplit(['-', ',']).next().and_then(|it| it.parse().ok());
    let of_thread = thread::available_parallelism().map_or(1, usize::from);
    highest.map_or(of_thread, |highest: usize| of_thread.max(highest + 1))
}

#[test]
fn idle_resources_stay_within_their_budget() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let clock = ManualClock::new(Timestamp::MIN);
    let config = RegistryConfig::default().max_resources(RESOURCES);
    let names: Vec<_> = (0..RESOURCES).map(|i| format!("GET /service/{i:06}")).collect();

    let before = bytes();
    let registry = Registry::with_clock(config, clock.clone());
    for name in &names {
        registry.resource(name).unwrap();
    }
    let each = |resources| (bytes() - before) / resources;
    let never = each(RESOURCES);
    for name in &names {
        registry.resource(name).unwrap().enter().success();
    }
    let once = each(RESOURCES);

    clock.advance(BUCKET * 240);
    assert_eq!(registry.evict_idle_at(registry.clock().now(), BUCKET * 120), RESOURCES);
    // The table of names is left.
    let evicted = each(RESOURCES);
    let cells = CellMemory::current();

    // The memory of a resource that was busy and no longer is.
    let before = bytes();
    for name in &names[..FEW] {
        let resource = registry.resource(name).unwrap();
        for _ in 0..120 {
            clock.advance(BUCKET);
            resource.enter().success();
        }
    }
    let minute_long = (bytes() - before) / FEW;
    println!("never used {never}, once {once}, evicted {evicted}, for a minute {minute_long}");
    println!("slab: once evicted {cells:?}, at the end {:?}", CellMemory::current());
    // A handle that is kept takes three cache lines, and a pointer for each lane: two for each
    // processor, up to 64.
    let lanes = (2 * processors()).next_power_of_two().min(64);
    assert!(once <= 1_240 + 8 * lanes, "used once: {once} bytes for each");
    assert!(evicted <= 60, "evicted: {evicted} bytes for each former one");
    // The map of names frees its entries in batches, so a few evicted resources may still have
    // their cells.
    assert!(cells.in_use <= 64, "cells of evicted resources return to the slab: {cells:?}");
    // Each chunk doubles the slab.
    assert!(cells.bytes <= 2 * RESOURCES * CELL, "{cells:?}");
    assert_eq!(CellMemory::current().bytes, cells.bytes, "cells are recycled");
    assert!(minute_long <= 15_800 + 8 * lanes, "used for a minute: {minute_long} bytes for each");
    assert!(never <= 628, "never used: {never} bytes for each");
}
