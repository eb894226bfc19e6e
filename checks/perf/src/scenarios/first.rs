//! Each thread's first record in a bucket, timed one by one: with every operation, the time goes on by
//! one bucket of a millisecond.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use leaparray::MetricEvent::Pass;
use leaparray::{ManualClock, SlidingWindow, Timestamp};

use super::config;
use super::tail::empty;
use crate::quiet::Quiet;

/// Of how many threads the first records are timed.
pub(crate) const THREADS: [usize; 2] = [1, 2];

const MILLI: Duration = Duration::from_millis(1);

/// How long they took, in nanoseconds, with one bare clock read that each is timed by.
pub(crate) struct First {
    quanta: quanta::Clock,
    window: SlidingWindow<ManualClock>,
    /// The next bucket that no thread has recorded in.
    next: u64,
    /// For each of the numbers of threads.
    pub(crate) record: [Histogram<u64>; THREADS.len()],
}

impl First {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new(Timestamp::MIN);
        let window = SlidingWindow::with_clock(config(10, MILLI), clock);
        Self { quanta: quanta::Clock::new(), window, next: 1, record: [empty(), empty()] }
    }

    /// Adds a sample for each number of threads.
    pub(crate) fn sample(&mut self, length: Duration, quiet: &mut Quiet) {
        for (index, threads) in THREADS.into_iter().enumerate() {
            let taken = quiet.sample(|| {
                let (taken, next) = self.on_threads(threads, length);
                self.next = next;
                taken
            });
            if let Some(taken) = taken {
                self.record[index].add(taken).expect("the same bounds");
            }
        }
    }

    /// The threads meet before each bucket, so that none of them is late.
    fn on_threads(&self, threads: usize, length: Duration) -> (Histogram<u64>, u64) {
        let (arrivals, stop_after) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let run = |leads: bool| {
            let (mut taken, began) = (empty(), Instant::now());
            for round in 0.. {
                if leads && began.elapsed() >= length {
                    // The others see this once they have met the leader.
                    stop_after.fetch_min(round, Ordering::Relaxed);
                }
                meet(&arrivals, (round + 1) * threads as u64);
                if stop_after.load(Ordering::Relaxed) <= round {
                    return (taken, self.next + round);
                }
                let now = Timestamp::from_millis(self.next + round);
                let before = self.quanta.raw();
                self.window.add_at(black_box(now), Pass, black_box(1));
                let after = self.quanta.raw();
                taken.saturating_record(self.quanta.delta_as_nanos(before, after).max(1));
            }
            unreachable!("the leader stops all of them")
        };
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|index| {
                    let run = &run;
                    scope.spawn(move || run(index == 0))
                })
                .collect();
            let (mut all, mut end) = (empty(), self.next);
            for thread in running {
                let (taken, next) = thread.join().expect("recording does not panic");
                all.add(taken).expect("the same bounds");
                end = end.max(next);
            }
            (all, end)
        })
    }
}

/// Waits until there are as many arrivals.
fn meet(arrivals: &AtomicU64, all: u64) {
    let backoff = crossbeam_utils::Backoff::new();
    // Release and acquire: a thread that has met the leader sees when to stop.
    let mut arrived = arrivals.fetch_add(1, Ordering::AcqRel) + 1;
    while arrived < all {
        backoff.snooze();
        arrived = arrivals.load(Ordering::Acquire);
    }
}
