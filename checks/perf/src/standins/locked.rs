//! A ring behind a lock: go-zero's `RollingWindow` has a readers-writer lock, others a mutex.

use std::sync::{Mutex, PoisonError, RwLock};

use leaparray::Timestamp;

use super::{BUCKET_NANOS, Ring};

/// What is behind the lock.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    pass: u64,
    success: u64,
    rt_nanos: u64,
    min_rt: Option<u64>,
    max_rt: u64,
}

#[derive(Debug)]
struct Buckets {
    buckets: Box<[Bucket]>,
    /// The number of the newest bucket.
    newest: u64,
}

impl Buckets {
    fn new(len: usize) -> Self {
        Self { buckets: vec![Bucket::default(); len].into(), newest: 0 }
    }

    /// `None` if a newer bucket has the slot.
    fn bucket(&mut self, now: Timestamp) -> Option<&mut Bucket> {
        let (number, len) = (now.as_nanos() / BUCKET_NANOS, self.buckets.len() as u64);
        if number + len <= self.newest {
            return None;
        }
        // Every bucket that has expired meanwhile is reset, as go-zero does.
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

    fn rate(&self, now: Timestamp) -> f64 {
        self.sum(now) as f64 * 1e9 / (self.buckets.len() as u64 * BUCKET_NANOS) as f64
    }
}

fn slot(number: u64, len: u64) -> usize {
    usize::try_from(number % len).unwrap_or_default()
}

/// A ring behind a mutex.
#[derive(Debug)]
pub(crate) struct MutexRing(Mutex<Buckets>);

impl MutexRing {
    pub(crate) fn new(len: usize) -> Self {
        Self(Mutex::new(Buckets::new(len)))
    }
}

impl Ring for MutexRing {
    fn record(&self, now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(now);
    }

    fn finish(&self, now: Timestamp, rt_nanos: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).finish(now, rt_nanos);
    }

    fn sum(&self, now: Timestamp) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sum(now)
    }

    fn rate(&self, now: Timestamp) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rate(now)
    }
}

/// A ring behind a readers-writer lock.
#[derive(Debug)]
pub(crate) struct RwLockRing(RwLock<Buckets>);

impl RwLockRing {
    pub(crate) fn new(len: usize) -> Self {
        Self(RwLock::new(Buckets::new(len)))
    }
}

impl Ring for RwLockRing {
    fn record(&self, now: Timestamp) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).record(now);
    }

    fn finish(&self, now: Timestamp, rt_nanos: u64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).finish(now, rt_nanos);
    }

    fn sum(&self, now: Timestamp) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).sum(now)
    }

    fn rate(&self, now: Timestamp) -> f64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).rate(now)
    }
}
