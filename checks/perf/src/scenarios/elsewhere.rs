//! Requests that enter on one thread and end on another, as in a runtime with several threads.
//!
//! The entries go to the other thread in batches, of which several are on the way, so that both
//! threads work at once. The baseline is two threads that each end their own requests, in batches
//! too. The time spent waiting for a batch does not count.
//!
//! The same with plain values, as large as entries, shows what passing them takes: the caches of
//! one core get the lines that the other one has written.

use std::hint::black_box;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use leaparray::{Clock, Entry, MonotonicClock, NodeConfig, ResourceNode, Timestamp};

use super::crowd::Crowd;
use crate::goals::Row;
use crate::harness::Suite;

const HERE: &str = "enter a `ResourceNode` 400 times, then succeed 400 times, precise clock";
const ELSEWHERE: &str = "the same, and the requests end on another thread";
const PLAIN_HERE: &str = "read the precise clock into 400 values, then once for each of them";
const PLAIN_ELSEWHERE: &str = "the same, and the values are read on another thread";
const BATCH: usize = 400;
/// The number of batches on the way to the other thread and back.
const BATCHES: usize = 8;
/// The first batches, whose time does not count: each request looks at the gauge until the usual
/// number of requests is in flight.
const WARM_UP: usize = 50;

/// As large as an [`Entry`] of a reference.
type Plain = [Timestamp; size_of::<Entry<&ResourceNode>>() / size_of::<Timestamp>()];

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    let node = || ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let (here, elsewhere) = (node(), node());
    suite.add_run(HERE, Crowd::of(2), 2, move |iters, _| {
        on_each_thread(iters, &|| here.enter(), &Entry::success)
    });
    suite.add_run(ELSEWHERE, Crowd::of(2), 2, move |iters, _| {
        on_two_threads(iters, &|| elsewhere.enter(), &Entry::success)
    });
    let begin = |clock: MonotonicClock| move || -> Plain { black_box([clock.now(); _]) };
    let end = |clock: MonotonicClock| {
        move |it: Plain| {
            black_box((it, clock.now()));
        }
    };
    let both = (begin(clock.clone()), end(clock.clone()));
    suite.add_run(PLAIN_HERE, Crowd::of(2), 2, move |iters, _| {
        on_each_thread(iters, &both.0, &both.1)
    });
    let both = (begin(clock.clone()), end(clock.clone()));
    suite.add_run(PLAIN_ELSEWHERE, Crowd::of(2), 2, move |iters, _| {
        on_two_threads(iters, &both.0, &both.1)
    });
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::baseline(HERE, 2),
        Row::ratio(ELSEWHERE, 2, HERE, 1.3),
        Row::baseline(PLAIN_HERE, 2),
        Row::ratio(PLAIN_ELSEWHERE, 2, PLAIN_HERE, None),
    ]
}

const fn batches(iters: u64) -> usize {
    (iters as usize).div_ceil(BATCH)
}

/// Returns the nanoseconds of a request, of the time that two threads have taken together.
fn per_request(taken: Duration, iters: u64) -> f64 {
    taken.as_secs_f64() * 1e9 / (batches(iters) * BATCH) as f64
}

fn fill<T>(batch: &mut Vec<T>, begin: &impl Fn() -> T) -> Duration {
    timed(|| batch.extend((0..BATCH).map(|_| begin())))
}

fn empty<T>(batch: &mut Vec<T>, end: &impl Fn(T)) -> Duration {
    timed(|| batch.drain(..).for_each(end))
}

fn timed(op: impl FnOnce()) -> Duration {
    let start = Instant::now();
    op();
    start.elapsed()
}

/// Two threads each begin and end requests of their own. `None` if one of them panicked.
fn on_each_thread<T>(
    iters: u64,
    begin: &(impl Fn() -> T + Sync),
    end: &(impl Fn(T) + Sync),
) -> Option<f64> {
    let own = || {
        let mut batch = Vec::with_capacity(BATCH);
        let each =
            (0..WARM_UP + batches(iters)).map(|_| fill(&mut batch, begin) + empty(&mut batch, end));
        each.skip(WARM_UP).sum::<Duration>()
    };
    let [one, other] = thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(own));
        both.map(|thread| thread.join().ok())
    });
    Some(per_request(one? + other?, iters) / 2.0)
}

/// This thread begins requests, and another one ends them. `None` if the other one panicked.
fn on_two_threads<T: Send>(
    iters: u64,
    begin: &impl Fn() -> T,
    end: &(impl Fn(T) + Sync),
) -> Option<f64> {
    let (to_elsewhere, filled) = mpsc::channel();
    let (to_here, emptied) = mpsc::channel();
    for _ in 0..BATCHES {
        to_here.send(Vec::with_capacity(BATCH)).ok()?;
    }
    thread::scope(|scope| {
        let elsewhere = scope.spawn(move || end_all(&filled, &to_here, end));
        let mut taken = Duration::ZERO;
        for number in 0..WARM_UP + batches(iters) {
            let mut batch = emptied.recv().ok()?;
            let of_batch = fill(&mut batch, begin);
            if number >= WARM_UP {
                taken += of_batch;
            }
            to_elsewhere.send(batch).ok()?;
        }
        drop(to_elsewhere);
        Some(per_request(taken + elsewhere.join().ok()?, iters))
    })
}

/// Ends the requests of each batch, and passes the empty batch back if the other thread still takes
/// batches.
fn end_all<T>(filled: &Receiver<Vec<T>>, to_here: &Sender<Vec<T>>, end: &impl Fn(T)) -> Duration {
    let each = filled.iter().map(|mut batch| {
        let taken = empty(&mut batch, end);
        let _ = to_here.send(batch);
        taken
    });
    each.skip(WARM_UP).sum()
}
