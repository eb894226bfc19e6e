//! Keyed limiters, in simulated time.

mod any_limiter;
mod cap;
mod changes;
mod limits;
mod monitor;
mod never_forgiven;
mod threads;

use std::hash::{BuildHasher, Hasher};

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

/// Creates a limiter whose keys below 2³² are all in one shard. Times are given, and not bounded.
macro_rules! keyed {
    ($limiter:expr, $max_keys:expr, $keep:expr) => {
        leaparray::flow::Keyed::<u64, _, _>::with_hasher($limiter, $max_keys, super::Same(0))
            .unwrap()
            .with_keep($keep)
            .with_max_lead(std::time::Duration::MAX)
    };
}
use keyed;
