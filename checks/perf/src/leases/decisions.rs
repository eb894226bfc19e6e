//! The decisions in the process, from permits that are in hand, or in a shortage.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use leaparray::flow::{Decision, Limiter, LimiterExt, SlidingWindowLimiter};
use leaparray::{Clock, ManualClock, MonotonicClock, WindowConfig};
use leaparray_redis::BootClock;
use leaparray_redis::lease::LeaseConfig;
use tokio::runtime::{Builder, Runtime};

use super::fill::{self, Permits};
use crate::goals::Row;
use crate::harness::Suite;
use crate::scenarios::NOW;
use crate::scenarios::crowd::Crowd;

/// A window that both limiters have.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    name: &'static str,
    buckets: u32,
    interval: Duration,
}

const GEOMETRIES: [Geometry; 2] = [SECOND, MINUTE];
const SECOND: Geometry =
    Geometry { name: "10 buckets in a second", buckets: 10, interval: Duration::from_secs(1) };
const MINUTE: Geometry =
    Geometry { name: "60 buckets in a minute", buckets: 60, interval: Duration::from_secs(60) };

const LOCAL: &str = "`SlidingWindowLimiter`";
const LEASED: &str = "`LeasedLimiter`";

const AT: &str = "admitted at a given time";
const MONOTONIC: &str = "admitted, `MonotonicClock`";
const BOOT: &str = "admitted, `BootClock`";
const REFUSED_AT: &str = "refused at a given time";
const REFUSED: &str = "refused, `MonotonicClock`";
const FIRST: &str = "the first decision in a bucket, at a given time";

const THREADS: [usize; 2] = [1, 2];

fn case(limiter: &str, what: &str, geometry: Geometry) -> String {
    format!("{limiter}, {what}, {}", geometry.name)
}

/// Returns a baseline and its ratio, for each number of threads and each geometry.
fn pairs(whats: &[&str], goal: Option<f64>) -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in THREADS {
        for geometry in GEOMETRIES {
            for what in whats {
                let [local, leased] = [LOCAL, LEASED].map(|it| case(it, what, geometry));
                rows.push(Row::baseline(&local, threads));
                rows.push(Row::ratio(leased, threads, local, goal));
            }
        }
    }
    rows
}

pub(super) fn given() -> Vec<Row> {
    let mut rows = pairs(&[AT], Some(1.2));
    let [local, leased] = [LOCAL, LEASED].map(|it| case(it, FIRST, SECOND));
    rows.extend([Row::baseline(&local, 1), Row::ratio(leased, 1, local, None)]);
    rows
}

pub(super) fn clocks() -> Vec<Row> {
    pairs(&[MONOTONIC, BOOT], Some(1.2))
}

pub(super) fn refusals() -> Vec<Row> {
    pairs(&[REFUSED_AT, REFUSED], None)
}

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let runtime = Rc::new(runtime);
    for threads in THREADS {
        for geometry in GEOMETRIES {
            let mut cases = Cases { suite, threads, geometry, runtime: &runtime };
            cases.add_pair(AT, REFUSED_AT, Times::Given, &ManualClock::new(NOW));
            cases.add_pair(MONOTONIC, REFUSED, Times::Clock, clock);
            cases.add_admitted(BOOT, Times::Clock, &BootClock::new());
        }
    }
    Cases { suite, threads: 1, geometry: SECOND, runtime: &runtime }.firsts();
}

/// Where a decision has its time from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// All decisions of a sample are at the same time.
    Given,
    /// Each decision reads the clock of the limiter.
    Clock,
}

/// The cases with a number of threads and a geometry.
struct Cases<'a> {
    suite: &'a mut Suite,
    threads: usize,
    geometry: Geometry,
    runtime: &'a Rc<Runtime>,
}

