//! Crowds: threads that record, idle, or have ended.

use std::sync::{Arc, Barrier};
use std::thread;

use leaparray::Timestamp;
pub(crate) use leaparray_perf_page::Crowd;

use super::{BUCKET_LEN, NOW};

/// The crowds that reads are measured with. The first one is the baseline of the others.
pub(crate) const CROWDS: [Crowd; 5] =
    [Crowd::of(1), Crowd::of(8), Crowd::of(64), Crowd::IDLE, Crowd::ENDED];

/// How many buckets before `NOW` the idle and the ended threads record.
pub(super) const LONG_AGO: u32 = 1_000;
/// The number of buckets in which the calling thread records after that.
const ROLLOVERS: u32 = 400;

/// Runs a crowd that records by `record_at`. The calling thread is one of the threads that record:
/// it records in each of the last buckets up to `NOW`.
pub(super) fn record(crowd: Crowd, record_at: impl Fn(Timestamp) + Send + Sync + 'static) {
    let record_at = Arc::new(record_at);
    let record = |age: u32| {
        let record_at = Arc::clone(&record_at);
        move || record_at(NOW.saturating_sub(BUCKET_LEN * age))
    };
    start(crowd.ended, false, record(LONG_AGO));
    start(crowd.idle, true, record(LONG_AGO));
    for age in (0..ROLLOVERS).rev() {
        record(age)();
    }
    start(crowd.record - 1, true, record(0));
}

/// Runs `op` once on each of `threads` threads, which are all alive at the same time. If `stays`,
/// the threads stay parked until the process ends; otherwise they have ended when this function
/// returns.
fn start(threads: usize, stays: bool, op: impl Fn() + Clone + Send + 'static) {
    let all = Arc::new(Barrier::new(threads + 1));
    let spawn = |_| {
        let (all, op) = (Arc::clone(&all), op.clone());
        let run = move || {
            op();
            all.wait();
            if stays {
                loop {
                    thread::park();
                }
            }
        };
        // A small stack: over a thousand threads are alive at once.
        thread::Builder::new().stack_size(256 << 10).spawn(run).expect("the thread starts")
    };
    let running: Vec<_> = (0..threads).map(spawn).collect();
    all.wait();
    if !stays {
        for thread in running {
            thread.join().expect("no panic");
        }
    }
}
