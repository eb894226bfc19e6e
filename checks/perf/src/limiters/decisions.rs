//! The decisions of limiters that admit every request, or refuse every one.

use std::hint::black_box;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use leaparray::flow::{ConcurrencyLimiter, LeakyBucket, LimiterExt, Rate, TokenBucket};
use leaparray::{Clock, Entry, MonotonicClock, NodeConfig, ResourceNode};

use super::one_word::{COUNT, OneWord};
use super::{HOUR, sliding};
use crate::goals::Row;
use crate::harness::Suite;
use crate::peers;

const GOVERNOR: &str = "`governor`'s `check`, admitted";
const GOVERNOR_REFUSES: &str = "`governor`'s `check`, refused";
const WORD: &str = "one word, admitted";
const WORD_AT: &str = "one word, admitted at a given time";
const SLIDING: &str = "`SlidingWindowLimiter`, admitted";
const SLIDING_AT: &str = "`SlidingWindowLimiter`, admitted at a given time";
const SLIDING_REFUSES: &str = "`SlidingWindowLimiter`, refused";
const TOKENS: &str = "`TokenBucket`, admitted";
const LEAKY: &str = "`LeakyBucket`, admitted, or after a wait";
const CONCURRENCY: &str = "`ConcurrencyLimiter`, a permit taken and given back";
const NODE_GOVERNOR: &str = "`governor`'s `check`, then a request of a `ResourceNode`";
const NODE_SLIDING: &str = "a request of a `ResourceNode` by a `SlidingWindowLimiter`";

/// The numbers of threads, as far as the machine has processors.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// The most permits of a limiter that admits every request.
const MANY: u64 = 1 << 40;

fn rows_of<const N: usize>(of: impl Fn(usize) -> [Row; N]) -> Vec<Row> {
    THREADS.into_iter().flat_map(of).collect()
}

pub(super) fn rows() -> Vec<Row> {
    rows_of(|threads| {
        let shared = (threads > 1).then_some(0.4);
        [
            Row::baseline(GOVERNOR, threads),
            Row::ratio(SLIDING, threads, GOVERNOR, shared),
            Row::baseline(WORD, threads),
            Row::ratio(SLIDING, threads, WORD, shared),
            Row::baseline(WORD_AT, threads),
            Row::ratio(SLIDING_AT, threads, WORD_AT, shared),
            Row::baseline(GOVERNOR_REFUSES, threads),
            Row::ratio(SLIDING_REFUSES, threads, GOVERNOR_REFUSES, None),
        ]
    })
}

pub(super) fn entries() -> Vec<Row> {
    rows_of(|threads| {
        [
            Row::baseline(NODE_GOVERNOR, threads),
            Row::ratio(NODE_SLIDING, threads, NODE_GOVERNOR, 1.1),
        ]
    })
}

pub(super) fn others() -> Vec<Row> {
    rows_of(|threads| {
        [
            Row::baseline(GOVERNOR, threads),
            Row::ratio(TOKENS, threads, GOVERNOR, None),
            Row::ratio(LEAKY, threads, GOVERNOR, None),
            Row::ratio(CONCURRENCY, threads, WORD_AT, None),
        ]
    })
}

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock, cores: usize) {
    for threads in THREADS.into_iter().filter(|&threads| threads <= cores) {
        let mut cases = Cases { suite, threads, clock };
        cases.governor();
        cases.one_word();
        cases.sliding();
        cases.others();
        cases.nodes();
    }
}

/// The cases with a number of threads.
struct Cases<'a> {
    suite: &'a mut Suite,
    threads: usize,
    clock: &'a MonotonicClock,
}

impl Cases<'_> {
    fn governor(&mut self) {
        let plenty = CachePadded::new(peers::governor_plenty());
        self.add(GOVERNOR, move || assert!(plenty.check().is_ok()));
        let used_up = CachePadded::new(peers::governor_used_up());
        self.add(GOVERNOR_REFUSES, move || assert!(used_up.check().is_err()));
    }

    fn one_word(&mut self) {
        let (clock, now) = (self.clock.clone(), self.clock.now());
        let word = || CachePadded::new(OneWord::new(COUNT, now));
        let (own, given) = (word(), word());
        self.add(WORD, move || assert!(own.try_acquire_at(clock.now())));
        self.add(WORD_AT, move || assert!(given.try_acquire_at(black_box(now))));
    }

    fn sliding(&mut self) {
        let (clock, now) = (self.clock, self.clock.now());
        let wide = || CachePadded::new(sliding(None, clock));
        let (own, given) = (wide(), wide());
        self.add(SLIDING, move || assert!(own.try_acquire().is_admitted()));
        let admits = move || assert!(given.try_acquire_at(black_box(now), 1).is_admitted());
        self.add(SLIDING_AT, admits);
        let full = CachePadded::new(sliding(Some(1), clock));
        assert!(full.try_acquire().is_admitted());
        self.add(SLIDING_REFUSES, move || assert!(full.try_acquire().is_refused()));
    }

    fn others(&mut self) {
        let clock = self.clock;
        let rate = Rate::new(1_000_000_000, Duration::from_secs(1)).expect("one for each ns");
        let tokens = CachePadded::new(TokenBucket::with_clock(rate, MANY, clock.clone()));
        self.add(TOKENS, move || assert!(tokens.try_acquire().is_admitted()));
        let leaky = CachePadded::new(LeakyBucket::with_clock(rate, HOUR, clock.clone()));
        self.add(LEAKY, move || assert!(!leaky.try_acquire().is_refused()));
        let concurrency = CachePadded::new(ConcurrencyLimiter::new(MANY));
        self.add(CONCURRENCY, move || assert!(concurrency.try_acquire().is_admitted()));
    }

    fn nodes(&mut self) {
        let node = || ResourceNode::with_clock(NodeConfig::default(), self.clock.clone());
        let (beside_governor, beside_limiter) = (node(), node());
        let plenty = CachePadded::new(peers::governor_plenty());
        let wide = CachePadded::new(sliding(None, self.clock));
        self.add(NODE_GOVERNOR, move || {
            assert!(plenty.check().is_ok());
            beside_governor.enter().success();
        });
        self.add(NODE_SLIDING, move || {
            assert!(wide.try_enter(&beside_limiter).map(Entry::success).is_ok());
        });
    }

    fn add(&mut self, name: &str, run: impl Fn() + Sync + 'static) {
        // A case with a wrong setup ends the program before the run.
        run();
        self.suite.add_bound(name, self.threads, move |_, _| run());
    }
}
