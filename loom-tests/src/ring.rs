//! Items that the models share: buckets, an array of buckets, and the functions that explore a
//! model.

use std::time::Duration;

use leaparray::array::{Bucket, LeapArray};
use leaparray::{Timestamp, WindowConfig, lock_slots, slots_are_locked, slots_were_used};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

/// The bucket length.
pub const LEN: Duration = Duration::from_millis(500);

/// The smallest bucket: one counter, so that loom explores the ring more than the bucket.
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

/// Two counters to which one thread at a time adds, by a load and a store. Unlike a
/// read-modify-write, a relaxed store continues no release sequence, so a reader acquires nothing
/// from it.
#[derive(Debug, Default)]
pub struct OwnedPair([AtomicU64; 2]);

impl OwnedPair {
    /// Adds `count` to both counters. One thread at a time calls this.
    pub fn add(&self, count: u64) {
        for tally in &self.0 {
            tally.store(tally.load(Ordering::Relaxed) + count, Ordering::Relaxed);
        }
    }

    /// The values of both counters.
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

/// An array of tallies, with the operations of the models.
#[derive(Debug)]
pub struct Ring(LeapArray<Tally>);

impl Ring {
    /// Adds `count` in bucket `number`.
    pub fn add(&self, number: u32, count: u64) {
        self.0.current_bucket(start(number)).add(count);
    }

    /// The sum over the window at bucket `number`, by a read without pins.
    pub fn sum_unpinned(&self, number: u32) -> u64 {
        self.0.fold(start(number), 0, Bucket::total, |sum, found| sum + found)
    }

    /// The sum over the window at bucket `number`, by a read that pins each wrap.
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

/// Runs `model` in each interleaving that loom distinguishes, and prints the number of executions.
///
/// A model that uses a slot is explored twice: with the indexed stand-in for the slot, and then
/// with the locked one.
///
/// `preemptions` bounds the number of preemptions of an execution: switches from a thread that
/// could have continued. `None` explores without a bound. The environment variable
/// `LOOM_MAX_PREEMPTIONS` overrides the bound, and `UNBOUNDED`, set to any value, removes it.
/// `LOOM_MAX_PERMUTATIONS` ends each exploration at that number of executions.
/// docs/CORRECTNESS.md says which kinds of models then still end.
///
/// Put readers on spawned threads, and let the main thread write: the main thread runs first, and
/// loom remembers only the last access to an atomic. If a writer loads a word before its
/// compare-exchange, this load hides an earlier reader from loom, but not a later one.
///
/// # Panics
///
/// If the model fails, or if it has only one execution, which explores nothing.
pub fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    check(None, preemptions, model);
}

/// Like [`explore`], but runs only the first `executions`: for a model that has more than can be
/// explored.
///
/// # Panics
///
/// As [`explore`] does.
pub fn explore_some(
    executions: usize,
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    check(Some(executions), preemptions, model);
}

fn check(
    limit: Option<usize>,
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let model = std::sync::Arc::new(model);
    // Forgets the slots of the models that this thread explored before.
    let _ = slots_were_used();
    check_with(false, limit, preemptions, &model);
    if slots_were_used() {
        check_with(true, limit, preemptions, &model);
    }
}

fn check_with(
    locked: bool,
    limit: Option<usize>,
    preemptions: Option<usize>,
    model: &std::sync::Arc<impl Fn() + Send + Sync + 'static>,
) {
    let mut builder = loom::model::Builder::new();
    let limit = limit.into_iter().chain(builder.max_permutations).min();
    builder.max_permutations = limit;
    if let Some(limit) = limit {
        // Loom checks the number of executions only at checkpoints.
        builder.checkpoint_interval = limit;
    }
    // Sealing a cell takes some 200 accesses.
    builder.max_branches = 20_000;
    if std::env::var_os("UNBOUNDED").is_none() {
        builder.preemption_bound = builder.preemption_bound.or(preemptions);
    }
    lock_slots(locked);
    let executions = Executions { count: std::sync::Arc::default(), limit };
    let (counted, model) = (std::sync::Arc::clone(&executions.count), std::sync::Arc::clone(model));
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    assert!(executions.count() > 1, "the model has no interleavings");
}

/// Counts the executions of an exploration. Prints their number at its end, or when the last one
/// has failed.
struct Executions {
    count: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    limit: Option<usize>,
}

impl Executions {
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Executions {
    fn drop(&mut self) {
        let slots = if slots_are_locked() { " with locked slots" } else { "" };
        let end = if std::thread::panicking() {
            " and the last one failed"
        } else if self.limit.is_some_and(|limit| self.count() + 1 >= limit) {
            // Loom ends before the last execution.
            " of more"
        } else {
            ""
        };
        println!("{} executions{slots}{end}", self.count());
    }
}
