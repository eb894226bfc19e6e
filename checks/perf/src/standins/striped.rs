//! A ring of striped counters that are reset in place: Sentinel's `LeapArray` of `LongAdder`s.
//!
//! As there, a count that races with a reset can be lost or land in the wrong bucket.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use crossbeam_utils::CachePadded;
use leaparray::Timestamp;

use super::{BUCKET_NANOS, Ring};

/// A counter that spreads over several cache lines once threads contend for it.
#[derive(Debug, Default)]
struct LongAdder {
    base: AtomicI64,
    stripes: OnceLock<Box<[CachePadded<AtomicI64>]>>,
}

impl LongAdder {
    fn add(&self, count: i64) {
        let Some(stripes) = self.stripes.get() else {
            let base = self.base.load(Ordering::Relaxed);
            let swapped = self.base.compare_exchange(
                base,
                base + count,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if swapped.is_err() {
                self.spread().fetch_add(count, Ordering::Relaxed);
            }
            return;
        };
        stripes[probe() % stripes.len()].fetch_add(count, Ordering::Relaxed);
    }

    fn spread(&self) -> &AtomicI64 {
        let stripes = self.stripes.get_or_init(|| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            (0..cores.next_power_of_two()).map(|_| CachePadded::default()).collect()
        });
        &stripes[probe() % stripes.len()]
    }

    fn sum(&self) -> i64 {
        let stripes = self.stripes.get().into_iter().flatten();
        let spread: i64 = stripes.map(|stripe| stripe.load(Ordering::Relaxed)).sum();
        self.base.load(Ordering::Relaxed) + spread
    }

    fn reset(&self) {
        self.base.store(0, Ordering::Relaxed);
        for stripe in self.stripes.get().into_iter().flatten() {
            stripe.store(0, Ordering::Relaxed);
        }
    }
}

/// A number of this thread, one after the other.
fn probe() -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static PROBE: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    PROBE.with(|probe| usize::try_from(*probe).unwrap_or_default())
}

#[derive(Debug, Default)]
struct Bucket {
    /// Its number plus one; zero before its first use.
    number: AtomicU64,
    pass: LongAdder,
    block: LongAdder,
    exception: LongAdder,
    success: LongAdder,
    rt_nanos: LongAdder,
    occupied: LongAdder,
    min_rt: AtomicU64,
}

impl Bucket {
    fn reset(&self, number: u64) {
        self.number.store(number, Ordering::Release);
        let Self { pass, block, exception, success, rt_nanos, occupied, .. } = self;
        for counter in [pass, block, exception, success, rt_nanos, occupied] {
            counter.reset();
        }
        self.min_rt.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Sentinel's way: buckets made on first use, and reset in place by who gets the lock.
#[derive(Debug)]
pub(crate) struct StripedRing {
    slots: Box<[OnceLock<Box<Bucket>>]>,
    resetting: Mutex<()>,
}

impl StripedRing {
    pub(crate) fn new(len: usize) -> Self {
        let slots = (0..len).map(|_| OnceLock::new()).collect();
        Self { slots, resetting: Mutex::new(()) }
    }

    /// `None` if a newer bucket has the slot: Sentinel counts that in a bucket that nobody reads.
    fn bucket(&self, now: Timestamp) -> Option<&Bucket> {
        let number = now.as_nanos() / BUCKET_NANOS + 1;
        let bucket = self.slots[self.slot(number - 1)].get_or_init(Box::default);
        loop {
            match bucket.number.load(Ordering::Acquire).cmp(&number) {
                Equal => return Some(bucket),
                Greater => return None,
                Less => self.reset(bucket, number),
            }
        }
    }

    /// As in Sentinel, who has got the lock does not look again.
    fn reset(&self, bucket: &Bucket, number: u64) {
        match self.resetting.try_lock() {
            Ok(_guard) => bucket.reset(number),
            Err(_) => thread::yield_now(),
        }
    }

    fn slot(&self, number: u64) -> usize {
        usize::try_from(number % self.slots.len() as u64).unwrap_or_default()
    }
}

impl Ring for StripedRing {
    fn record(&self, now: Timestamp) {
        let Some(bucket) = self.bucket(now) else { return };
        bucket.pass.add(1);
    }

    fn finish(&self, now: Timestamp, rt_nanos: u64) {
        let Some(bucket) = self.bucket(now) else { return };
        bucket.success.add(1);
        bucket.rt_nanos.add(i64::try_from(rt_nanos).unwrap_or(i64::MAX));
        // As in Sentinel, two threads at once can lose the smaller.
        if rt_nanos < bucket.min_rt.load(Ordering::Relaxed) {
            bucket.min_rt.store(rt_nanos, Ordering::Relaxed);
        }
    }

    fn sum(&self, now: Timestamp) -> u64 {
        let number = now.as_nanos() / BUCKET_NANOS;
        let oldest = (number + 1).saturating_sub(self.slots.len() as u64);
        let buckets = self.slots.iter().filter_map(OnceLock::get);
        let covered = buckets.filter(|bucket| {
            (oldest + 1..=number + 1).contains(&bucket.number.load(Ordering::Acquire))
        });
        covered.map(|bucket| bucket.pass.sum() as u64).sum()
    }

    fn rate(&self, now: Timestamp) -> f64 {
        self.sum(now) as f64 * 1e9 / (self.slots.len() as u64 * BUCKET_NANOS) as f64
    }
}
