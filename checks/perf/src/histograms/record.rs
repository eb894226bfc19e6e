//! Recording response times, one kind of input at a time.

use std::cell::Cell;

use crossbeam_utils::CachePadded;
use leaparray::MonotonicClock;

use super::input;
use super::peers::{self, NO_HISTOGRAM, Ours, Peer, Visitor};
use crate::goals::Row;
use crate::harness::Suite;
use crate::machine;
use crate::scenarios::BUCKET_LEN;
use crate::scenarios::crowd::Crowd;
use crate::scenarios::record::{RAW, RAW_AGAIN, raw};
use crate::timed::on_threads_each;

/// The inputs, by their names in the cases.
pub(super) const CONSTANT: &str = "one response time";
pub(super) const SPREAD: &str = "three decades";

/// The baseline that also takes the response times of [`SPREAD`] from their array.
const RAW_AND_INPUT: &str = "a raw counter read, and the next response time";

/// The least that counts a response time by bucket, in a histogram of scale 4: the time in
/// nanoseconds, the number of its bucket, the bin, and three adds to plain words of the thread if
/// they are of that bucket.
const LEAST: &str = "read `quanta`'s clock, and add to a plain count, sum and bin of the thread";

/// The numbers of threads that record.
const THREADS: [usize; 2] = [1, 2];

/// Returns the name of the case in which a peer records an input.
pub(super) fn case(peer: &str, input: &str) -> String {
    format!("record with {peer}: {input}")
}

/// The plain words of a thread.
struct PlainWords {
    bucket: Cell<u64>,
    count: Cell<u64>,
    sum: Cell<u64>,
    bins: [Cell<u32>; PlainWords::BINS],
}

thread_local! {
    static PLAIN: PlainWords = const {
        PlainWords {
            bucket: Cell::new(0),
            count: Cell::new(0),
            sum: Cell::new(0),
            bins: [const { Cell::new(0) }; PlainWords::BINS],
        }
    };
}

impl PlainWords {
    const SCALE: u32 = 4;
    /// As many as there are bins of response times of 32 bits.
    const BINS: usize = 32 << Self::SCALE;

    fn record(&self, nanos: u64, rt: u32) {
        let bucket = nanos / BUCKET_LEN.as_nanos() as u64;
        if bucket != self.bucket.get() {
            self.reset(bucket);
        }
        let exponent = (rt | 1 << Self::SCALE).ilog2();
        let fraction = rt >> (exponent - Self::SCALE) & ((1 << Self::SCALE) - 1);
        let bin = &self.bins[(exponent << Self::SCALE | fraction) as usize];
        self.count.set(self.count.get() + 1);
        self.sum.set(self.sum.get() + u64::from(rt));
        bin.set(bin.get().wrapping_add(1));
    }

    #[cold]
    fn reset(&self, bucket: u64) {
        self.bucket.set(bucket);
        self.count.set(0);
        self.sum.set(0);
        self.bins.iter().for_each(|bin| bin.set(0));
    }
}

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for threads in THREADS {
        raw(suite, threads);
        let (quanta, rt) = (quanta::Clock::new(), input::spread());
        suite.add(RAW_AND_INPUT, threads, move |number| (quanta.raw(), rt(number)));
        let (quanta, rt) = (quanta::Clock::new(), input::spread());
        let start = quanta.raw();
        suite.add(LEAST, threads, move |number| {
            let nanos = quanta.delta_as_nanos(start, quanta.raw());
            PLAIN.with(|words| words.record(nanos, rt(number)));
        });
    }
    peers::visit_all(&mut Cases { suite, clock });
}

struct Cases<'a> {
    suite: &'a mut Suite,
    clock: &'a MonotonicClock,
}

impl Visitor for Cases<'_> {
    fn visit<P: Peer>(&mut self) {
        for threads in THREADS {
            self.add::<P>(CONSTANT, threads, input::constant);
            self.add::<P>(SPREAD, threads, input::spread());
        }
    }
}

impl Cases<'_> {
    fn add<P: Peer>(
        &mut self,
        name: &str,
        threads: usize,
        rt: impl Fn(u64) -> u32 + Copy + Sync + 'static,
    ) {
        // Padded, so that no other data is in its cache lines.
        let peer = CachePadded::new(P::new(self.clock));
        let waits_for_core = threads > machine::cores();
        let run = move |iters, first| {
            let peer = &*peer;
            let recorder = || {
                let mut record = peer.recorder();
                move |number| record(rt(number))
            };
            let elapsed = on_threads_each(threads, iters, first, &recorder)?;
            Some(if waits_for_core { elapsed.core } else { elapsed.wall })
        };
        self.suite.add_run(&case(P::NAME, name), Crowd::of(threads), threads, run);
    }
}

/// Returns the rows of this crate.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in THREADS {
        rows.push(Row::baseline(RAW, threads));
        rows.push(Row::ratio(RAW_AGAIN, threads, RAW, None));
        rows.push(Row::ratio(RAW_AND_INPUT, threads, RAW, None));
        rows.push(Row::ratio(LEAST, threads, RAW, None));
        rows.push(Row::ratio(case(Ours::<4>::NAME, SPREAD), threads, LEAST, None));
        for input in [CONSTANT, SPREAD] {
            let mut row = |peer, at_most| {
                rows.push(Row::ratio(case(peer, input), threads, RAW, at_most));
            };
            row(Ours::<NO_HISTOGRAM>::NAME, None);
            row(Ours::<4>::NAME, Some(1.25));
            row(Ours::<5>::NAME, Some(1.25));
        }
    }
    rows
}