impl Cases<'_> {
    fn add_pair<C>(&mut self, admitted: &str, refused: &str, times: Times, clock: &C)
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        self.add_admitted(admitted, times, clock);
        let (local, leased) = self.limiters(Permits::Short, clock);
        self.add(LOCAL, refused, times, local, is_refused);
        self.add(LEASED, refused, times, leased, is_refused);
    }

    fn add_admitted<C>(&mut self, name: &str, times: Times, clock: &C)
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        let (local, leased) = self.limiters(Permits::InHand, clock);
        self.add(LOCAL, name, times, local, Decision::is_admitted);
        self.add(LEASED, name, times, leased, Decision::is_admitted);
    }

    /// Returns functions that make a limiter of each kind.
    fn limiters<C>(
        &self,
        permits: Permits,
        clock: &C,
    ) -> (
        impl Fn() -> SlidingWindowLimiter<C> + use<C>,
        impl Fn() -> leaparray_redis::LeasedLimiter<C> + use<C>,
    )
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        let Geometry { buckets, interval, .. } = self.geometry;
        let window = WindowConfig::new(buckets as usize, interval).expect("whole buckets");
        let config = LeaseConfig::of_buckets(LeaseConfig::MAX_LIMIT, buckets, interval);
        let config = config.expect("whole buckets");
        let (own, runtime) = (clock.clone(), Rc::clone(self.runtime));
        let local = move || fill::local(window, permits, own.clone());
        let clock = clock.clone();
        let leased = move || fill::leased(&runtime, config, permits, clock.clone());
        (local, leased)
    }

    /// Adds a case that makes a limiter before each sample, and checks each decision, also while it
    /// is measured. If a decision is not the expected one, the thread panics and the round is lost.
    fn add<L: Limiter<Permit = ()> + Sync + 'static>(
        &mut self,
        limiter: &str,
        what: &str,
        times: Times,
        make: impl Fn() -> L + 'static,
        is_expected: fn(&Decision) -> bool,
    ) {
        let (name, threads) = (case(limiter, what, self.geometry), self.threads);
        // The compiler must make the whole decision, although the check reads only a part of it.
        let check =
            move |decision| assert!(is_expected(&black_box(decision)), "unexpected decision");
        // A case with a wrong setup ends the program before the run.
        check(make().try_acquire());
        match times {
            Times::Given => self.suite.add_made(&name, threads, move || {
                let limiter = CachePadded::new(make());
                let now = limiter.account().now();
                move |_| check(limiter.try_acquire_at(black_box(now), 1))
            }),
            Times::Clock => self.suite.add_made(&name, threads, move || {
                let limiter = CachePadded::new(make());
                move |_| check(limiter.try_acquire())
            }),
        }
    }

    /// Adds the cases of the first decision in a bucket: each moves to the next bucket.
    fn firsts(&mut self) {
        let clock = ManualClock::new(NOW);
        let (local, leased) = self.limiters(Permits::InHand, &clock);
        let bucket = self.geometry.interval / self.geometry.buckets;
        self.add_first(LOCAL, clock.clone(), bucket, local);
        self.add_first(LEASED, clock, bucket, leased);
    }

    fn add_first<L: Limiter<Permit = ()> + 'static>(
        &mut self,
        limiter: &str,
        clock: ManualClock,
        bucket: Duration,
        make: impl Fn() -> L + 'static,
    ) {
        let run = move |iters: u64, _| {
            let mut elapsed = Duration::ZERO;
            let times = iters.div_ceil(FIRSTS);
            for _ in 0..times {
                let limiter = make();
                assert!(limiter.try_acquire().is_admitted());
                let start = Instant::now();
                for _ in 0..FIRSTS {
                    clock.advance(bucket);
                    assert!(black_box(limiter.try_acquire()).is_admitted());
                }
                elapsed += start.elapsed();
            }
            Some(elapsed.as_secs_f64() * 1e9 / (times * FIRSTS) as f64)
        };
        run(1, 0);
        self.suite.add_run(&case(limiter, FIRST, self.geometry), Crowd::of(1), 1, run);
    }
}

/// The buckets in a row that begin with a decision: a lease is valid for more, with ten buckets in
/// a second.
const FIRSTS: u64 = 4;

/// Returns whether a request was refused until a time that is known.
fn is_refused(decision: &Decision) -> bool {
    decision.refusal().is_some_and(|refusal| refusal.retry_at().is_some())
}
