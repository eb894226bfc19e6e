//! What the writers have recorded, by their own count.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

use crate::time::Time;

/// How many units each writer has begun to record in each bucket, and how many it is through with.
///
/// So at any time a bucket has at least what was through before one looked, and at most what had
/// begun when one had looked.
#[derive(Debug)]
pub struct Tally {
    first: u64,
    writers: Vec<CachePadded<WriterTally>>,
}

/// One writer's. It is written with plain stores: a read-modify-write would order what it counts.
#[derive(Debug)]
pub struct WriterTally {
    first: u64,
    all: Entry,
    buckets: Vec<Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    begun: AtomicU64,
    through: AtomicU64,
}

impl Tally {
    /// A writer for each of `writers`.
    #[must_use]
    pub fn new(writers: usize, time: &impl Time) -> Self {
        let (first, end) = time.numbers();
        let entries = || (first..end).map(|_| Entry::default()).collect();
        let writer = || WriterTally { first, all: Entry::default(), buckets: entries() };
        Self { first, writers: (0..writers).map(|_| CachePadded::new(writer())).collect() }
    }

    /// That writer's writer.
    #[must_use]
    pub fn writer(&self, writer: usize) -> &WriterTally {
        &self.writers[writer]
    }

    /// What bucket `number` has at least.
    #[must_use]
    pub fn through(&self, number: u64) -> u64 {
        self.sum(|writer| writer.entry(number).map_or(0, Entry::through))
    }

    /// What bucket `number` had at most, when what was read in it before this was there.
    #[must_use]
    pub fn begun(&self, number: u64) -> u64 {
        fence(Ordering::Acquire);
        self.sum(|writer| writer.entry(number).map_or(0, Entry::begun))
    }

    /// What was recorded at least, in whatever bucket.
    #[must_use]
    pub fn all_through(&self) -> u64 {
        self.sum(|writer| writer.all.through())
    }

    /// What was recorded at most, in whatever bucket, when what was read before this was there.
    #[must_use]
    pub fn all_begun(&self) -> u64 {
        fence(Ordering::Acquire);
        self.sum(|writer| writer.all.begun())
    }

    /// Every bucket that something was recorded in, with how much.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let len = self.writers.first().map_or(0, |writer| writer.buckets.len());
        let numbers = (self.first..).take(len);
        numbers.map(|number| (number, self.through(number))).filter(|(_, units)| *units > 0)
    }

    fn sum(&self, part: impl Fn(&WriterTally) -> u64) -> u64 {
        self.writers.iter().map(|writer| part(writer)).sum()
    }
}

impl WriterTally {
    /// Enters what `add` records in bucket `number`.
    ///
    /// # Panics
    ///
    /// If the round has no such bucket.
    pub fn enter(&self, number: u64, units: u64, add: impl FnOnce()) {
        let bucket = self.entry(number).expect("a bucket of the round");
        bucket.begin(units);
        self.enter_late(units, add);
        bucket.end(units);
    }

    /// Enters what `add` records too late for its bucket.
    pub fn enter_late(&self, units: u64, add: impl FnOnce()) {
        self.all.begin(units);
        // Release: pairs with the Acquire of who has found the units, and looks what had begun.
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
        // Release: who sees that they are through finds the units.
        self.through.store(self.through() + units, Ordering::Release);
    }

    fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn through(&self) -> u64 {
        self.through.load(Ordering::Acquire)
    }
}

/// What a read of a window must find.
#[derive(Debug)]
pub struct Bounds<'a> {
    tally: &'a Tally,
    covered: RangeInclusive<u64>,
    least: Vec<u64>,
}

impl<'a> Bounds<'a> {
    /// To be made before the read.
    #[must_use]
    pub fn new(tally: &'a Tally, newest: u64, samples: u32) -> Self {
        let covered = newest.saturating_sub(u64::from(samples) - 1)..=newest;
        let least = covered.clone().map(|number| tally.through(number)).collect();
        Self { tally, covered, least }
    }

    /// The numbers of the buckets in the window.
    #[must_use]
    pub const fn covered(&self) -> &RangeInclusive<u64> {
        &self.covered
    }

    /// Checks what was found of each bucket that was there, in any order: `newest` was the newest
    /// that there was after the read.
    ///
    /// # Panics
    ///
    /// If the read is wrong.
    pub fn check(&self, found: impl IntoIterator<Item = (u64, u64)>, newest: u64) {
        let mut least = self.least_of(newest);
        for (number, units) in found {
            assert!(self.covered.contains(&number), "{number} of {:?}", self.covered);
            let index = usize::try_from(number - self.covered.start()).expect("a few buckets");
            // It was there, so that nothing of it was late.
            let range = self.least[index]..=self.tally.begun(number);
            assert!(range.contains(&units), "{units} in {number}, and not {range:?}");
            assert!(least[index] != FOUND, "{number} was found twice");
            least[index] = FOUND;
        }
        let missed = least.iter().filter(|least| **least != FOUND).sum::<u64>();
        assert_eq!(missed, 0, "missed in {:?}: {least:?}", self.covered);
    }

    /// Checks the sum of what was found.
    ///
    /// # Panics
    ///
    /// If it is wrong.
    pub fn check_sum(&self, sum: u64, newest: u64) {
        let least = self.least_of(newest).iter().sum();
        let most = self.covered.clone().map(|number| self.tally.begun(number)).sum();
        let range: RangeInclusive<u64> = least..=most;
        assert!(range.contains(&sum), "{sum} in {:?}, and not {range:?}", self.covered);
    }

    /// What each bucket has at least, if it cannot have left since: that takes a newer one.
    fn least_of(&self, newest: u64) -> Vec<u64> {
        let samples = self.covered.end() - self.covered.start() + 1;
        let may_have_left = |number| newest >= number + samples;
        let least = self.covered.clone().zip(&self.least);
        least.map(|(number, least)| if may_have_left(number) { 0 } else { *least }).collect()
    }
}

const FOUND: u64 = u64::MAX;
