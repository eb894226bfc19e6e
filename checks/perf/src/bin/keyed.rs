//! Measures the decisions of keyed limiters beside governor's, with a million keys. Prints the bytes of a key on the heap, and
//! nanoseconds for a decision on one thread: the median over the rounds, in which all cases take turns. The two limiters of a case
//! change places in each round, and each sample has the choices after those of the sample before. So neither limiter finds the keys
//! of its requests in the caches because the other one was just asked for them.
//!
//! Each thread is bound to a processor of its own, so that the threads run at the same time.
//!
//! ```sh
//! cargo run --release --manifest-path checks/perf/Cargo.toml --bin keyed
//! ```

use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};
use std::hint::{black_box, spin_loop};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use governor::clock::QuantaClock;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use leaparray::MonotonicClock;
use leaparray::flow::{KeyedLimiter, Rate, TokenBucketPerKey};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Uniform, Zipf};
use rustix::thread::{CpuSet, sched_setaffinity};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

const KEYS: usize = 1_000_000;
const ROUNDS: usize = 101;
/// The decisions of a sample on each thread. They take few milliseconds, so that most samples are not interrupted by other
/// processes.
const DECISIONS: usize = 10_000;
/// The number of choices of a key, after which they begin anew.
const CHOICES: usize = 1 << 21;

/// Whether one request of a key is admitted.
trait Decide<K>: Sync {
    fn admits(&self, key: &K) -> bool;
}

impl<K, S> Decide<K> for KeyedLimiter<K, TokenBucketPerKey, MonotonicClock, S>
where
    K: Hash + Eq + Clone + Send,
    S: BuildHasher + Sync,
{
    fn admits(&self, key: &K) -> bool {
        self.try_acquire(key).is_admitted()
    }
}

impl<K, S> Decide<K> for RateLimiter<K, DashMapStateStore<K, S>, QuantaClock>
where
    K: Hash + Eq + Clone + Send + Sync,
    S: BuildHasher + Clone + Sync,
{
    fn admits(&self, key: &K) -> bool {
        self.check_key(key).is_ok()
    }
}

type Limiter<K> = Box<dyn Decide<K>>;

fn ours<K, S>(hasher: S, burst: u64) -> Limiter<K>
where
    K: Hash + Eq + Clone + Send + 'static,
    S: BuildHasher + Sync + 'static,
{
    let interval = if burst == 1 { HOUR } else { Duration::from_nanos(1) };
    let limit = TokenBucketPerKey::new(Rate::new(1, interval).expect("not zero"), burst);
    let clock = MonotonicClock::new();
    Box::new(
        KeyedLimiter::with_clock_and_hasher(limit, KEYS, clock, hasher)
            .expect("room for a million keys"),
    )
}

fn governors<K, S>(hasher: S, burst: u32) -> Limiter<K>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Default + Sync + Send + 'static,
{
    let interval = if burst == 1 { HOUR } else { Duration::from_nanos(1) };
    let quota = Quota::with_period(interval).expect("not zero");
    let quota = quota.allow_burst(NonZeroU32::new(burst).expect("not zero"));
    let clock = QuantaClock::default();
    Box::new(RateLimiter::dashmap_with_clock_and_hasher(quota, clock, hasher))
}

const HOUR: Duration = Duration::from_secs(3_600);

/// A barrier at which threads spin, so that they leave it at the same time.
#[derive(Default)]
struct SpinBarrier(AtomicUsize);

impl SpinBarrier {
    fn wait(&self, threads: usize) {
        let arrived = self.0.fetch_add(1, Ordering::AcqRel);
        let all = (arrived / threads + 1) * threads;
        while self.0.load(Ordering::Acquire) < all {
            spin_loop();
        }
    }
}

/// Returns nanoseconds for a decision on one of the threads, which are bound to a processor each. The threads of this sample use the
/// choices from `begin` on, and leave in `begin` where they end.
fn cost<K: Sync>(
    threads: usize,
    limiter: &dyn Decide<K>,
    admitted: bool,
    keys: &[K],
    choices: &[u32],
    begin: &mut usize,
) -> f64 {
    let barrier = SpinBarrier::default();
    let first = *begin;
    *begin += threads * DECISIONS;
    let act = |number: usize| {
        let mut set = CpuSet::new();
        set.set(number);
        sched_setaffinity(None, &set).expect("the machine has as many processors");
        let begin = first + number * DECISIONS;
        let choices = choices.iter().cycle().skip(begin % choices.len()).take(DECISIONS);
        barrier.wait(threads);
        let start = Instant::now();
        for &choice in choices {
            assert!(limiter.admits(black_box(&keys[choice as usize])) == admitted);
        }
        start.elapsed()
    };
    let times: Vec<Duration> = thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = (0..threads).map(|number| scope.spawn(move || act(number))).collect();
        running.into_iter().map(|thread| thread.join().expect("no decision panics")).collect()
    });
    nanos_each(times.iter().sum(), DECISIONS * threads)
}

