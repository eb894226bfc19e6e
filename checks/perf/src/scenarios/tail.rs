//! The slowest records: with buckets of a millisecond, on two threads, beside a bare clock read.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use leaparray::MetricEvent::Pass;
use leaparray::{MonotonicClock, SlidingWindow};

use super::config;

const THREADS: usize = 2;
/// A minute: no recorded duration is longer.
const LONGEST: u64 = 60_000_000_000;

/// How long each operation took, in nanoseconds, with one bare clock read that it is timed by.
pub(crate) struct Tail {
    quanta: quanta::Clock,
    window: SlidingWindow,
    pub(crate) bare: Histogram<u64>,
    pub(crate) record: Histogram<u64>,
}

impl Tail {
    pub(crate) fn new(clock: &MonotonicClock) -> Self {
        let window = SlidingWindow::with_clock(config(10, Duration::from_millis(1)), clock.clone());
        Self { quanta: quanta::Clock::new(), window, bare: empty(), record: empty() }
    }

    /// Adds a sample of each.
    pub(crate) fn sample(&mut self, length: Duration) {
        let (quanta, window) = (&self.quanta, &self.window);
        let bare = on_two_threads(quanta, length, || quanta.raw());
        let record = on_two_threads(quanta, length, || window.add(Pass, black_box(1)));
        self.bare.add(bare).expect("the same bounds");
        self.record.add(record).expect("the same bounds");
    }
}

/// The mean of the slowest thousandth.
pub(crate) fn mean_of_slowest_thousandth(histogram: &Histogram<u64>) -> f64 {
    let mut left = histogram.len() / 1_000;
    let (count, mut sum) = (left, 0);
    let values: Vec<_> = histogram.iter_recorded().collect();
    for value in values.iter().rev() {
        let taken = value.count_at_value().min(left);
        sum += taken * value.value_iterated_to();
        left -= taken;
    }
    sum as f64 / count as f64
}

pub(super) fn empty() -> Histogram<u64> {
    // Two digits: a small table, so that filling it moves little out of the cache.
    Histogram::new_with_bounds(1, LONGEST, 2).expect("valid bounds")
}

fn on_two_threads<R>(
    quanta: &quanta::Clock,
    length: Duration,
    op: impl Fn() -> R + Sync,
) -> Histogram<u64> {
    let start = Barrier::new(THREADS);
    let run = || {
        let mut histogram = empty();
        start.wait();
        let began = Instant::now();
        while began.elapsed() < length {
            batch(quanta, &mut histogram, &op);
        }
        histogram
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        let mut all = empty();
        for thread in running {
            all.add(thread.join().expect("op does not panic")).expect("the same bounds");
        }
        all
    })
}

/// Times some operations, one by one.
fn batch<R>(quanta: &quanta::Clock, histogram: &mut Histogram<u64>, op: &impl Fn() -> R) {
    for _ in 0..1_000 {
        let before = quanta.raw();
        black_box(op());
        let after = quanta.raw();
        histogram.saturating_record(quanta.delta_as_nanos(before, after).max(1));
    }
}
