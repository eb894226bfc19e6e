//! Rotation: the first response time in a bucket, after a bucket that has one response time, or
//! 1,000.

use std::hint::black_box;
use std::iter;
use std::ops::Range;
use std::time::Duration;

use leaparray::{MonotonicClock, SlidingWindow};

use super::input;
use super::peers::{self, BUCKETS, SCALES, bucket_start};
use crate::goals::Row;
use crate::harness::{Plan, Suite};
use crate::machine;
use crate::quiet::Quiet;
use crate::results::{Results, quantile};
use crate::scenarios::RT;
use crate::scenarios::crowd::Crowd;
use crate::scenarios::rollover::on_this_thread;

/// The response times in each bucket that is not almost empty.
const PER_BUCKET: u64 = 1_000;

/// The windows that rotate.
const WINDOWS: [u32; 2] = [2, BUCKETS];

fn one(buckets: u32, scale: &str) -> String {
    format!("rotate and record one success, {buckets} buckets, {scale}")
}

fn after_bucketful(scale: &str) -> String {
    format!("the same after a bucket of 1,000 response times, median, {scale}")
}

fn bucketful(scale: &str) -> String {
    format!("record a bucket of 1,000 response times and its rotation, {scale}")
}

/// Measures the rotations, on the thread that calls this.
pub(super) fn measure(plan: Plan, clock: &MonotonicClock, quiet: &mut Quiet) -> Results {
    let mut suite = Suite::new(machine::cores());
    let crowd = Crowd::of(1);
    for (scale, name) in SCALES {
        for buckets in WINDOWS {
            let window = peers::window(buckets, scale, clock);
            let record =
                move |bucket| window.record_success_at(bucket_start(bucket), black_box(RT));
            suite.add_run(&one(buckets, name), crowd, 1, on_this_thread(record));
        }
        let (window, quanta) = (peers::window(BUCKETS, scale, clock), quanta::Clock::new());
        suite.add_run(&after_bucketful(name), crowd, 1, move |iters, first| {
            // Each rotation takes a thousand records more, which are not timed.
            Some(median(&window, &quanta, first..first + (iters / 100).max(16)))
        });
        let (window, rt) = (peers::window(BUCKETS, scale, clock), input::spread());
        let record = move |bucket| record_bucket(&window, bucket, 0, rt);
        suite.add_run(&bucketful(name), crowd, 1, on_this_thread(record));
    }
    suite.measure(plan, quiet, |_| ())
}

/// Records the response times of a bucket, except for the first `skipped` ones.
fn record_bucket(window: &SlidingWindow, bucket: u64, skipped: u64, rt: impl Fn(u64) -> u32) {
    let now = bucket_start(bucket);
    for number in skipped..PER_BUCKET {
        let rt = rt(bucket * PER_BUCKET + number);
        window.record_success_at(black_box(now), Duration::new(0, rt));
    }
}

/// Returns the median duration of the first record in a bucket, in nanoseconds. It includes one
/// counter read.
fn median(window: &SlidingWindow, quanta: &quanta::Clock, buckets: Range<u64>) -> f64 {
    let rt = input::spread();
    let mut nanos = Vec::new();
    for bucket in buckets {
        let now = bucket_start(bucket);
        let before = quanta.raw();
        window.record_success_at(black_box(now), black_box(RT));
        let after = quanta.raw();
        nanos.push(quanta.delta_as_nanos(before, after) as f64);
        record_bucket(window, bucket, 1, rt);
    }
    nanos.sort_by(f64::total_cmp);
    quantile(0.5, &nanos)
}

pub(super) fn rows() -> Vec<Row> {
    let two = |scale: &str| one(WINDOWS[0], scale);
    let minute = |scale: &str| one(WINDOWS[1], scale);
    [
        rows_of(two, Some(1.1)),
        rows_of(minute, Some(1.1)),
        rows_of(after_bucketful, None),
        rows_of(bucketful, None),
    ]
    .concat()
}

/// Returns rows that compare a case at each scale with the case without a histogram.
fn rows_of(case: impl Fn(&str) -> String, at_most: Option<f64>) -> Vec<Row> {
    let [(_, plain), scales @ ..] = SCALES;
    let ratio = |(_, scale): (u8, &str)| Row::ratio(case(scale), 1, case(plain), at_most);
    iter::once(Row::baseline(case(plain), 1)).chain(scales.map(ratio)).collect()
}
