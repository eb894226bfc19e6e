//! A bucket that detects units of other buckets, a reset during an add, and use after it was freed.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::array::Bucket;

use crate::team::stall;

/// A bucket that stores its own number, which the first thread that records in it sets.
///
/// Each unit is marked with the number of the bucket for which it was recorded. A unit that ends up
/// in another bucket is detected by the thread that records it, by a reader, when the bucket is
/// reset, or at the end in the sum of the marks.
#[derive(Debug)]
pub struct Stamped {
    /// A known value until the bucket is dropped. It is on the heap, where freed memory is soon
    /// overwritten.
    intact: Box<AtomicU64>,
    number: AtomicU64,
    begun: AtomicU64,
    marks: AtomicU64,
    completed: AtomicU64,
}

/// The number of a bucket in which no thread has recorded yet.
const UNCLAIMED: u64 = u64::MAX;
/// The number of a bucket that is being reset.
const EMPTYING: u64 = u64::MAX - 1;

const INTACT: u64 = 0x1eaf_1eaf_1eaf_1eaf;
const DROPPED: u64 = 0xdead_dead_dead_dead;

/// The number of buckets in the whole process.
static LIVE: AtomicU64 = AtomicU64::new(0);

/// The result of one read of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    number: u64,
    begun: u64,
    marks: u64,
    completed: u64,
}

/// The total of buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The number of units.
    pub units: u64,
    /// The sum of their marks.
    pub marks: u64,
}

impl Stamped {
    /// Adds units to the bucket with that number.
    ///
    /// # Panics
    ///
    /// If this bucket has another number, or is reset during the add.
    pub fn add(&self, number: u64, units: u64) {
        let claimed =
            self.number.compare_exchange(UNCLAIMED, number, Ordering::Relaxed, Ordering::Relaxed);
        let found = claimed.err().unwrap_or(number);
        assert_eq!(found, number, "the bucket has another number");
        self.add_late(number, units);
        let found = self.number.load(Ordering::Relaxed);
        assert_eq!(found, number, "the bucket was reset during an add");
    }

    /// Adds units of the bucket with that number to the array's late bucket.
    pub fn add_late(&self, number: u64, units: u64) {
        self.check_intact();
        stall();
        // Release: pairs with the Acquires in `look`, which loads in the opposite order. A thread
        // that sees one of these adds also sees the adds before it.
        self.begun.fetch_add(units, Ordering::Relaxed);
        self.marks.fetch_add(units * number, Ordering::Release);
        self.completed.fetch_add(units, Ordering::Release);
    }

    /// Reads the bucket. The result is checked by [`Observation::units_of`], and not here, since a
    /// reader that has not pinned the bucket may have to discard it.
    ///
    /// # Panics
    ///
    /// If the memory is no longer a bucket.
    #[must_use]
    pub fn look(&self) -> Observation {
        self.check_intact();
        let completed = self.completed.load(Ordering::Acquire);
        let marks = self.marks.load(Ordering::Acquire);
        stall();
        let begun = self.begun.load(Ordering::Relaxed);
        Observation { number: self.number.load(Ordering::Relaxed), begun, marks, completed }
    }

    /// Returns the number of buckets that are not dropped.
    #[must_use]
    pub fn live() -> u64 {
        LIVE.load(Ordering::Relaxed)
    }

    fn check_intact(&self) {
        assert_eq!(self.intact.load(Ordering::Relaxed), INTACT, "the memory is no longer a bucket");
    }

    /// Checks that no add is in flight: all units that were begun are complete.
    fn check_at_rest(&self) {
        let Observation { number, begun, marks, completed } = self.look();
        let expected = if begun == 0 { (0, 0) } else { (begun * number, begun) };
        assert_eq!(
            (marks, completed),
            expected,
            "reset during an add to bucket {number}: {begun} units begun"
        );
    }
}

impl Observation {
    /// Returns a lower bound of the units in the bucket with that number: other threads may be
    /// adding to it.
    ///
    /// # Panics
    ///
    /// If the bucket has another number, or has units of another bucket.
    #[must_use]
    pub fn units_of(self, number: u64) -> u64 {
        if self.completed == 0 && self.number == UNCLAIMED {
            return 0;
        }
        assert_eq!(self.number, number, "the bucket is not bucket {number}: {self:?}");
        let range = self.completed * number..=self.begun * number;
        assert!(
            range.contains(&self.marks),
            "bucket {number} has units of other buckets: {self:?}"
        );
        self.completed
    }

    /// Returns the number of the bucket; `None` if no thread has recorded in it.
    #[must_use]
    pub fn number(self) -> Option<u64> {
        (self.number != UNCLAIMED).then_some(self.number)
    }
}

impl Default for Stamped {
    fn default() -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let [begun, marks, completed] = [const { AtomicU64::new(0) }; 3];
        let intact = Box::new(AtomicU64::new(INTACT));
        Self { intact, number: AtomicU64::new(UNCLAIMED), begun, marks, completed }
    }
}

impl Drop for Stamped {
    fn drop(&mut self) {
        let intact = self.intact.swap(DROPPED, Ordering::Relaxed);
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // Not checked after a failure, because a second panic would hide the first.
        assert!(intact == INTACT || std::thread::panicking(), "the bucket is dropped twice");
    }
}

impl Bucket for Stamped {
    type Total = Marks;

    fn total(&self) -> Marks {
        let Observation { marks, completed: units, .. } = self.look();
        Marks { units, marks }
    }

    fn reset(&self) {
        self.check_at_rest();
        self.number.store(EMPTYING, Ordering::Relaxed);
        stall();
        for counter in [&self.completed, &self.marks, &self.begun] {
            counter.store(0, Ordering::Relaxed);
        }
        self.number.store(UNCLAIMED, Ordering::Relaxed);
    }
}

impl AddAssign<&Self> for Marks {
    fn add_assign(&mut self, other: &Self) {
        self.units += other.units;
        self.marks += other.marks;
    }
}
