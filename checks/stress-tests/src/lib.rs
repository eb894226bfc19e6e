//! `leaparray` as it is shipped (the real `arc-swap`, the real threads), with hundreds of thousands of
//! rotations, and checked to the unit while everybody is at work.
//!
//! Time is given: the writers push it on, by buckets of a millisecond, so that rotations come as fast
//! as threads can make them. The tests are in `tests/`, one file for each kind of use. As part of
//! `cargo test --workspace` each does its rounds once; to go on for a minute each:
//!
//! ```sh
//! LEAPARRAY_STRESS_SECONDS=60 cargo test --release -p leaparray-stress-tests -- --nocapture
//! .ci/stress 60    # the same, and then under each sanitizer
//! ```
//!
//! This is a crate of its own so that a sanitizer has only the library and this to build. No thread
//! waits for another one that an assertion might stop: a failure ends the test.

mod rounds;
mod stamped;
mod tally;
mod team;
mod time;

pub use rounds::{Round, rounds};
pub use stamped::{Marks, Observation, Stamped};
pub use tally::{Bounds, Tally, WriterTally};
pub use team::{Reader, one_after_the_other, stall, work};
pub use time::{BUCKET, Given, Real, Time, number_of, start_of};
