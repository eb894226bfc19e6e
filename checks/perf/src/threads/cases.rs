//! Recording, and the way to the resource that is recorded in.

use std::hint::black_box;
use std::sync::atomic::{AtomicI64, Ordering};

use crossbeam_utils::CachePadded;
use leaparray::{Entry, MonotonicClock, NodeConfig, Registry, RegistryConfig, ResourceNode};

use super::rows_of;
use crate::goals::{Row, UNCHANGED_LIMIT};
use crate::harness::Suite;
use crate::scenarios::{BUCKET_LEN, RT, config};

const COUNTER: &str = "a raw counter read (`quanta`)";
const SHARED: &str = "`AtomicI64::fetch_add`, one shared counter";
const PROMETHEUS: &str = "prometheus: a finished request";
const SUCCESS: &str = "record a success and its response time";
const ENTER: &str = "enter a `ResourceNode` and succeed";
const LOOK_UP: &str = "look a resource up by its name, enter it and succeed";

pub(super) fn rows() -> Vec<Row> {
    let others = [COUNTER, SHARED, PROMETHEUS].map(|case| (case, None));
    let ours = [SUCCESS, ENTER, LOOK_UP].map(|case| (case, Some(UNCHANGED_LIMIT)));
    others.into_iter().chain(ours).flat_map(|(case, at_most)| rows_of(case, at_most)).collect()
}

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock, threads: usize) {
    let quanta = quanta::Clock::new();
    suite.add_bound(COUNTER, threads, move |_, _| quanta.raw());
    let counter = CachePadded::new(AtomicI64::new(0));
    suite
        .add_bound(SHARED, threads, move |_, _| counter.fetch_add(black_box(1), Ordering::Relaxed));
    add_prometheus(suite, threads);
    let window = leaparray::SlidingWindow::with_clock(config(2, BUCKET_LEN), clock.clone());
    suite.add_bound(SUCCESS, threads, move |_, _| window.record_success(black_box(RT)));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    suite.add_bound(ENTER, threads, move |_, _| node.enter().success());
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    suite.add_bound(LOOK_UP, threads, move |_, _| {
        let orders = registry.resource(black_box("GET /orders")).expect("room for one resource");
        Entry::enter(orders).success();
    });
}

fn add_prometheus(suite: &mut Suite, threads: usize) {
    let counter = prometheus::IntCounter::new("requests", "requests").expect("a valid name");
    let options = prometheus::HistogramOpts::new("rt", "rt");
    let rt = prometheus::Histogram::with_opts(options).expect("valid options");
    suite.add_bound(PROMETHEUS, threads, move |_, _| {
        counter.inc();
        rt.observe(black_box(RT.as_secs_f64()));
    });
}
