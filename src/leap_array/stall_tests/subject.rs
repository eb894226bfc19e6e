//! What the threads record in and read: a window, with its hands and cells, and an array without.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::LeapArray;
use crate::account::Account;
use crate::bucket::Bucket;
use crate::clock::ManualClock;
use crate::event::MetricEvent;
use crate::geometry::WindowConfig;
use crate::metric_bucket::MetricBucket;
use crate::metric_totals::MetricTotals;
use crate::sync::stall::{self, Point};
use crate::timestamp::Timestamp;
use crate::window::SlidingWindow;

pub(super) const fn time(second: u64) -> Timestamp {
    Timestamp::from_secs(second)
}

pub(super) trait Subject: Send + Sync + 'static {
    type Bucket: Bucket;

    /// The points that are not on its ways.
    const NOT_PASSED: &'static [Point];

    /// Whether a thread keeps the bucket that it recorded in last.
    const HAS_HANDS: bool;

    /// One with so many buckets of a second.
    fn new(samples: u64) -> Self;

    fn array(&self) -> &LeapArray<Self::Bucket>;

    fn count(total: &<Self::Bucket as Bucket>::Total) -> u64;

    fn add(&self, second: u64, count: u64);

    fn sum(&self, second: u64) -> u64;

    fn values(&self, second: u64) -> u64 {
        let wraps = self.array().values(time(second));
        wraps.map(|wrap| Self::count(&wrap.bucket().total())).sum()
    }

    fn account(&self, second: u64) -> Account<u64> {
        self.array().account(time(second)).map(Self::count)
    }

    fn lifetime(&self) -> u64 {
        self.account(0).recorded()
    }
}

fn config(samples: u64) -> WindowConfig {
    WindowConfig::new(samples.try_into().unwrap(), Duration::from_secs(samples)).unwrap()
}

impl Subject for SlidingWindow<ManualClock> {
    type Bucket = MetricBucket;

    const NOT_PASSED: &'static [Point] = &[];

    const HAS_HANDS: bool = true;

    fn new(samples: u64) -> Self {
        Self::with_clock(config(samples), ManualClock::new(Timestamp::MIN))
    }

    fn array(&self) -> &LeapArray<MetricBucket> {
        self.array()
    }

    fn count(total: &MetricTotals) -> u64 {
        total.sum(MetricEvent::Pass)
    }

    fn add(&self, second: u64, count: u64) {
        self.add_at(time(second), MetricEvent::Pass, count);
    }

    fn sum(&self, second: u64) -> u64 {
        self.sum_at(time(second), MetricEvent::Pass)
    }

    fn lifetime(&self) -> u64 {
        Self::count(&self.lifetime())
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
    type Bucket = Sum;

    const NOT_PASSED: &'static [Point] =
        &[Point::CellFree, Point::CounterRead, Point::Added, Point::TokensLocked];

    const HAS_HANDS: bool = false;

    fn new(samples: u64) -> Self {
        Self::new(config(samples))
    }

    fn array(&self) -> &Self {
        self
    }

    fn count(total: &u64) -> u64 {
        *total
    }

    fn add(&self, second: u64, count: u64) {
        let bucket = self.current_bucket(time(second));
        stall::at(Point::BucketFound);
        bucket.0.fetch_add(count, Ordering::Relaxed);
    }

    fn sum(&self, second: u64) -> u64 {
        self.fold(time(second), 0, Bucket::total, |sum, found| sum + found)
    }
}
