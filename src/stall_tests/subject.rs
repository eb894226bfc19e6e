//! The subjects of the tests: a window, with its thread cells and history, and an array of buckets.
//! A window with a histogram is in [`histogram`](super::histogram).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::scene::Scene;
use super::stopped::Act;
use crate::array::{Bucket, LeapArray, Ledger};
use crate::metric::{MetricEvent, MetricTotals};
use crate::sync::stall::{self, Point};
use crate::time::{ManualClock, Timestamp, WindowConfig};
use crate::window::SlidingWindow;

/// The number of threads that record in the subject at once: two stopped threads, and two
/// recorders. Another thread reads.
const THREADS: u32 = 4;

/// The points of an array's wraps.
pub(super) const OF_ARRAYS: &[Point] = &[
    Point::IndexRead,
    Point::Pinned,
    Point::Rotating,
    Point::ListRead,
    Point::Unplaced,
    Point::ListEdited,
    Point::ListSwapped,
    Point::Unpinned,
    Point::NotLive,
    Point::Emptied,
    Point::Started,
    Point::RecycleRefused,
    Point::IndexTaken,
    Point::Fresh,
    Point::Swapped,
    Point::SwapLost,
    Point::BucketFound,
    Point::StartSeen,
    Point::SlotsPinned,
    Point::PendingFound,
    Point::PendingPinned,
    Point::PendingValidated,
];

/// The points of thread cells and of a window's history.
const OF_CELLS: &[Point] = &[
    Point::CounterRead,
    Point::CellTaken,
    Point::AbandonedSeen,
    Point::Adopted,
    Point::FreeCellSeen,
    Point::Unbound,
    Point::CellZeroed,
    Point::Bound,
    Point::IdleSeen,
    Point::FreeDescriptorSeen,
    Point::HeadRead,
    Point::Filled,
    Point::Published,
    Point::IncompleteSeen,
    Point::StepsRead,
    Point::SlotChanged,
    Point::CellSealed,
    Point::MomentTaken,
    Point::SlotVisited,
];

/// The points of a window's histogram.
const OF_BINS: &[Point] =
    &[Point::SealedToRetire, Point::RetiredByOwner, Point::BinFound, Point::BinCounted];

/// The points of a registry, of the gauge and of limiters.
pub(super) const ELSEWHERE: &[Point] = &[
    Point::Gone,
    Point::EndNoted,
    Point::GaugeDue,
    Point::ChangeAnnounced,
    Point::WordClosed,
    Point::SharedOut,
    Point::StripedSeen,
    Point::StripeRead,
    Point::StripeFrozen,
    Point::StripesFrozen,
];

pub(super) const fn time(second: u64) -> Timestamp {
    Timestamp::from_secs(second)
}

pub(super) trait Subject: Send + Sync + 'static {
    const SCENES: &'static [Scene];

    /// The scenes in which a thread is stopped twice.
    const SCENES_STOPPED_TWICE: &'static [Scene] = Self::SCENES;

    /// The scenes in which a second thread is stopped as well.
    const SCENES_OF_TWO: &'static [Scene];

    /// The acts of the second thread.
    const ACTS_OF_TWO: &'static [Act] = &Act::ALL;

    /// The points that no operation of the subject passes, in several lists.
    const NOT_PASSED: &'static [&'static [Point]];

    /// The point from which on it is decided in which bucket an add is counted, or that the add is
    /// late.
    const PLACED: Point;

    /// Creates an empty subject with `samples` buckets of a second.
    fn new(samples: u64) -> Self;

    fn add(&self, second: u64, count: u64);

    /// Makes that second's bucket current for the calling thread, and counts nothing in it.
    fn rotate(&self, second: u64);

    fn sum(&self, second: u64) -> u64;

    /// Returns the sum over the buckets of the window, each of which is read by itself.
    fn values(&self, second: u64) -> u64;

    fn ledger(&self, second: u64) -> Ledger<u64>;

    fn lifetime(&self) -> u64 {
        self.ledger(0).recorded()
    }

    /// Asserts that a reading is of the adds that a ledger has counted, while no thread runs.
    fn assert_agrees(reading: u64, counted: u64) {
        assert_eq!(reading, counted);
    }

    /// Asserts what holds once no add is in flight.
    fn assert_at_rest(&self, _second: u64) {}

    /// Returns the number of memory blocks that are freed only with the subject.
    fn made(&self) -> u64;

    /// Asserts that each block is in exactly one place, and that there are few blocks. No thread
    /// may use the subject during the call.
    fn assert_kept(&self, samples: u64);
}

pub(super) fn config(samples: u64) -> WindowConfig {
    WindowConfig::new(samples.try_into().unwrap(), Duration::from_secs(samples)).unwrap()
}

fn passes(totals: &MetricTotals) -> u64 {
    totals.sum(MetricEvent::Pass)
}

