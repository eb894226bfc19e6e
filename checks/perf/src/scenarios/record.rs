//! Recording.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use leaparray::MetricEvent::Pass;
use leaparray::{CachedClock, MonotonicClock, NodeConfig, ResourceNode, SlidingWindow, Timestamp};

use super::{BUCKET_LEN, NOW, RT, config, crowds, thread_counts, window};
use crate::harness::Suite;

/// One read of the time stamp counter.
pub(crate) const RAW: &str = "the bare counter (`quanta` raw)";
/// The same once more: what two measurements of one thing differ by.
pub(crate) const RAW_AGAIN: &str = "the bare counter, once more";
/// One `fetch_add` on a counter that all threads share.
pub(crate) const FETCH_ADD: &str = "`AtomicI64::fetch_add`, one counter";
pub(crate) const PRECISE: &str = "record one event, precise clock";
pub(crate) const SUCCESS: &str = "record success + rt + min + max, precise clock";
pub(crate) const ENTRY: &str = "`ResourceNode`: enter, and succeed, precise clock";
pub(crate) const CACHED: &str = "record one event, `CachedClock`";
pub(crate) const GIVEN: &str = "record one event, time given";
pub(crate) const MANY: &str = "record in 1,000 windows in turn, precise clock";

/// The thread cache has 512 sets of two ways: windows that were made a multiple of 512 apart share a set.
pub(crate) const SAME_SET_512: &str = "record in two windows in turn, 512 apart, precise clock";
pub(crate) const SAME_SET_1024: &str = "record in two windows in turn, 1,024 apart, precise clock";
pub(crate) const THREE_IN_SET: &str =
    "record in three windows in turn, all in one set of the cache, precise clock";

const WINDOWS: u64 = 1_000;

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock, cores: usize) {
    let counts = thread_counts(cores);
    for &threads in &counts {
        to_compare_with(suite, threads);
        one_event(suite, clock, threads);
    }
    for threads in [1, 2] {
        more_than_one_event(suite, clock, threads);
        one_set(suite, clock, threads);
    }
    for threads in crowds(cores).into_iter().filter(|threads| !counts.contains(threads)) {
        fetch_add(suite, threads);
        time_given(suite, clock, threads);
    }
}

fn to_compare_with(suite: &mut Suite, threads: usize) {
    let quanta = quanta::Clock::new();
    suite.add(RAW, threads, move |_| quanta.raw());
    let quanta = quanta::Clock::new();
    suite.add(RAW_AGAIN, threads, move |_| quanta.raw());
    fetch_add(suite, threads);
}

fn fetch_add(suite: &mut Suite, threads: usize) {
    // Padded, so that it shares its line with nothing else, as a window's counters do not.
    let counter = CachePadded::new(AtomicI64::new(0));
    suite.add(FETCH_ADD, threads, move |_| counter.fetch_add(black_box(1), Ordering::Relaxed));
}

fn one_event(suite: &mut Suite, clock: &MonotonicClock, threads: usize) {
    let precise = window(2, clock);
    suite.add(PRECISE, threads, move |_| precise.add(Pass, black_box(1)));
    let ticking = CachedClock::start(clock.clone(), Duration::from_millis(1));
    let cached =
        SlidingWindow::with_clock(config(2, BUCKET_LEN), ticking.expect("one more thread"));
    suite.add(CACHED, threads, move |_| cached.add(Pass, black_box(1)));
    time_given(suite, clock, threads);
}

fn time_given(suite: &mut Suite, clock: &MonotonicClock, threads: usize) {
    let window = window(2, clock);
    // The time passes, a quarter of a microsecond for each, so that the window rotates.
    suite.add(GIVEN, threads, move |number| {
        // Not with a `Duration`: its arithmetic takes as long as the record.
        let now = Timestamp::from_nanos(NOW.as_nanos() + (number << 8));
        window.add_at(black_box(now), Pass, black_box(1));
    });
}

fn more_than_one_event(suite: &mut Suite, clock: &MonotonicClock, threads: usize) {
    let one = window(2, clock);
    suite.add(SUCCESS, threads, move |_| one.record_success(black_box(RT)));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    suite.add(ENTRY, threads, move |_| node.enter().success());
    let many: Arc<[_]> = (0..WINDOWS).map(|_| window(2, clock)).collect();
    suite.add(MANY, threads, move |number| {
        let turn = usize::try_from(number % WINDOWS).unwrap_or_default();
        many[turn].add(Pass, black_box(1));
    });
}

/// Windows whose entries share a set of the thread cache.
fn one_set(suite: &mut Suite, clock: &MonotonicClock, threads: usize) {
    let cases: [(_, &[u64]); 3] =
        [(SAME_SET_512, &[0, 512]), (SAME_SET_1024, &[0, 1_024]), (THREE_IN_SET, &[0, 512, 1_024])];
    for (name, offsets) in cases {
        // Windows are numbered in the order in which they are made; those between are dropped.
        let made = (0..=1_024).map(|number| (number, window(2, clock)));
        let windows: Arc<[_]> =
            made.filter(|(number, _)| offsets.contains(number)).map(|(_, window)| window).collect();
        let count = offsets.len() as u64;
        suite.add(name, threads, move |number| {
            let turn = usize::try_from(number % count).unwrap_or_default();
            windows[turn].add(Pass, black_box(1));
        });
    }
}
