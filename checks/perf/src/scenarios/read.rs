//! Reading, of a window on its own and beside one thread that keeps recording in it.

use std::hint::black_box;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use leaparray::MetricEvent::Pass;
use leaparray::{ManualClock, MonotonicClock, NodeConfig, ResourceNode, SlidingWindow};

use super::crowd::{self, CROWDS, Crowd};
use super::{BUCKET_LEN, NOW, window};
use crate::harness::Suite;

/// What a read would do for each bucket, if each were behind such a pointer.
pub(crate) const LOAD: &str = "`ArcSwapOption::load`";
/// The same, while the other core records elsewhere.
pub(crate) const LOAD_BESIDE: &str = "`ArcSwapOption::load`, another thread recording elsewhere";
pub(crate) const RATE: &str = "rate over the last second (2 buckets), time given";
pub(crate) const RATE_BESIDE: &str = "the same beside a writer, its time given";
pub(crate) const RATE_BESIDE_PRECISE: &str = "the same beside a writer with the precise clock";
pub(crate) const WRITER: &str = "a writer, time given, beside a reader of this window";
pub(crate) const WRITER_ELSEWHERE: &str = "a writer, time given, beside a reader of another";
pub(crate) const WRITER_PRECISE: &str = "a writer, precise clock, beside a reader of this window";
pub(crate) const WRITER_PRECISE_ELSEWHERE: &str =
    "a writer, precise clock, beside a reader of another";
pub(crate) const SUM_MINUTE: &str = "sum over the last minute (120 buckets), time given";
pub(crate) const SNAPSHOT: &str = "`ResourceNode::snapshot_at`, time given";
pub(crate) const SUM_MINUTE_BESIDE: &str = "the same beside a writer, its time given, of a minute";

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    to_compare_with(suite, clock);
    idle(suite, clock);
    beside_writers(suite, clock);
    writers(suite, clock);
}

/// A window in each of whose buckets as of `NOW` one thread has recorded.
fn filled(sample_count: u32, clock: &MonotonicClock) -> SlidingWindow {
    filled_by(Crowd::of(1), sample_count, clock)
}

fn filled_by(crowd: Crowd, sample_count: u32, clock: &MonotonicClock) -> SlidingWindow {
    let window = window(sample_count, clock);
    crowd::fill(&window, crowd);
    window
}

/// The name of a case that is measured with a crowd.
pub(crate) fn with_crowd(what: &str, crowd: Crowd) -> String {
    let Crowd { record, idle, ended } = crowd;
    match crowd {
        _ if crowd == Crowd::of(1) => what.to_owned(),
        _ => format!("{what}; threads: {record} record, {idle} idle, {ended} ended"),
    }
}

fn rate(window: &SlidingWindow) -> f64 {
    window.qps_at(black_box(NOW), Pass)
}

fn write(window: &SlidingWindow) {
    window.add_at(black_box(NOW), Pass, black_box(1));
}

fn to_compare_with(suite: &mut Suite, clock: &MonotonicClock) {
    let slot = ArcSwapOption::new(Some(Arc::new(0_u64)));
    suite.add(LOAD, 1, move |_| drop(black_box(slot.load())));
    let slot = ArcSwapOption::new(Some(Arc::new(0_u64)));
    let elsewhere = filled(2, clock);
    suite.add_beside(LOAD_BESIDE, move |_| drop(black_box(slot.load())), move || write(&elsewhere));
}

fn idle(suite: &mut Suite, clock: &MonotonicClock) {
    for crowd in CROWDS {
        let second = filled_by(crowd, 2, clock);
        suite.add(&with_crowd(RATE, crowd), 1, move |_| rate(&second));
        let minute = filled_by(crowd, 120, clock);
        let sum = move |_| minute.sum_at(black_box(NOW), Pass);
        suite.add(&with_crowd(SUM_MINUTE, crowd), 1, sum);
        let node = node(crowd);
        let snapshot = move |_| node.snapshot_at(black_box(NOW));
        suite.add(&with_crowd(SNAPSHOT, crowd), 1, snapshot);
    }
}

/// A node that these threads have used, for at least a minute up to `NOW`.
fn node(crowd: Crowd) -> Arc<ResourceNode<ManualClock>> {
    let clock = ManualClock::new(NOW.saturating_sub(BUCKET_LEN * 1_000));
    let node = Arc::new(ResourceNode::with_clock(NodeConfig::default(), clock.clone()));
    let request = {
        let node = Arc::clone(&node);
        move || node.enter().success()
    };
    crowd::come_and_go(crowd.ended, request.clone());
    crowd::park(crowd.idle, request.clone());
    for age in (0..400).rev() {
        clock.set(NOW.saturating_sub(BUCKET_LEN * age));
        request();
    }
    crowd::park(crowd.record - 1, request);
    node
}

fn beside_writers(suite: &mut Suite, clock: &MonotonicClock) {
    let read = filled(2, clock);
    let written = read.clone();
    suite.add_beside(RATE_BESIDE, move |_| rate(&read), move || write(&written));
    // The writer reads its clock, and then records at the time that is read.
    let (read, own) = (filled(2, clock), clock.clone());
    let shared = read.clone();
    suite.add_beside(
        RATE_BESIDE_PRECISE,
        move |_| rate(&read),
        move || {
            black_box(leaparray::Clock::now(&own));
            write(&shared);
        },
    );
    let minute = filled(120, clock);
    let written = minute.clone();
    suite.add_beside(
        SUM_MINUTE_BESIDE,
        move |_| minute.sum_at(black_box(NOW), Pass),
        move || write(&written),
    );
}

fn writers(suite: &mut Suite, clock: &MonotonicClock) {
    for (name, same) in [(WRITER, true), (WRITER_ELSEWHERE, false)] {
        let written = filled(2, clock);
        let read = if same { written.clone() } else { filled(2, clock) };
        suite.add_beside(name, move |_| write(&written), move || rate(&read));
    }
    for (name, same) in [(WRITER_PRECISE, true), (WRITER_PRECISE_ELSEWHERE, false)] {
        let (written, own) = (filled(2, clock), clock.clone());
        let read = if same { written.clone() } else { filled(2, clock) };
        let op = move |_| {
            black_box(leaparray::Clock::now(&own));
            write(&written);
        };
        suite.add_beside(name, op, move || rate(&read));
    }
}
