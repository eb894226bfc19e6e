//! What the models have in common.

use std::time::Duration;

use leaparray::{Bucket, LeapArray, Timestamp, WindowConfig};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

/// The bucket length.
pub const LEN: Duration = Duration::from_millis(500);

/// The smallest bucket there is: one counter, so that a model explores the ring.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

impl Bucket for Tally {
    type Total = u64;

    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Two tallies that one thread adds to at a time, with a load and a store: a store begins nothing
/// that a reader could acquire.
#[derive(Debug, Default)]
pub struct OwnedPair([AtomicU64; 2]);

impl OwnedPair {
    /// Adds `count` to both, as the only thread that does.
    pub fn add(&self, count: u64) {
        for tally in &self.0 {
            tally.store(tally.load(Ordering::Relaxed) + count, Ordering::Relaxed);
        }
    }

    /// What both have.
    #[must_use]
    pub fn both(&self) -> [u64; 2] {
        self.0.each_ref().map(|tally| tally.load(Ordering::Relaxed))
    }
}

impl Bucket for OwnedPair {
    type Total = u64;

    fn total(&self) -> u64 {
        self.both()[0]
    }

    fn reset(&self) {
        for tally in &self.0 {
            tally.store(0, Ordering::Relaxed);
        }
    }
}

/// An array of tallies with what the models ask of it.
#[derive(Debug)]
pub struct Ring(LeapArray<Tally>);

impl Ring {
    /// Adds `count` in bucket `number`.
    pub fn add(&self, number: u32, count: u64) {
        self.0.current_bucket(start(number)).add(count);
    }

    /// The sum that a read in bucket `number` finds which holds nothing.
    pub fn sum_unheld(&self, number: u32) -> u64 {
        self.0.fold(start(number), 0, Bucket::total, |sum, found| sum + found)
    }

    /// The sum that a read in bucket `number` finds.
    pub fn sum(&self, number: u32) -> u64 {
        self.0.values(start(number)).map(|wrap| wrap.bucket().total()).sum()
    }
}

impl std::ops::Deref for Ring {
    type Target = LeapArray<Tally>;

    fn deref(&self) -> &LeapArray<Tally> {
        &self.0
    }
}

/// An empty ring of `samples` buckets.
///
/// # Panics
///
/// If `samples` is 0.
#[must_use]
pub fn ring(samples: u32) -> Arc<Ring> {
    let config = WindowConfig::new(samples as usize, LEN * samples).expect("valid by construction");
    Arc::new(Ring(LeapArray::new(config)))
}

/// The start of bucket `number`.
#[must_use]
pub fn start(number: u32) -> Timestamp {
    Timestamp::MIN.saturating_add(LEN * number)
}

/// Runs `model` under the interleavings that loom tells apart, and says how many there were.
///
/// `preemptions` bounds how often a thread may be interrupted where it could have gone on; `None`
/// explores without a bound. `LOOM_MAX_PREEMPTIONS` overrides it, and `UNBOUNDED`, set to anything,
/// takes it away: docs/CORRECTNESS.md says which models then still end.
///
/// Readers belong on spawned threads, and the main thread should write: loom remembers only the
/// last access to an atomic, so that a writer which looks before it swaps hides an earlier reader
/// from it, but not a later one. The main thread runs first.
///
/// # Panics
///
/// If the model fails, or if there was one execution only: that explores nothing.
pub fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    check(loom::model::Builder::new(), preemptions, model);
}

/// The same for a model of which only the first `executions` are run: it has more than can be explored
/// even with the smallest bound.
///
/// # Panics
///
/// As [`explore`] does.
pub fn explore_some(
    executions: usize,
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.max_permutations = Some(executions);
    // Loom looks at the number of executions at each checkpoint only.
    builder.checkpoint_interval = executions;
    check(builder, preemptions, model);
}

fn check(
    mut builder: loom::model::Builder,
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    // To seal a cell takes some 200 accesses.
    builder.max_branches = 20_000;
    if std::env::var_os("UNBOUNDED").is_none() {
        builder.preemption_bound = builder.preemption_bound.or(preemptions);
    }
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{executions} executions");
    assert!(executions > 1, "the model has no interleavings");
}