#[expect(clippy::cast_precision_loss, reason = "a run has fewer than 2⁵³ operations")]
fn nanos_each(time: Duration, operations: usize) -> f64 {
    time.as_secs_f64() * 1e9 / operations as f64
}

fn median(costs: &mut [f64]) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// Fills a limiter with all keys, and prints the bytes of a key on the heap, with its text.
fn bytes<K>(name: &str, keys: &[K], make: impl Fn() -> Limiter<K>) {
    let profiler = dhat::Profiler::builder().testing().build();
    let limiter = make();
    assert!(keys.iter().all(|key| limiter.admits(key)));
    #[expect(clippy::cast_precision_loss, reason = "less than 2⁵³ bytes")]
    let each = dhat::HeapStats::get().curr_bytes as f64 / keys.len() as f64;
    println!("| {name} | {each:.1} |");
    drop(limiter);
    drop(profiler);
}

struct Traffic {
    name: &'static str,
    choices: Vec<u32>,
}

#[expect(clippy::cast_possible_truncation, reason = "numbers of keys are less than 2³²")]
#[expect(clippy::cast_sign_loss, reason = "ranks are positive")]
#[expect(clippy::cast_precision_loss, reason = "the number of keys is less than 2⁵³")]
fn traffic() -> [Traffic; 3] {
    let mut random = StdRng::seed_from_u64(1);
    let uniform = Uniform::new(0, KEYS as u32).expect("not empty");
    let uniform = (0..CHOICES).map(|_| uniform.sample(&mut random)).collect();
    // Ranks are given to keys at random, so that popular keys do not lie side by side.
    let mut key_of_rank: Vec<u32> = (0..KEYS as u32).collect();
    key_of_rank.shuffle(&mut random);
    let zipf = Zipf::new(KEYS as f64, 1.0).expect("a valid exponent");
    let zipf = (0..CHOICES).map(|_| key_of_rank[zipf.sample(&mut random) as usize - 1]).collect();
    [
        Traffic { name: "one hot key", choices: vec![5; 1] },
        Traffic { name: "uniform", choices: uniform },
        Traffic { name: "zipf", choices: zipf },
    ]
}

/// Measures a kind of keys, each of which `make` makes from a number.
fn measure<K>(kind: &str, make: impl Fn(usize) -> K)
where
    K: Hash + Eq + Clone + Debug + Send + Sync + 'static,
{
    let keys: Vec<K> = (0..KEYS).map(make).collect();
    println!("\n| keys of type `{kind}`: bytes of a key | |\n|---|---:|");
    let (sip, fast) = (std::hash::RandomState::new, foldhash::fast::RandomState::default);
    let plenty = u32::MAX;
    bytes("governor", &keys, || governors(sip(), plenty));
    bytes("`KeyedLimiter`", &keys, || ours(sip(), plenty.into()));

    let cases: [(&str, bool, [Limiter<K>; 2]); 3] = [
        ("admitted", true, [governors(sip(), plenty), ours(sip(), plenty.into())]),
        ("admitted, `foldhash`", true, [governors(fast(), plenty), ours(fast(), plenty.into())]),
        ("refused", false, [governors(sip(), 1), ours(sip(), 1)]),
    ];
    for (_, _, pair) in &cases {
        assert!(pair.iter().all(|limiter| keys.iter().all(|key| limiter.admits(key))));
    }
    println!("\n| keys of type `{kind}` | threads | governor | `KeyedLimiter` | ratio |");
    println!("|---|---:|---:|---:|---:|");
    for Traffic { name: traffic, choices } in traffic() {
        let mut costs = vec![[[const { Vec::new() }; 2], [const { Vec::new() }; 2]]; cases.len()];
        let mut begin = 0;
        for round in 0..ROUNDS {
            for threads in [1, 2] {
                for ((_, admitted, pair), costs) in cases.iter().zip(&mut costs) {
                    let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
                    for which in order {
                        let limiter = &*pair[which];
                        let cost = cost(threads, limiter, *admitted, &keys, &choices, &mut begin);
                        costs[threads - 1][which].push(cost);
                    }
                }
            }
        }
        for ((case, ..), costs) in cases.iter().zip(costs) {
            for (threads, mut pair) in (1..).zip(costs) {
                let [governor, ours] = [0, 1].map(|which| median(&mut pair[which]));
                let ratio = ours / governor;
                println!(
                    "| {traffic}, {case} | {threads} | {governor:.1} | {ours:.1} | {ratio:.2} |"
                );
            }
        }
    }
}

fn main() {
    measure("u64", |number| (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 3);
    measure("String", |number| format!("client-{number:07}"));
}
