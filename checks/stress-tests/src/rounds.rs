//! What is done, and for how long.

use std::time::{Duration, Instant};
use std::{env, iter, thread};

use leaparray::WindowConfig;

use crate::time::BUCKET;

/// An array of so many buckets, and so many threads that record in it so many times together.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// How many buckets the array has.
    pub samples: u32,
    /// How many threads record.
    pub writers: usize,
    /// How many turns they have, about.
    pub turns: u32,
    /// How many of these a bucket is long.
    pub turns_per_bucket: u32,
}

impl Round {
    /// The geometry.
    ///
    /// # Panics
    ///
    /// If there are no buckets.
    #[must_use]
    pub fn config(self) -> WindowConfig {
        WindowConfig::new(self.samples as usize, BUCKET * self.samples).expect("whole nanoseconds")
    }
}

const SECONDS: &str = "LEAPARRAY_STRESS_SECONDS";

/// Each kind of round once, and then again and again, and longer, while there is time left.
pub fn rounds() -> impl Iterator<Item = Round> {
    let until = Instant::now() + seconds();
    let again = iter::repeat_with(|| of_each_kind(200_000)).flatten();
    of_each_kind(20_000).chain(again.take_while(move |_| Instant::now() < until))
}

fn of_each_kind(turns: u32) -> impl Iterator<Item = Round> {
    let usual = [1, 2, 10].into_iter().flat_map(move |samples| {
        [2, 4, 8].map(|writers| Round { samples, writers, turns, turns_per_bucket: 4 })
    });
    // More threads than a bucket has cells, and time enough in it for each of them.
    let writers = 2 * thread::available_parallelism().map_or(1, usize::from) + 3;
    usual.chain([Round { samples: 2, writers, turns, turns_per_bucket: turns / 4 }])
}

fn seconds() -> Duration {
    let Some(seconds) = env::var_os(SECONDS) else { return Duration::ZERO };
    let seconds = seconds.to_str().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or_else(|| panic!("{SECONDS} is a number of seconds")))
}
