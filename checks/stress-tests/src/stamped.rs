//! A bucket that notices what must not happen to it.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::Bucket;

use crate::team::stall;

/// A bucket that knows which one it is, from the first that records in it.
///
/// Each unit is marked with the number of the bucket that it is meant for. So one that got into
/// another bucket, by whatever way, is noticed by who recorded it, or by who reads, or when the bucket
/// is emptied, or at the end in the sum of the marks.
#[derive(Debug)]
pub struct Stamped {
    /// On the heap, where memory that was freed is soon something else.
    intact: Box<AtomicU64>,
    number: AtomicU64,
    begun: AtomicU64,
    marks: AtomicU64,
    through: AtomicU64,
}

/// A bucket that nobody has recorded in yet.
const NOBODYS: u64 = u64::MAX;
/// A bucket that is being emptied.
const EMPTYING: u64 = u64::MAX - 1;

const INTACT: u64 = 0x1eaf_1eaf_1eaf_1eaf;
const DROPPED: u64 = 0xdead_dead_dead_dead;

/// How many there are, in the whole process.
static LIVE: AtomicU64 = AtomicU64::new(0);

/// What one look at a bucket found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    number: u64,
    begun: u64,
    marks: u64,
    through: u64,
}

/// What buckets add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// How many units there are.
    pub units: u64,
    /// The sum of their marks.
    pub marks: u64,
}

impl Stamped {
    /// Adds units to the bucket of that number.
    ///
    /// # Panics
    ///
    /// If it is another one's.
    pub fn add(&self, number: u64, units: u64) {
        let claimed =
            self.number.compare_exchange(NOBODYS, number, Ordering::Relaxed, Ordering::Relaxed);
        let found = claimed.err().unwrap_or(number);
        assert_eq!(found, number, "another bucket");
        self.add_late(number, units);
        let found = self.number.load(Ordering::Relaxed);
        assert_eq!(found, number, "emptied while it was added to");
    }

    /// Adds units that come too late for the bucket of that number, to the array's bucket for those.
    pub fn add_late(&self, number: u64, units: u64) {
        self.check_intact();
        stall();
        // Each is released by the next, and acquired in the other order by `look`.
        self.begun.fetch_add(units, Ordering::Relaxed);
        self.marks.fetch_add(units * number, Ordering::Release);
        self.through.fetch_add(units, Ordering::Release);
    }

    /// What is in it. Whether that makes sense is for [`Observation::units_of`] to say: who holds nothing
    /// may have to throw it away.
    ///
    /// # Panics
    ///
    /// If it is no bucket any more.
    #[must_use]
    pub fn look(&self) -> Observation {
        self.check_intact();
        let through = self.through.load(Ordering::Acquire);
        let marks = self.marks.load(Ordering::Acquire);
        stall();
        let begun = self.begun.load(Ordering::Relaxed);
        Observation { number: self.number.load(Ordering::Relaxed), begun, marks, through }
    }

    /// How many there are now.
    #[must_use]
    pub fn live() -> u64 {
        LIVE.load(Ordering::Relaxed)
    }

    fn check_intact(&self) {
        assert_eq!(self.intact.load(Ordering::Relaxed), INTACT, "memory that is something else");
    }

    /// Nobody is adding to it any more: what has begun is through.
    fn check_at_rest(&self) {
        let Observation { number, begun, marks, through } = self.look();
        let expected = if begun == 0 { (0, 0) } else { (begun * number, begun) };
        assert_eq!((marks, through), expected, "emptied while {begun} units of {number} are added");
    }
}

impl Observation {
    /// What is in the bucket of that number: at least, as others may be adding to it.
    ///
    /// # Panics
    ///
    /// If it is not that bucket, or not only.
    #[must_use]
    pub fn units_of(self, number: u64) -> u64 {
        if self.through == 0 && self.number == NOBODYS {
            return 0;
        }
        assert_eq!(self.number, number, "another bucket: {self:?}");
        let range = self.through * number..=self.begun * number;
        assert!(range.contains(&self.marks), "units of others in {number}: {self:?}");
        self.through
    }

    /// Which bucket it is; `None` if nobody has recorded in it.
    #[must_use]
    pub fn number(self) -> Option<u64> {
        (self.number != NOBODYS).then_some(self.number)
    }
}

impl Default for Stamped {
    fn default() -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let [begun, marks, through] = [const { AtomicU64::new(0) }; 3];
        let intact = Box::new(AtomicU64::new(INTACT));
        Self { intact, number: AtomicU64::new(NOBODYS), begun, marks, through }
    }
}

impl Drop for Stamped {
    fn drop(&mut self) {
        let intact = self.intact.swap(DROPPED, Ordering::Relaxed);
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // After a failure anything may be the case, and a second one would hide it.
        assert!(intact == INTACT || std::thread::panicking(), "dropped twice");
    }
}

impl Bucket for Stamped {
    type Total = Marks;

    fn total(&self) -> Marks {
        let Observation { marks, through: units, .. } = self.look();
        Marks { units, marks }
    }

    fn reset(&self) {
        self.check_at_rest();
        self.number.store(EMPTYING, Ordering::Relaxed);
        stall();
        for counter in [&self.through, &self.marks, &self.begun] {
            counter.store(0, Ordering::Relaxed);
        }
        self.number.store(NOBODYS, Ordering::Relaxed);
    }
}

impl AddAssign<&Self> for Marks {
    fn add_assign(&mut self, other: &Self) {
        self.units += other.units;
        self.marks += other.marks;
    }
}
