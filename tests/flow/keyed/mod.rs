//! Keyed limiters, in simulated time.

mod any_limiter;
mod cap;
mod limits;
mod monitor;
mod never_forgiven;
mod threads;

use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use leaparray::ManualClock;
use leaparray::flow::KeyedLimiter;
use leaparray::flow::keyed::PerKey;

use crate::at;

/// A hasher whose hash is the number that was written, so that a test chooses shards and tags.
#[derive(Clone, Copy, Debug, Default)]
struct Same(u64);

impl BuildHasher for Same {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the keys are of type u64");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

type Keyed<R> = KeyedLimiter<u64, R, ManualClock, Same>;

/// Returns a limiter whose keys below 2³² are all in one shard. Times are given, and not bounded.
fn keyed<R: PerKey>(limit: R, max_keys: usize, keep: Duration) -> Keyed<R> {
    KeyedLimiter::with_clock_and_hasher(limit, max_keys, ManualClock::new(at(60_000)), Same(0))
        .unwrap()
        .with_keep(keep)
        .with_max_lead(Duration::MAX)
}
