//! Stand-ins for libraries of other languages: rings with the algorithms of these libraries.
//!
//! They read leaparray's precise clock, so that only the rings differ.

pub(crate) mod locked;
pub(crate) mod striped;

use leaparray::Timestamp;

/// A stand-in, at a given time. It counts nothing if the slot of that time already has a newer
/// bucket.
pub(crate) trait Ring: Sync {
    /// Counts a request that passed.
    fn record(&self, now: Timestamp);

    /// Counts a success and its response time.
    fn finish(&self, now: Timestamp, rt_nanos: u64);

    /// Returns the number of requests that passed in the window.
    fn sum(&self, now: Timestamp) -> u64;
}

/// The geometry of the second: two buckets of half a second.
pub(crate) const SECOND: usize = 2;
/// The geometry of the minute: 120 buckets of half a second.
pub(crate) const MINUTE: usize = 120;
/// Half a second.
pub(crate) const BUCKET_NANOS: u64 = 500_000_000;