impl Subject for SlidingWindow<ManualClock> {
    const SCENES: &'static [Scene] = &[
        Scene::First,
        Scene::Rotate,
        Scene::Next,
        Scene::Orphan,
        Scene::Join,
        Scene::Again,
        Scene::Late,
        Scene::Sum,
        Scene::Values,
        Scene::Ledger,
        Scene::Incomplete,
        Scene::IncompleteAdd,
    ];

    const SCENES_OF_TWO: &'static [Scene] =
        &[Scene::First, Scene::Orphan, Scene::Again, Scene::Sum, Scene::Values, Scene::Ledger];

    /// `FreeCellSeen` is not among them: the windows of earlier scenes have given their cells back
    /// to the slab.
    const NOT_PASSED: &'static [&'static [Point]] = &[OF_ARRAYS, OF_BINS, ELSEWHERE];

    const PLACED: Point = Point::CellZeroed;

    fn new(samples: u64) -> Self {
        Self::with_clock(config(samples), ManualClock::new(Timestamp::MIN))
    }

    fn add(&self, second: u64, count: u64) {
        self.add_at(time(second), MetricEvent::Pass, count);
    }

    fn rotate(&self, second: u64) {
        Subject::add(self, second, 0);
    }

    fn sum(&self, second: u64) -> u64 {
        self.at(time(second)).sum(MetricEvent::Pass)
    }

    fn values(&self, second: u64) -> u64 {
        self.at(time(second)).buckets().map(|bucket| passes(&bucket.totals)).sum()
    }

    fn ledger(&self, second: u64) -> Ledger<u64> {
        self.at(time(second)).ledger().map(passes)
    }

    fn lifetime(&self) -> u64 {
        passes(&self.lifetime())
    }

    fn made(&self) -> u64 {
        let (rows, descriptors, places) = self.array().blocks_made();
        (rows + descriptors + places).into()
    }

    fn assert_kept(&self, samples: u64) {
        let (rows, descriptors, places) = self.array().blocks_made();
        let (kept_rows, kept_descriptors, abandoned) = self.array().blocks_at_rest();
        assert!(kept_rows.into_iter().eq(1..=rows), "each row is in a slot or spare, once");
        assert!(
            kept_descriptors.into_iter().eq(1..=descriptors),
            "each descriptor is current or free, once"
        );
        assert_eq!(abandoned, places, "the owners of all cells have ended");
        assert!(
            u64::from(rows) <= samples + u64::from(descriptors),
            "{rows} rows, {descriptors} descriptors"
        );
        // A thread that publishes has one descriptor, and one descriptor is current.
        assert!(descriptors <= THREADS + 1, "{descriptors} descriptors");
        // A thread has its own cell, and perhaps a cell that it retires.
        assert!(places <= 2 * THREADS, "{places} cells");
    }
}

#[derive(Default)]
pub(super) struct Sum(AtomicU64);

impl Bucket for Sum {
    type Total = u64;

    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Subject for LeapArray<Sum> {
    const SCENES: &'static [Scene] = &[
        Scene::First,
        Scene::Rotate,
        Scene::Refused,
        Scene::Join,
        Scene::Again,
        Scene::Late,
        Scene::Sum,
        Scene::Values,
        Scene::Ledger,
    ];

    const SCENES_OF_TWO: &'static [Scene] =
        &[Scene::First, Scene::Rotate, Scene::Again, Scene::Sum, Scene::Values, Scene::Ledger];

    const NOT_PASSED: &'static [&'static [Point]] = &[OF_CELLS, OF_BINS, ELSEWHERE];

    const PLACED: Point = Point::BucketFound;

    fn new(samples: u64) -> Self {
        Self::new(config(samples))
    }

    fn add(&self, second: u64, count: u64) {
        let bucket = self.current_bucket(time(second));
        stall::at(Point::BucketFound);
        bucket.0.fetch_add(count, Ordering::Relaxed);
    }

    fn rotate(&self, second: u64) {
        drop(self.current_bucket(time(second)));
    }

    fn sum(&self, second: u64) -> u64 {
        self.fold(time(second), 0, Bucket::total, |sum, found| sum + found)
    }

    fn values(&self, second: u64) -> u64 {
        self.values(time(second)).map(|wrap| wrap.bucket().total()).sum()
    }

    fn ledger(&self, second: u64) -> Ledger<u64> {
        self.ledger(time(second))
    }

    fn made(&self) -> u64 {
        self.wraps_made()
    }

    fn assert_kept(&self, samples: u64) {
        let (retired, free) = self.wraps_listed();
        assert_eq!(retired, 1, "the wrap that was just retired");
        assert_eq!(self.wraps_made(), samples + retired + free, "in a slot, retired, or free");
        // A thread pins few wraps at once.
        assert!(free <= 3 * u64::from(THREADS), "{free} free wraps");
    }
}
