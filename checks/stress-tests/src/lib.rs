//! Stress tests of `leaparray` as it is shipped, with the real `arc-swap` and real threads. While
//! threads record and rotate hundreds of thousands of buckets, other threads check every count
//! exactly.
//!
//! In most tests, the writers advance the time by hand, with buckets of a millisecond, so rotations
//! happen as fast as the threads can make them. The tests are in `tests/`, one file for each kind
//! of use. In `.ci/full`, each test runs each kind of round once. To run each test for a minute:
//!
//! ```sh
//! LEAPARRAY_STRESS_SECONDS=60 cargo test --release -p leaparray-stress-tests -- --nocapture
//! .ci/stress 60    # the same, and then under each sanitizer
//! ```
//!
//! This is a separate crate, so that a build with a sanitizer has only the library and the tests.
//! No thread waits for a thread that a failed assertion may have stopped, so a failure ends the
//! test.

mod rounds;
mod stamped;
mod tally;
mod team;
mod time;

pub use rounds::{BUCKET, Round, rounds};
pub use stamped::{Marks, Observation, Stamped};
pub use tally::{Bounds, Tally, WriterTally};
pub use team::{Reader, one_after_the_other, stall, work};
pub use time::{AdvancedTime, Real, Time, number_of, start_of};
