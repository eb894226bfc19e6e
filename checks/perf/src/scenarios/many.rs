//! Requests in many resources in turn, beside the floor: the same cache lines in plain memory.
//!
//! A thread that uses thousands of resources has none of their lines in its first caches, so the
//! memory has its part in each request. The floor shows this part twice: the lines of a record
//! whose address is known, so that the loads of several records overlap; and the lines of three
//! parts, each found through the one before, as the entry of a cache is found by the number of a
//! node, and the cell by the entry.

use std::hint::black_box;
use std::sync::Arc;

use leaparray::{MonotonicClock, NodeConfig, Outcome, ResourceNode, Timestamp};

use super::crowd::Crowd;
use super::{BUCKET_LEN, NOW, RT};
use crate::goals::Row;
use crate::harness::Suite;
use crate::timed::on_threads_each;

/// The numbers of resources.
const SIZES: [u64; 5] = [100, 1_000, 2_048, 10_000, 100_000];
/// The numbers of resources whose buckets change. Each of them takes some kilobytes.
const ROTATED_SIZES: [u64; 3] = [100, 1_000, 10_000];

/// The number of parts of a record. A request touches two lines of each: of the node, of the entry
/// in the thread's cache, and of the cell.
const PARTS: usize = 3;

/// A line of a record. `next` is the number of the record: the load of the next pair of lines waits
/// until it is known.
#[derive(Clone)]
#[repr(align(64))]
struct Line {
    count: u64,
    next: usize,
}

fn flat(size: u64) -> String {
    format!("add to 6 cache lines of each of {size} records in turn")
}

fn chained(size: u64) -> String {
    format!("the same of {size} records, of which each pair of lines is found through the last one")
}

fn requests(size: u64) -> String {
    format!("enter each of {size} resources in turn and succeed, at a given time")
}

fn rotations(size: u64) -> String {
    format!("the same in {size} resources, each time in another bucket")
}

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for threads in [1, 2] {
        for size in SIZES {
            add_turns(suite, &flat(size), threads, size, move || add_to_lines(size));
            add_turns(suite, &chained(size), threads, size, move || add_to_chains(size));
            let nodes = nodes(size, clock);
            add_turns(suite, &requests(size), threads, size, move || {
                let nodes = Arc::clone(&nodes);
                move |item, _| request(&nodes[item], NOW)
            });
        }
        for size in ROTATED_SIZES {
            let nodes = nodes(size, clock);
            add_turns(suite, &rotations(size), threads, size, move || {
                let nodes = Arc::clone(&nodes);
                move |item, lap| {
                    let passed = BUCKET_LEN.as_nanos() as u64 * lap;
                    request(&nodes[item], Timestamp::from_nanos(NOW.as_nanos() + passed));
                }
            });
        }
    }
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in [1, 2] {
        for size in SIZES {
            rows.push(Row::baseline(flat(size), threads));
            rows.push(Row::ratio(requests(size), threads, flat(size), None));
            rows.push(Row::ratio(requests(size), threads, chained(size), None));
            let goal = if size <= 10_000 { Some(2.0) } else { None };
            rows.push(Row::ratio(requests(size), threads, requests(SIZES[0]), goal));
        }
        for size in ROTATED_SIZES {
            rows.push(Row::ratio(rotations(size), threads, rotations(ROTATED_SIZES[0]), None));
        }
    }
    rows
}

fn nodes(size: u64, clock: &MonotonicClock) -> Arc<[ResourceNode]> {
    let node = |_| ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    (0..size).map(node).collect()
}

fn request(node: &ResourceNode, now: Timestamp) {
    let entered = black_box(now);
    node.enter_at(entered).end_at(black_box(entered.saturating_add(RT)), Outcome::Success);
}

/// Adds a case whose operation gets the number of an item, and how often all items had their turn.
/// A thread visits each item once before its time is measured.
fn add_turns<Op: FnMut(usize, u64)>(
    suite: &mut Suite,
    name: &str,
    threads: usize,
    size: u64,
    make: impl Fn() -> Op + Sync + 'static,
) {
    suite.add_run(name, Crowd::of(threads), threads, move |iters, first| {
        let make = || {
            let mut op = make();
            (0..size as usize).for_each(|item| op(item, first / size));
            move |number: u64| op((number % size) as usize, number / size)
        };
        on_threads_each(threads, iters, first, &make).map(|elapsed| elapsed.wall)
    });
}

fn add_to_lines(size: u64) -> impl FnMut(usize, u64) {
    let mut lines = vec![Line { count: 0, next: 0 }; size as usize * 2 * PARTS];
    move |item, _| {
        let lines = &mut lines[item * 2 * PARTS..][..2 * PARTS];
        for line in &mut *lines {
            line.count = black_box(line.count + 1);
        }
    }
}

fn add_to_chains(size: u64) -> impl FnMut(usize, u64) {
    let pair = |next| [const { Line { count: 0, next: 0 } }; 2].map(|line| Line { next, ..line });
    let part: Vec<_> = (0..size as usize).map(pair).collect();
    let mut parts: [_; PARTS] = std::array::from_fn(|_| part.clone());
    move |mut item, _| {
        for part in &mut parts {
            let lines = &mut part[item];
            for line in &mut *lines {
                line.count = black_box(line.count + 1);
            }
            item = black_box(lines[1].next);
        }
    }
}
