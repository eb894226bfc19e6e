//! Stand-ins for what has no crate: the rings of other languages' libraries, in their own way.
//!
//! They read leaparray's precise clock, so that what differs is the ring.

pub(crate) mod locked;
pub(crate) mod striped;

use leaparray::Timestamp;

/// What a stand-in does, at a time that is given. It counts nothing at a time whose slot already has
/// a newer bucket.
pub(crate) trait Ring: Sync {
    /// Counts one that passed.
    fn record(&self, now: Timestamp);

    /// Counts a success and its response time.
    fn finish(&self, now: Timestamp, rt_nanos: u64);

    /// Those that passed, in the window.
    fn sum(&self, now: Timestamp) -> u64;

    /// Those that passed, per second.
    fn rate(&self, now: Timestamp) -> f64;
}

/// The geometry of the second: two buckets of half a second.
pub(crate) const SECOND: usize = 2;
/// The geometry of the minute: 120 buckets of half a second.
pub(crate) const MINUTE: usize = 120;
/// Half a second.
pub(crate) const BUCKET_NANOS: u64 = 500_000_000;
