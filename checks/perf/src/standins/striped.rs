//! A ring of striped counters that are reset in place, like Sentinel's `LeapArray` of `LongAdder`s.
//!
//! As in Sentinel, a count that races with a reset can be lost or counted in the wrong bucket.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize};
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
        if self.stripes.get().is_none() {
            let base = self.base.load(Relaxed);
            if self.base.compare_exchange(base, base + count, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
        let stripes = self.stripes.get_or_init(|| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            (0..cores.next_power_of_two()).map(|_| CachePadded::default()).collect()
        });
        stripes[probe() % stripes.len()].fetch_add(count, Relaxed);
    }

    fn sum(&self) -> i64 {
        let stripes = self.stripes.get().into_iter().flatten();
        let spread: i64 = stripes.map(|stripe| stripe.load(Relaxed)).sum();
        self.base.load(Relaxed) + spread
    }

    fn reset(&self) {
        self.base.store(0, Relaxed);
        for stripe in self.stripes.get().into_iter().flatten() {
            stripe.store(0, Relaxed);
        }
    }
}

/// Returns the number of the calling thread. Threads are numbered in the order of their first call.
fn probe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PROBE: usize = NEXT.fetch_add(1, Relaxed);
    }
    PROBE.with(|probe| *probe)
}

/// The indices of counters in a bucket.
const PASS: usize = 0;
const SUCCESS: usize = 1;
const RT_NANOS: usize = 2;

#[derive(Debug, Default)]
struct Bucket {
    /// The bucket number plus one; zero before the first use.
    number: AtomicU64,
    /// The first three are used. Sentinel also counts blocked, failed and borrowed requests.
    counters: [LongAdder; 6],
    min_rt: AtomicU64,
}

impl Bucket {
    fn reset(&self, number: u64) {
        self.number.store(number, Release);
        self.counters.iter().for_each(LongAdder::reset);
        self.min_rt.store(u64::MAX, Relaxed);
    }
}

/// A ring as in Sentinel: a bucket is made on its first use, and reset in place by the thread that
/// gets the lock.
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

    /// Returns `None` if a newer bucket has the slot. Sentinel counts into a bucket that is never
    /// read.
    fn bucket(&self, now: Timestamp) -> Option<&Bucket> {
        let number = now.as_nanos() / BUCKET_NANOS + 1;
        let bucket = self.slots[self.slot(number - 1)].get_or_init(Box::default);
        loop {
            match bucket.number.load(Acquire).cmp(&number) {
                Equal => return Some(bucket),
                Greater => return None,
                Less => self.reset(bucket, number),
            }
        }
    }

    /// As in Sentinel, the thread that gets the lock does not check the bucket again.
    fn reset(&self, bucket: &Bucket, number: u64) {
        match self.resetting.try_lock() {
            Ok(_guard) => bucket.reset(number),
            Err(_) => thread::yield_now(),
        }
    }

    fn slot(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }
}

impl Ring for StripedRing {
    fn record(&self, now: Timestamp) {
        let Some(bucket) = self.bucket(now) else { return };
        bucket.counters[PASS].add(1);
    }

    fn finish(&self, now: Timestamp, rt_nanos: u64) {
        let Some(bucket) = self.bucket(now) else { return };
        bucket.counters[SUCCESS].add(1);
        bucket.counters[RT_NANOS].add(rt_nanos as i64);
        // As in Sentinel, the smaller of two concurrent values can be lost.
        if rt_nanos < bucket.min_rt.load(Relaxed) {
            bucket.min_rt.store(rt_nanos, Relaxed);
        }
    }

    fn sum(&self, now: Timestamp) -> u64 {
        let number = now.as_nanos() / BUCKET_NANOS;
        let oldest = (number + 1).saturating_sub(self.slots.len() as u64);
        let buckets = self.slots.iter().filter_map(OnceLock::get);
        let covered = buckets
            .filter(|bucket| (oldest + 1..=number + 1).contains(&bucket.number.load(Acquire)));
        covered.map(|bucket| bucket.counters[PASS].sum() as u64).sum()
    }
}
