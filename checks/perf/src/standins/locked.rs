//! A ring behind a lock. go-zero's `RollingWindow` has a readers-writer lock; other libraries have
//! a mutex.

use std::sync::{Mutex, PoisonError, RwLock};

use leaparray::Timestamp;

use super::{BUCKET_NANOS, Ring};

/// The counters of a bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    pass: u64,
    success: u64,
    rt_nanos: u64,
    min_rt: Option<u64>,
    max_rt: u64,
}

/// The buckets of a ring, without the lock.
#[derive(Debug)]
pub(crate) struct Buckets {
    buckets: Box<[Bucket]>,
    /// The number of the newest bucket.
    newest: u64,
}

impl Buckets {
    pub(crate) fn new(len: usize) -> Self {
        Self { buckets: vec![Bucket::default(); len].into(), newest: 0 }
    }

    /// Returns `None` if a newer bucket has the slot.
    fn bucket(&mut self, now: Timestamp) -> Option<&mut Bucket> {
        let (number, len) = (now.as_nanos() / BUCKET_NANOS, self.buckets.len() as u64);
        if number + len <= self.newest {
            return None;
        }
        // As in go-zero, every bucket that has expired since the last record is reset.
        for stale in (self.newest + 1).max((number + 1).saturating_sub(len))..=number {
            self.buckets[slot(stale, len)] = Bucket::default();
        }
        self.newest = self.newest.max(number);
        Some(&mut self.buckets[slot(number, len)])
    }

    fn record(&mut self, now: Timestamp) {
        let Some(bucket) = self.bucket(now) else { return };
        bucket.pass += 1;
    }

    fn finish(&mut self, now: Timestamp, rt_nanos: u64) {
        let Some(bucket) = self.bucket(now) else { return };
        bucket.success += 1;
        bucket.rt_nanos += rt_nanos;
        bucket.min_rt = Some(bucket.min_rt.map_or(rt_nanos, |min| min.min(rt_nanos)));
        bucket.max_rt = bucket.max_rt.max(rt_nanos);
    }

    fn sum(&self, now: Timestamp) -> u64 {
        let (number, len) = (now.as_nanos() / BUCKET_NANOS, self.buckets.len() as u64);
        let covered = (number + 1).saturating_sub(len)..=number.min(self.newest);
        covered.map(|number| self.buckets[slot(number, len)].pass).sum()
    }
}

const fn slot(number: u64, len: u64) -> usize {
    (number % len) as usize
}

impl Ring for Mutex<Buckets> {
    fn record(&self, now: Timestamp) {
        self.lock().unwrap_or_else(PoisonError::into_inner).record(now);
    }

    fn finish(&self, now: Timestamp, rt_nanos: u64) {
        self.lock().unwrap_or_else(PoisonError::into_inner).finish(now, rt_nanos);
    }

    fn sum(&self, now: Timestamp) -> u64 {
        self.lock().unwrap_or_else(PoisonError::into_inner).sum(now)
    }
}

impl Ring for RwLock<Buckets> {
    fn record(&self, now: Timestamp) {
        self.write().unwrap_or_else(PoisonError::into_inner).record(now);
    }

    fn finish(&self, now: Timestamp, rt_nanos: u64) {
        self.write().unwrap_or_else(PoisonError::into_inner).finish(now, rt_nanos);
    }

    fn sum(&self, now: Timestamp) -> u64 {
        self.read().unwrap_or_else(PoisonError::into_inner).sum(now)
    }
}
