//! Rollovers: every operation is the first record in its bucket.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use leaparray::MetricEvent::Pass;
use leaparray::metric::MetricBucket;
use leaparray::{MonotonicClock, Timestamp};

use super::crowd::Crowd;
use super::{BUCKET_LEN, NOW, used_window};
use crate::goals::{Row, Unit};
use crate::harness::{Plan, Suite};
use crate::machine;
use crate::quiet::Quiet;
use crate::results::Results;

/// The baseline: a rollover that allocates its bucket does at least this.
const STORE: &str = "allocate a bucket and store it in an `ArcSwapOption`";
const SECOND: &str = "roll over and record one event, 2 buckets";
const MINUTE: &str = "roll over and record one event, 120 buckets";

/// Measures the rollovers. The number of threads that the process has had affects the cost, so each
/// crowd is measured before the next one starts, and before all other cases.
pub(crate) fn measure(plan: Plan, clock: &MonotonicClock, quiet: &mut Quiet) -> Results {
    let mut results = Results::default();
    for crowd in [Crowd::of(1), Crowd::ENDED, Crowd::IDLE] {
        let mut suite = Suite::new(machine::cores());
        if crowd == Crowd::of(1) {
            let slot = ArcSwapOption::empty();
            let store = move |_| slot.store(Some(Arc::new(MetricBucket::default())));
            suite.add_run(STORE, crowd, 1, on_this_thread(store));
        }
        for (name, sample_count) in [(SECOND, 2), (MINUTE, 120)] {
            let window = used_window(sample_count, crowd, clock);
            let record = on_this_thread(move |number| {
                // The end of time is 3.4 · 10¹⁰ buckets away: an hour of measuring at 100 ns for
                // each.
                let nanos = NOW.as_nanos() + number * BUCKET_LEN.as_nanos() as u64;
                window.add_at(Timestamp::from_nanos(nanos), Pass, black_box(1));
            });
            suite.add_run(name, crowd, 1, record);
        }
        results.0.extend(suite.measure(plan, quiet, |_| ()).0);
    }
    results
}

/// Runs `op` on the thread that takes the samples: a new thread would be one more thread that uses
/// the window.
pub(crate) fn on_this_thread(op: impl Fn(u64)) -> impl Fn(u64, u64) -> Option<f64> {
    move |iters, first| {
        let start = Instant::now();
        (first..first + iters).for_each(&op);
        Some(start.elapsed().as_secs_f64() * 1e9 / iters as f64)
    }
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = vec![Row::baseline(STORE, 1)];
    for case in [SECOND, MINUTE] {
        rows.push(Row::ratio(case, 1, STORE, 1.0));
        rows.push(Row::new(case, Crowd::ENDED, Unit::RatioToOneThread, 1.2));
        rows.push(Row::new(case, Crowd::IDLE, Unit::RatioToOneThread, 2.0));
    }
    rows
}
