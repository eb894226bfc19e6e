//! The trait of buckets.

use std::ops::AddAssign;

/// A bucket of a [`LeapArray`](crate::array::LeapArray).
///
/// Any number of threads record in a bucket at once, through `&self`, so a bucket consists of
/// atomics. `Default` creates an empty bucket. The array replaces a stale bucket with another
/// bucket. Once no thread has the stale bucket pinned, the array resets it and uses it again.
///
/// ```
/// use leaparray::{Timestamp, WindowConfig};
/// use leaparray::array::{Bucket, LeapArray};
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// /// Bytes sent.
/// #[derive(Default)]
/// struct Bytes(AtomicU64);
///
/// impl Bucket for Bytes {
///     type Total = u64;
///
///     fn total(&self) -> u64 {
///         self.0.load(Ordering::Relaxed)
///     }
///
///     fn reset(&self) {
///         self.0.store(0, Ordering::Relaxed);
///     }
/// }
///
/// let array = LeapArray::<Bytes>::new(WindowConfig::new(2, Duration::from_secs(1))?);
/// let now = Timestamp::from_millis(700);
/// array.current_bucket(now).0.fetch_add(1_500, Ordering::Relaxed);
/// assert_eq!(array.ledger(now).in_window, 1_500);
/// # Ok::<_, leaparray::time::ConfigError>(())
/// ```
pub trait Bucket: Default + Send + Sync {
    /// The sum of buckets: plain data. Its `AddAssign` should not panic, so it should saturate or
    /// be wide enough. If it panics, as `u64` does on overflow in a debug build, each rotation that
    /// adds up a retired bucket panics.
    type Total: Default + Clone + Send + Sync + for<'a> AddAssign<&'a Self::Total>;

    /// Returns the counts of this bucket.
    ///
    /// The array may call this while the bucket is being reset, and then discards the result. It
    /// must not panic: otherwise, each later rotation calls it again for the same bucket and panics
    /// too.
    fn total(&self) -> Self::Total;

    /// Empties the bucket for its next use. It may keep memory that it has allocated.
    ///
    /// Only the array should call this: it ensures that no thread records in the bucket during the
    /// call, and that readers discard what they find. A call by other code loses the counts that
    /// other threads add at the same time.
    fn reset(&self);
}
