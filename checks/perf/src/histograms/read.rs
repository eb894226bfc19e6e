//! Reading four quantiles.

use std::hint::black_box;

use leaparray::MonotonicClock;
use leaparray_perf_page::grouped;

use super::input;
use super::peers::{self, BUCKETS, NO_HISTOGRAM, Peer, QUANTILES, SCALES, Visitor};
use crate::goals::{Row, Unit};
use crate::harness::Suite;
use crate::scenarios::NOW;
use crate::scenarios::crowd::Crowd;
use crate::scenarios::rollover::on_this_thread;

/// The response times in each bucket: 2,000 and 200,000 requests per second.
const USUAL: usize = 1_000;
const MANY: usize = 100_000;

/// The buckets that are read, the response times in each of them, and the most nanoseconds of a
/// read.
const READS: [(u32, usize, Option<f64>); 3] =
    [(10, USUAL, Some(3_000.0)), (BUCKETS, USUAL, Some(15_000.0)), (BUCKETS, MANY, None)];

/// Returns the name of the case that reads a peer with a minute of 2,000 requests per second.
pub(super) fn case(peer: &str) -> String {
    format!("read four quantiles of {peer}")
}

fn case_of_buckets(buckets: u32, per_bucket: usize, scale: &str) -> String {
    let per_bucket = grouped(per_bucket as f64);
    format!("four quantiles over {buckets} buckets of {per_bucket}, {scale}")
}

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for (buckets, per_bucket, _) in READS {
        let rts = input::spread_times(buckets as usize * per_bucket);
        for (scale, name) in SCALES.into_iter().filter(|&(scale, _)| scale != NO_HISTOGRAM) {
            let window = peers::window(buckets, scale, clock);
            peers::fill(&window, buckets, &rts);
            let read = move || window.at(black_box(NOW)).quantiles(black_box(QUANTILES));
            add_read(suite, &case_of_buckets(buckets, per_bucket, name), read);
        }
    }
    peers::visit_all(&mut Cases { suite, clock });
}

/// Adds a case that reads on the thread that takes the samples. The warm-up of a new thread would
/// have more reads than a sample.
fn add_read<R>(suite: &mut Suite, name: &str, read: impl Fn() -> R + 'static) {
    let read = on_this_thread(move |_| drop(black_box(read())));
    suite.add_run(name, Crowd::of(1), 1, read);
}

struct Cases<'a> {
    suite: &'a mut Suite,
    clock: &'a MonotonicClock,
}

impl Visitor for Cases<'_> {
    fn visit<P: Peer>(&mut self) {
        let peer = P::new(self.clock);
        peer.fill(&input::spread_times(BUCKETS as usize * USUAL));
        if peer.quantiles().is_some() {
            add_read(self.suite, &case(P::NAME), move || black_box(&peer).quantiles());
        }
    }
}

/// Returns the rows of this crate.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (buckets, per_bucket, at_most) in READS {
        for (_, name) in SCALES.into_iter().filter(|&(scale, _)| scale != NO_HISTOGRAM) {
            let case = case_of_buckets(buckets, per_bucket, name);
            rows.push(Row::new(case, Crowd::of(1), Unit::Nanos, at_most));
        }
    }
    rows
}
