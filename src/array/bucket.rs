//! What a window is made of.

use std::ops::AddAssign;

/// What one bucket of a [`LeapArray`](crate::LeapArray) counts.
///
/// Recording happens through `&self`, from any number of threads at once, so a bucket is made of
/// atomics. `Default` is an empty one. A stale bucket gives way to a fresh one as a whole, and is
/// reset and used again when nobody records in it any more.
///
/// ```
/// use leaparray::{Bucket, LeapArray, Timestamp, WindowConfig};
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
/// assert_eq!(array.account(now).in_window, 1_500);
/// # Ok::<_, leaparray::ConfigError>(())
/// ```
pub trait Bucket: Default + Send + Sync {
    /// What buckets add up to: plain data. Its `AddAssign` should saturate, or have room enough:
    /// where it panics, as a `u64` does in a debug build when it overflows, each thread panics that
    /// comes to add up that retired bucket while it records in a new one.
    type Total: Default + Clone + Send + Sync + for<'a> AddAssign<&'a Self::Total>;

    /// What has been recorded in this bucket so far.
    ///
    /// It may be asked for while the bucket is being emptied, and what it then returns is thrown away.
    /// It must not panic: who rotates the ring asks for it again each time.
    fn total(&self) -> Self::Total;

    /// Empties the bucket for its next use; it can keep memory of its own.
    ///
    /// For the ring to call: nobody records in the bucket then, and who is still reading throws away
    /// what was found. Called by anybody else, it loses what others are recording.
    fn reset(&self);
}
