//! Recording: the cost of one event or of a request.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use leaparray::MetricEvent::Pass;
use leaparray::time::CachedClock;
use leaparray::{
    Entry, MonotonicClock, NodeConfig, Registry, RegistryConfig, ResourceNode, SlidingWindow,
    Timestamp,
};

use super::crowd::Crowd;
use super::{BUCKET_LEN, NOW, RT, config, window};
use crate::goals::{Row, UNCHANGED_LIMIT, Unit};
use crate::harness::Suite;

/// One read of the time stamp counter. The precise clock reads it, too.
pub(crate) const RAW: &str = "a raw counter read (`quanta`)";
/// The same operation as a second case. It shows the difference of two measurements of one
/// operation.
pub(crate) const RAW_AGAIN: &str = "a raw counter read, measured again";
/// The least that counts by bucket: the time in nanoseconds, the number of its bucket, and an add
/// to a plain cell of the thread if that is the cell's bucket.
const LEAST: &str = "read `quanta`'s clock, and add to a plain cell of the thread and the bucket";
/// One `fetch_add` on a counter that all threads share.
const FETCH_ADD: &str = "`AtomicI64::fetch_add`, one shared counter";
const PRECISE: &str = "record one event, precise clock";
const SUCCESS: &str = "record a success and its response time, precise clock";
const ENTRY: &str = "enter a `ResourceNode` and succeed, precise clock";
const LOOK_UP: &str = "look a resource up, enter it and succeed, precise clock";
const CACHED: &str = "record one event, `CachedClock`";
const GIVEN: &str = "record one event at a given time";
const MANY: &str = "record in 1,000 windows in turn, precise clock";

const WINDOWS: u64 = 1_000;
/// The numbers of threads that record one event.
const THREADS: [usize; 4] = [1, 2, 4, 8];

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for threads in THREADS {
        baselines(suite, threads);
        one_event(suite, clock, threads);
    }
    for threads in [1, 2] {
        more_than_one_event(suite, clock, threads);
    }
}

/// Adds the counter read, twice.
pub(crate) fn raw(suite: &mut Suite, threads: usize) {
    for name in [RAW, RAW_AGAIN] {
        let quanta = quanta::Clock::new();
        suite.add(name, threads, move |_| quanta.raw());
    }
}

/// A plain cell of a thread.
#[derive(Clone, Copy, Default)]
struct PlainCell {
    bucket: u64,
    count: u64,
}

thread_local! {
    static PLAIN: Cell<PlainCell> = const { Cell::new(PlainCell { bucket: 0, count: 0 }) };
}

fn add_to_plain_cell(clock: &quanta::Clock, start: u64) {
    let nanos = clock.delta_as_nanos(start, clock.raw());
    let bucket = nanos / BUCKET_LEN.as_nanos() as u64;
    PLAIN.with(|cell| {
        let PlainCell { bucket: last, count } = cell.get();
        let count = if last == bucket { count } else { 0 };
        cell.set(PlainCell { bucket, count: count + black_box(1) });
    });
}

fn baselines(suite: &mut Suite, threads: usize) {
    raw(suite, threads);
    let quanta = quanta::Clock::new();
    let start = quanta.raw();
    suite.add(LEAST, threads, move |_| add_to_plain_cell(&quanta, start));
    // Padded, so that no other data is in its cache line. A cell of a window has its lines to
    // itself, too.
    let counter = CachePadded::new(AtomicI64::new(0));
    suite.add(FETCH_ADD, threads, move |_| counter.fetch_add(black_box(1), Ordering::Relaxed));
}

fn one_event(suite: &mut Suite, clock: &MonotonicClock, threads: usize) {
    let precise = window(2, clock);
    suite.add(PRECISE, threads, move |_| precise.add(Pass, black_box(1)));
    let ticking = CachedClock::start(clock.clone(), Duration::from_millis(1));
    let cached =
        SlidingWindow::with_clock(config(2, BUCKET_LEN), ticking.expect("the thread starts"));
    suite.add(CACHED, threads, move |_| cached.add(Pass, black_box(1)));
    let window = window(2, clock);
    // The time advances by 256 ns with each record, so that the window rolls over.
    suite.add(GIVEN, threads, move |number| {
        // No `Duration`: its arithmetic takes as long as the record.
        let now = Timestamp::from_nanos(NOW.as_nanos() + (number << 8));
        window.add_at(black_box(now), Pass, black_box(1));
    });
}

fn more_than_one_event(suite: &mut Suite, clock: &MonotonicClock, threads: usize) {
    let one = window(2, clock);
    suite.add(SUCCESS, threads, move |_| one.record_success(black_box(RT)));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    suite.add(ENTRY, threads, move |_| node.enter().success());
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    suite.add(LOOK_UP, threads, move |_| {
        let orders = registry.resource(black_box("GET /orders")).expect("room for one resource");
        Entry::enter(orders).success();
    });
    let many: Arc<[_]> = (0..WINDOWS).map(|_| window(2, clock)).collect();
    suite.add(MANY, threads, move |number| {
        many[(number % WINDOWS) as usize].add(Pass, black_box(1));
    });
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (threads, many, shared) in [(1, 1.1, 0.5), (2, 1.5, 0.15)] {
        rows.push(Row::baseline(RAW, threads));
        rows.push(Row::ratio(RAW_AGAIN, threads, RAW, None));
        rows.push(Row::ratio(PRECISE, threads, RAW, 1.05));
        rows.push(Row::ratio(LEAST, threads, RAW, None));
        rows.push(Row::ratio(PRECISE, threads, LEAST, None));
        rows.push(Row::ratio(SUCCESS, threads, LEAST, None));
        rows.push(Row::ratio(SUCCESS, threads, RAW, 1.05));
        rows.push(Row::ratio(ENTRY, threads, RAW, 2.1));
        rows.push(Row::ratio(LOOK_UP, threads, RAW, None));
        rows.push(Row::ratio(MANY, threads, RAW, many));
        rows.push(Row::baseline(FETCH_ADD, threads));
        rows.push(Row::ratio(CACHED, threads, FETCH_ADD, shared));
        rows.push(Row::ratio(GIVEN, threads, FETCH_ADD, shared));
    }
    rows
}

/// Returns rows that compare the cost on several threads with the same cost on one thread.
pub(crate) fn rows_with_threads() -> Vec<Row> {
    let mut rows = Vec::new();
    for &threads in &THREADS[1..] {
        rows.extend([PRECISE, CACHED, GIVEN].map(|case| {
            Row::new(case, Crowd::of(threads), Unit::RatioToOneThread, UNCHANGED_LIMIT)
        }));
    }
    let two = Crowd::of(2);
    rows.push(Row::new(LOOK_UP, two, Unit::RatioToOneThread, UNCHANGED_LIMIT));
    rows
}
