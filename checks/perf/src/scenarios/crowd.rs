//! Threads that record, that idle, and that have ended.

use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use leaparray::MetricEvent::Pass;
use leaparray::{Clock, SlidingWindow};

use super::{BUCKET_LEN, NOW, RT};

/// Which threads have used a window besides those that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// They are alive and have recorded in the current bucket.
    pub(crate) record: usize,
    /// They are alive and have recorded only in a bucket that the window has left.
    pub(crate) idle: usize,
    /// They recorded in such a bucket, all at once, and have ended.
    pub(crate) ended: usize,
}

impl Crowd {
    /// Threads that record, and no others.
    pub(crate) const fn of(record: usize) -> Self {
        Self { record, idle: 0, ended: 0 }
    }

    /// One thread that records, beside others.
    pub(crate) const fn beside(idle: usize, ended: usize) -> Self {
        Self { record: 1, idle, ended }
    }
}

/// The crowds that reads are measured with: the first one is what the others are compared with.
pub(crate) const CROWDS: [Crowd; 5] =
    [Crowd::of(1), Crowd::of(8), Crowd::of(64), Crowd::beside(256, 0), Crowd::beside(0, 1_024)];

/// How many buckets ago the threads recorded that idle or have ended.
const LONG_AGO: u32 = 1_000;
/// How many buckets the calling thread records in after that.
const ROTATIONS: u32 = 400;

/// Lets these threads use the window. The calling thread is one of those that record: it has recorded
/// in each of the last buckets up to `NOW`.
pub(crate) fn fill<C>(window: &SlidingWindow<C>, crowd: Crowd)
where
    C: Clock + Clone + Send + Sync + 'static,
{
    let [idle, ended, record] = [LONG_AGO, LONG_AGO, 0].map(|age| {
        let (window, then) = (window.clone(), NOW.saturating_sub(BUCKET_LEN * age));
        move || window.add_at(then, Pass, 1)
    });
    come_and_go(crowd.ended, ended);
    park(crowd.idle, idle);
    for age in (0..ROTATIONS).rev() {
        let then = NOW.saturating_sub(BUCKET_LEN * age);
        window.add_at(then, Pass, 1);
        window.record_success_at(then, RT);
    }
    park(crowd.record - 1, record);
}

/// Lets so many threads do `op` once. They stay alive until the process ends, and do nothing more.
pub(crate) fn park(threads: usize, op: impl Fn() + Send + Sync + 'static) {
    let all = Arc::new(Barrier::new(threads + 1));
    let after = {
        let all = Arc::clone(&all);
        move || {
            all.wait();
            loop {
                thread::park();
            }
        }
    };
    start(threads, op, after);
    all.wait();
}

/// Lets so many threads do `op` once, while all of them are alive, and waits until they have ended.
pub(crate) fn come_and_go(threads: usize, op: impl Fn() + Send + Sync + 'static) {
    let all = Barrier::new(threads);
    let after = move || {
        all.wait();
    };
    for thread in start(threads, op, after) {
        thread.join().expect("no panic");
    }
}

fn start(
    threads: usize,
    op: impl Fn() + Send + Sync + 'static,
    after: impl Fn() + Send + Sync + 'static,
) -> Vec<JoinHandle<()>> {
    let work = Arc::new(move || {
        op();
        after();
    });
    // A small stack: there are over a thousand at once.
    let builder = || thread::Builder::new().stack_size(256 << 10);
    let spawn = || {
        let work = Arc::clone(&work);
        builder().spawn(move || work()).expect("one more thread")
    };
    (0..threads).map(|_| spawn()).collect()
}
