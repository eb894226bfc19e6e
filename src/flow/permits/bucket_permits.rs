//! The permits of one bucket.

use crate::time::Timestamp;

/// The permits that a limiter has handed out in one bucket: plain data, as
/// [`permits_by_bucket_at`](crate::flow::SlidingWindowLimiter::permits_by_bucket_at) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketPermits {
    /// The start of the bucket.
    pub start: Timestamp,
    /// The number of permits that were taken in the bucket.
    pub permits: u64,
}
