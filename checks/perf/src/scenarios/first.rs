//! Times each thread's first record in a bucket, one by one. The time advances by one bucket of a
//! millisecond with every operation.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_utils::{Backoff, CachePadded};
use leaparray::MetricEvent::Pass;
use leaparray::{MonotonicClock, SlidingWindow, Timestamp};

use super::config;
use super::crowd::Crowd;
use crate::goals::{Row, Unit};
use crate::harness::Suite;
use crate::results::quantile;

/// The cost in a round is the median of the records. It includes one counter read.
const FIRST: &str = "first record of a thread in a bucket, median";
/// The least that publishes as much, and adds to as many words.
const FLOOR: &str =
    "publish a copy of 40 words, and add to 4 words that all threads add to, median";

/// Words of which a thread publishes a copy with its changes by one compare-exchange, as a record
/// does that is the first one in a bucket: see `history::descriptor` and `history::row`.
struct Published {
    /// `{ tag: 56, index: 8 }` of the current block.
    head: CachePadded<AtomicU64>,
    /// One more than there are threads. Each thread has one to fill, and then the one that its own
    /// has replaced.
    blocks: [CachePadded<[AtomicU64; Published::WORDS]>; Published::BLOCKS],
    /// Beside the head, such a record locks the bus for the word of the newest bucket, for the word
    /// of the slot, and twice for a free block. A thread that finds its bucket in the first of
    /// these words only reads it.
    others: [CachePadded<AtomicU64>; 4],
}

impl Published {
    const WORDS: usize = 40;
    const BLOCKS: usize = 3;

    const fn new() -> Self {
        Self {
            head: CachePadded::new(AtomicU64::new(0)),
            blocks: [const { CachePadded::new([const { AtomicU64::new(0) }; Self::WORDS]) }; _],
            others: [const { CachePadded::new(AtomicU64::new(0)) }; _],
        }
    }

    /// Publishes a copy with one added to each word, in the block `spare`. Returns the block that
    /// was replaced.
    fn publish(&self, spare: usize) -> usize {
        for word in &self.others {
            word.fetch_add(1, Ordering::Relaxed);
        }
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let current = head as usize % 256;
            for (from, to) in self.blocks[current].iter().zip(self.blocks[spare].iter()) {
                to.store(from.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            let next = (head / 256 + 1) * 256 + spare as u64;
            match self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return current,
                Err(found) => head = found,
            }
        }
    }
}

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for threads in [1, 2] {
        let window = SlidingWindow::with_clock(config(10, Duration::from_millis(1)), clock.clone());
        let quanta = quanta::Clock::new();
        suite.add_run(FIRST, Crowd::of(threads), threads, {
            let quanta = quanta.clone();
            move |iters, first| {
                median(&quanta, threads, first..first + iters, || {
                    |bucket| {
                        let now = Timestamp::from_millis(bucket);
                        window.add_at(black_box(now), Pass, black_box(1));
                    }
                })
            }
        });
        let published = Published::new();
        suite.add_run(FLOOR, Crowd::of(threads), threads, move |iters, first| {
            let published = &published;
            let spare = AtomicUsize::new(1 + published.head.load(Ordering::Relaxed) as usize % 256);
            median(&quanta, threads, first..first + iters, || {
                let mut spare = spare.fetch_add(1, Ordering::Relaxed) % Published::BLOCKS;
                move |_| spare = published.publish(spare)
            })
        });
    }
}

pub(crate) fn rows() -> Vec<Row> {
    let of = |threads| {
        [
            Row::new(FIRST, Crowd::of(threads), Unit::Nanos, 300.0),
            Row::baseline(FLOOR, threads),
            Row::ratio(FIRST, threads, FLOOR, None),
        ]
    };
    [1, 2].map(of).concat()
}

/// Returns the median duration in nanoseconds of what `runner` returns on each thread, which is
/// called with each number. The threads meet before each number, so no record is late.
fn median<R: FnMut(u64)>(
    quanta: &quanta::Clock,
    threads: usize,
    numbers: Range<u64>,
    runner: impl Fn() -> R + Sync,
) -> Option<f64> {
    let arrivals = AtomicU64::new(0);
    let on_each = || {
        let (mut run, mut nanos) = (runner(), Vec::new());
        for (number, meeting) in numbers.clone().zip(1..) {
            meet(&arrivals, meeting * threads as u64);
            let before = quanta.raw();
            run(number);
            let after = quanta.raw();
            nanos.push(quanta.delta_as_nanos(before, after) as f64);
        }
        nanos
    };
    let nanos: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(on_each)).collect();
        running.into_iter().map(|thread| thread.join().ok()).collect()
    });
    let mut nanos = nanos.into_iter().collect::<Option<Vec<_>>>()?.concat();
    nanos.sort_by(f64::total_cmp);
    Some(quantile(0.5, &nanos))
}

/// Counts an arrival, and waits until there are `all` of them.
fn meet(arrivals: &AtomicU64, all: u64) {
    let backoff = Backoff::new();
    let mut arrived = arrivals.fetch_add(1, Ordering::Relaxed) + 1;
    while arrived < all {
        backoff.snooze();
        arrived = arrivals.load(Ordering::Relaxed);
    }
}
