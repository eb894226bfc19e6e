//! Reads of one thread while the other ones record.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leaparray::MetricEvent::Pass;
use leaparray::{MonotonicClock, SlidingWindow};

use super::rows_of;
use crate::goals::Row;
use crate::harness::Suite;
use crate::scenarios::crowd::Crowd;
use crate::scenarios::{BUCKET_LEN, config};
use crate::timed::{bind, on_processors};

const RATE: &str = "read the rate of a second while the other threads record";
const MINUTE: &str = "read the sum of a minute while the other threads record";

pub(super) fn rows() -> Vec<Row> {
    [RATE, MINUTE].into_iter().flat_map(|case| rows_of(case, None)).collect()
}

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock, threads: usize) {
    let window = |buckets| SlidingWindow::with_clock(config(buckets, BUCKET_LEN), clock.clone());
    add_read(suite, RATE, threads, window(2), |window| window.now().qps(Pass));
    add_read(suite, MINUTE, threads, window(120), |window| window.now().sum(Pass) as f64);
}

/// Adds a case in which the thread on the first processor reads, and those on the other ones
/// record.
fn add_read(
    suite: &mut Suite,
    case: &str,
    threads: usize,
    window: SlidingWindow,
    read: impl Fn(&SlidingWindow) -> f64 + Sync + 'static,
) {
    suite.add_run(case, Crowd::of(threads), threads, move |iters, first| {
        let (stop, started) = (AtomicBool::new(false), Barrier::new(threads));
        thread::scope(|scope| {
            for processor in 1..threads {
                let (stop, started, window) = (&stop, &started, &window);
                scope.spawn(move || {
                    bind(processor);
                    started.wait();
                    while !stop.load(Ordering::Relaxed) {
                        (0..64).for_each(|_| window.add(Pass, black_box(1)));
                    }
                });
            }
            started.wait();
            let nanos = on_processors(1, iters, first, &|_, _| read(&window));
            stop.store(true, Ordering::Relaxed);
            nanos
        })
    });
}
