//! Requests that enter on one thread and end on another, as in a runtime with several threads.
//!
//! The entries go to the other thread in batches, of which several are on the way, so that both
//! threads work at once. The baseline is two threads that each end their own requests, in batches
//! too. The time spent waiting for a batch does not count.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use leaparray::{Entry, MonotonicClock, NodeConfig, ResourceNode};

use super::crowd::Crowd;
use crate::goals::Row;
use crate::harness::Suite;

const HERE: &str = "enter a `ResourceNode` 400 times, then succeed 400 times, precise clock";
const ELSEWHERE: &str = "the same, and the requests end on another thread";
const BATCH: usize = 400;
/// The number of batches on the way to the other thread and back.
const BATCHES: usize = 8;
/// The first batches, whose time does not count: each request looks at the gauge until the usual
/// number of requests is in flight.
const WARM_UP: usize = 50;

type Batch<'a> = Vec<Entry<&'a ResourceNode>>;

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    let node = || ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let (here, elsewhere) = (node(), node());
    suite.add_run(HERE, Crowd::of(2), 2, move |iters, _| {
        let of_both = thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| on_one_thread(&here, batches(iters))));
            both.map(|thread| thread.join().ok())
        });
        let [one, other] = of_both;
        Some((one? + other?).as_secs_f64() * 1e9 / 2.0 / requests(iters))
    });
    suite.add_run(ELSEWHERE, Crowd::of(2), 2, move |iters, _| {
        let taken = on_two_threads(&elsewhere, batches(iters))?;
        Some(taken.as_secs_f64() * 1e9 / requests(iters))
    });
}

pub(crate) fn rows() -> Vec<Row> {
    vec![Row::baseline(HERE, 2), Row::ratio(ELSEWHERE, 2, HERE, 1.3)]
}

const fn batches(iters: u64) -> usize {
    (iters as usize).div_ceil(BATCH)
}

fn requests(iters: u64) -> f64 {
    (batches(iters) * BATCH) as f64
}

fn enter<'a>(node: &'a ResourceNode, batch: &mut Batch<'a>) -> Duration {
    timed(|| batch.extend((0..BATCH).map(|_| node.enter())))
}

fn end(batch: &mut Batch<'_>) -> Duration {
    timed(|| batch.drain(..).for_each(Entry::success))
}

fn timed(op: impl FnOnce()) -> Duration {
    let start = Instant::now();
    op();
    start.elapsed()
}

fn on_one_thread(node: &ResourceNode, batches: usize) -> Duration {
    let mut batch = Vec::with_capacity(BATCH);
    let all = (0..WARM_UP + batches).map(|_| enter(node, &mut batch) + end(&mut batch));
    all.skip(WARM_UP).sum()
}

/// Returns the time that both threads have taken together; `None` if the other one panicked.
fn on_two_threads(node: &ResourceNode, batches: usize) -> Option<Duration> {
    let (to_elsewhere, entered) = mpsc::channel();
    let (to_here, ended) = mpsc::channel();
    for _ in 0..BATCHES {
        to_here.send(Vec::with_capacity(BATCH)).ok()?;
    }
    thread::scope(|scope| {
        let elsewhere = scope.spawn(move || end_all(&entered, &to_here));
        let mut taken = Duration::ZERO;
        for number in 0..WARM_UP + batches {
            let mut batch = ended.recv().ok()?;
            let of_batch = enter(node, &mut batch);
            if number >= WARM_UP {
                taken += of_batch;
            }
            to_elsewhere.send(batch).ok()?;
        }
        drop(to_elsewhere);
        Some(taken + elsewhere.join().ok()?)
    })
}

/// Ends the requests of each batch, and passes the empty batch back if the other thread still takes
/// batches.
fn end_all<'a>(entered: &Receiver<Batch<'a>>, to_here: &Sender<Batch<'a>>) -> Duration {
    let each = entered.iter().map(|mut batch| {
        let taken = end(&mut batch);
        let _ = to_here.send(batch);
        taken
    });
    each.skip(WARM_UP).sum()
}
