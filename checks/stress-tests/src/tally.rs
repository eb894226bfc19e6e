//! The writers' own counts of the units that they have recorded.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

use crate::time::Time;

/// The number of units that each writer has begun to record in each bucket, and the number that it
/// has completed.
///
/// A read of a bucket finds at least the units that were complete before the read, and at most the
/// units that had begun by the end of the read.
#[derive(Debug)]
pub struct Tally {
    first: u64,
    writers: Vec<CachePadded<WriterTally>>,
}

/// The tally of one writer. It is written with plain stores, because read-modify-writes would order
/// the adds that it counts.
#[derive(Debug)]
pub struct WriterTally {
    first: u64,
    all: Entry,
    buckets: Vec<Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    begun: AtomicU64,
    completed: AtomicU64,
}

impl Tally {
    /// Creates a tally for `writers` writers.
    #[must_use]
    pub fn new(writers: usize, time: &impl Time) -> Self {
        let (first, end) = time.numbers();
        let entries = || (first..end).map(|_| Entry::default()).collect();
        let writer = || WriterTally { first, all: Entry::default(), buckets: entries() };
        Self { first, writers: (0..writers).map(|_| CachePadded::new(writer())).collect() }
    }

    /// Returns the tally of one writer.
    #[must_use]
    pub fn writer(&self, writer: usize) -> &WriterTally {
        &self.writers[writer]
    }

    /// Returns a lower bound of the units in bucket `number`: the units that are complete.
    #[must_use]
    pub fn completed(&self, number: u64) -> u64 {
        self.sum(|writer| writer.entry(number).map_or(0, Entry::completed))
    }

    /// Returns an upper bound of the units that a preceding read can have found in bucket `number`.
    #[must_use]
    pub fn begun(&self, number: u64) -> u64 {
        fence(Ordering::Acquire);
        self.sum(|writer| writer.entry(number).map_or(0, Entry::begun))
    }

    /// Returns a lower bound of the units in all buckets.
    #[must_use]
    pub fn all_completed(&self) -> u64 {
        self.sum(|writer| writer.all.completed())
    }

    /// Returns an upper bound of the units that a preceding read can have found in all buckets.
    #[must_use]
    pub fn all_begun(&self) -> u64 {
        fence(Ordering::Acquire);
        self.sum(|writer| writer.all.begun())
    }

    /// Returns the buckets that have units, and the number of units of each.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let len = self.writers.first().map_or(0, |writer| writer.buckets.len());
        let numbers = (self.first..).take(len);
        numbers.map(|number| (number, self.completed(number))).filter(|(_, units)| *units > 0)
    }

    fn sum(&self, part: impl Fn(&WriterTally) -> u64) -> u64 {
        self.writers.iter().map(|writer| part(writer)).sum()
    }
}

impl WriterTally {
    /// Counts the units that `add` records in bucket `number`.
    ///
    /// # Panics
    ///
    /// If the round has no bucket with that number.
    pub fn enter(&self, number: u64, units: u64, add: impl FnOnce()) {
        let bucket = self.entry(number).expect("the round has a bucket with that number");
        bucket.begin(units);
        self.enter_late(units, add);
        bucket.end(units);
    }

    /// Counts the units that `add` records in the late bucket.
    pub fn enter_late(&self, units: u64, add: impl FnOnce()) {
        self.all.begin(units);
        // Release: pairs with the acquire fences in `Tally::begun` and `Tally::all_begun`. A reader
        // that has found the units sees that they had begun.
        fence(Ordering::Release);
        add();
        self.all.end(units);
    }

    fn entry(&self, number: u64) -> Option<&Entry> {
        self.buckets.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

impl Entry {
    fn begin(&self, units: u64) {
        self.begun.store(self.begun() + units, Ordering::Relaxed);
    }

    fn end(&self, units: u64) {
        // Release: pairs with the Acquire in `through`. A reader that sees the units complete finds
        // them.
        self.completed.store(self.completed() + units, Ordering::Release);
    }

    fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }
}

/// The bounds for the result of a read of a window.
#[derive(Debug)]
pub struct Bounds<'a> {
    tally: &'a Tally,
    covered: RangeInclusive<u64>,
    least: Vec<u64>,
}

impl<'a> Bounds<'a> {
    /// Takes the lower bounds. Call this before the read.
    #[must_use]
    pub fn new(tally: &'a Tally, newest: u64, samples: u32) -> Self {
        let covered = newest.saturating_sub(u64::from(samples) - 1)..=newest;
        let least = covered.clone().map(|number| tally.completed(number)).collect();
        Self { tally, covered, least }
    }

    /// Returns the numbers of the buckets in the window.
    #[must_use]
    pub const fn covered(&self) -> &RangeInclusive<u64> {
        &self.covered
    }

    /// Checks the number of units that a read has found in each bucket, in any order. `newest` is
    /// the number of the newest bucket after the read.
    ///
    /// # Panics
    ///
    /// If a number is out of bounds, if a bucket is not in the window or was found twice, or if
    /// units are missing.
    pub fn check(&self, found: impl IntoIterator<Item = (u64, u64)>, newest: u64) {
        let mut least = self.least_of(newest);
        for (number, units) in found {
            assert!(
                self.covered.contains(&number),
                "bucket {number} is not in the window {:?}",
                self.covered
            );
            let index =
                usize::try_from(number - self.covered.start()).expect("a window has few buckets");
            // The bucket was found in the window, so none of its units was late.
            let range = self.least[index]..=self.tally.begun(number);
            assert!(range.contains(&units), "{units} units in bucket {number}, expected {range:?}");
            assert!(least[index] != FOUND, "bucket {number} was found twice");
            least[index] = FOUND;
        }
        let missed = least.iter().filter(|least| **least != FOUND).sum::<u64>();
        assert_eq!(missed, 0, "units are missing in the window {:?}: {least:?}", self.covered);
    }

    /// Checks the sum of the units that a read has found.
    ///
    /// # Panics
    ///
    /// If it is out of bounds.
    pub fn check_sum(&self, sum: u64, newest: u64) {
        let least = self.least_of(newest).iter().sum();
        let most = self.covered.clone().map(|number| self.tally.begun(number)).sum();
        let range: RangeInclusive<u64> = least..=most;
        assert!(
            range.contains(&sum),
            "{sum} units in the window {:?}, expected {range:?}",
            self.covered
        );
    }

    /// Returns the lower bound of each bucket; 0 if a newer bucket may have replaced the bucket
    /// since.
    fn least_of(&self, newest: u64) -> Vec<u64> {
        let samples = self.covered.end() - self.covered.start() + 1;
        let may_have_left = |number| newest >= number + samples;
        let least = self.covered.clone().zip(&self.least);
        least.map(|(number, least)| if may_have_left(number) { 0 } else { *least }).collect()
    }
}

const FOUND: u64 = u64::MAX;
