//! The rounds of a test, and how long they are repeated.

use std::time::{Duration, Instant};
use std::{env, iter, thread};

use leaparray::WindowConfig;

/// The length of all buckets.
pub const BUCKET: Duration = Duration::from_millis(1);

/// One run of a test: the geometry of the array, and the threads that record in it.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The number of buckets of the array.
    pub samples: u32,
    /// The number of threads that record.
    pub writers: usize,
    /// The number of turns of all writers together, approximately.
    pub turns: u32,
    /// The length of a bucket in turns.
    pub turns_per_bucket: u32,
}

impl Round {
    /// The geometry of the array.
    ///
    /// # Panics
    ///
    /// If the number of buckets is 0.
    #[must_use]
    pub fn config(self) -> WindowConfig {
        WindowConfig::new(self.samples as usize, BUCKET * self.samples).expect("whole nanoseconds")
    }
}

const SECONDS: &str = "LEAPARRAY_STRESS_SECONDS";

/// Returns each kind of round once, and then longer ones of each kind, until the time is over.
pub fn rounds() -> impl Iterator<Item = Round> {
    let until = Instant::now() + seconds();
    let again = iter::repeat_with(|| of_each_kind(200_000)).flatten();
    of_each_kind(20_000).chain(again.take_while(move |_| Instant::now() < until))
}

fn of_each_kind(turns: u32) -> impl Iterator<Item = Round> {
    let usual = [1, 2, 10].into_iter().flat_map(move |samples| {
        [2, 4, 8].map(|writers| Round { samples, writers, turns, turns_per_bucket: 4 })
    });
    // More threads than cores, with buckets that are long enough for all of them to record in one
    // bucket.
    let writers = 2 * thread::available_parallelism().map_or(1, usize::from) + 3;
    usual.chain([Round { samples: 2, writers, turns, turns_per_bucket: turns / 4 }])
}

fn seconds() -> Duration {
    let Some(seconds) = env::var_os(SECONDS) else { return Duration::ZERO };
    let seconds = seconds.to_str().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(
        seconds.unwrap_or_else(|| panic!("{SECONDS} must be a whole number of seconds")),
    )
}
