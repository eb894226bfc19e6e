//! Reading a window or a node that several threads have used.

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use leaparray::MetricEvent::Pass;
use leaparray::{ManualClock, MonotonicClock, NodeConfig, ResourceNode};

use super::crowd::{self, CROWDS, Crowd, LONG_AGO};
use super::{BUCKET_LEN, NOW, used_window};
use crate::goals::{Row, UNCHANGED_LIMIT, Unit};
use crate::harness::Suite;

/// The baseline of reads: a read would do this load for each bucket if each bucket were behind such
/// a pointer.
const LOAD: &str = "`ArcSwapOption::load`";
const RATE: &str = "rate over the last second (2 buckets) at a given time";
const SUM_MINUTE: &str = "sum over the last minute (120 buckets) at a given time";
/// The least that adds up one counter of each thread: each is in a cell behind a pointer, and
/// counts only if the cell is in use, in one of the buckets.
const LEAST: &str = "add up the counts of as many plain cells, each behind a pointer";
const SNAPSHOT: &str = "`ResourceNode::snapshot_at`";

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    let slot = ArcSwapOption::new(Some(Arc::new(0_u64)));
    suite.add(LOAD, 1, move |_| drop(black_box(slot.load())));
    for crowd in CROWDS {
        let second = used_window(2, crowd, clock);
        suite.add_with_crowd(RATE, crowd, move |_| second.at(black_box(NOW)).qps(Pass));
        let minute = used_window(120, crowd, clock);
        suite.add_with_crowd(SUM_MINUTE, crowd, move |_| minute.at(black_box(NOW)).sum(Pass));
        if crowd.idle + crowd.ended == 0 {
            let cells: Arc<[_]> =
                (0..crowd.record).map(|_| Some(Box::new(PlainCell::new()))).collect();
            suite.add_with_crowd(LEAST, crowd, move |_| add_up(&cells, black_box(0..=120)));
        }
        let node = used_node(crowd);
        suite.add_with_crowd(SNAPSHOT, crowd, move |_| node.at(black_box(NOW)).snapshot());
    }
}

/// A cell in the pair of cache lines that a cell of a window takes.
#[repr(align(128))]
struct PlainCell {
    is_used: AtomicU64,
    bucket: AtomicU64,
    count: AtomicU64,
}

impl PlainCell {
    fn new() -> Self {
        let [is_used, bucket, count] = [1, 7, 3].map(AtomicU64::new);
        Self { is_used, bucket, count }
    }
}

fn add_up(cells: &[Option<Box<PlainCell>>], buckets: RangeInclusive<u64>) -> u64 {
    let mut sum = 0;
    for cell in cells.iter().flatten() {
        let is_used = cell.is_used.load(Ordering::Acquire) == 1;
        if is_used && buckets.contains(&cell.bucket.load(Ordering::Relaxed)) {
            sum += cell.count.load(Ordering::Relaxed);
        }
    }
    sum
}

fn used_node(crowd: Crowd) -> Arc<ResourceNode<ManualClock>> {
    let clock = ManualClock::new(NOW.saturating_sub(BUCKET_LEN * LONG_AGO));
    let node = Arc::new(ResourceNode::with_clock(NodeConfig::default(), clock.clone()));
    let used = Arc::clone(&node);
    crowd::record(crowd, move |then| {
        clock.set(then);
        used.enter().success();
    });
    node
}

/// Returns the rows. Zen 5 has goals of its own; all other processors have the goals of Zen 4.
pub(crate) fn rows(is_zen_5: bool) -> Vec<Row> {
    let (rate, sum) = if is_zen_5 { (0.6, 5.0) } else { (1.2, 10.0) };
    let mut rows = vec![
        Row::baseline(LOAD, 1),
        Row::ratio(RATE, 1, LOAD, rate),
        Row::ratio(SUM_MINUTE, 1, LOAD, sum),
    ];
    for crowd in CROWDS {
        if crowd.idle + crowd.ended == 0 {
            rows.push(Row::new(LEAST, crowd, Unit::Nanos, None));
            rows.push(Row::new(SUM_MINUTE, crowd, Unit::RatioTo(LEAST.to_owned()), None));
        }
        for case in [RATE, SUM_MINUTE] {
            if crowd.record > 1 {
                rows.push(Row::new(case, crowd, Unit::NanosPerCell, 1.0));
            } else if crowd != Crowd::of(1) {
                rows.push(Row::new(case, crowd, Unit::RatioToOneThread, UNCHANGED_LIMIT));
            }
        }
        let at_most = 20.0f64.mul_add(crowd.record as f64, 1_000.0);
        rows.push(Row::new(SNAPSHOT, crowd, Unit::Nanos, at_most));
    }
    rows
}
