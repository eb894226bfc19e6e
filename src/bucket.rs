//! What a window is made of: the trait a bucket fulfils, and the wrap that gives it a start.

use std::fmt;
use std::ops::AddAssign;

use crate::timestamp::Timestamp;

/// What one bucket of a [`LeapArray`](crate::LeapArray) counts.
///
/// Recording happens through `&self`, from any number of threads at once, so a bucket is made of
/// atomics. `Default` is an empty one: a stale bucket is never reset field by field, a fresh one
/// takes its place.
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
/// }
///
/// let array = LeapArray::<Bytes>::new(WindowConfig::new(2, Duration::from_secs(1))?);
/// let now = Timestamp::from_millis(700);
/// array.current_bucket(now).0.fetch_add(1_500, Ordering::Relaxed);
/// assert_eq!(array.account(now).in_window, 1_500);
/// # Ok::<_, leaparray::ConfigError>(())
/// ```
pub trait Bucket: Default + Send + Sync {
    /// What buckets add up to: plain data. Its `AddAssign` should saturate rather than overflow.
    type Total: Default + Clone + Send + Sync + for<'a> AddAssign<&'a Self::Total>;

    /// What has been recorded in this bucket so far.
    fn total(&self) -> Self::Total;
}

/// A bucket and the start of its span, which never changes.
///
/// Half-open: a wrap covers `start ..` up to, not including, `start + bucket_len`.
#[derive(Debug)]
pub struct BucketWrap<B> {
    start: Timestamp,
    bucket: B,
}

impl<B> BucketWrap<B> {
    /// Where the bucket's span begins: a multiple of the bucket length.
    #[must_use]
    pub const fn start(&self) -> Timestamp {
        self.start
    }

    /// The bucket itself.
    #[must_use]
    pub const fn bucket(&self) -> &B {
        &self.bucket
    }
}

impl<B: Bucket> BucketWrap<B> {
    pub(crate) fn empty(start: Timestamp) -> Self {
        Self { start, bucket: B::default() }
    }
}

/// Where the counts of a [`LeapArray`](crate::LeapArray) are, as one look at it found them.
///
/// Every add is in exactly one of the three, so that
/// recorded = in the window + expired + late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account<T> {
    /// In the buckets that the window covers.
    pub in_window: T,
    /// In buckets outside of it: those that it has left behind, what was added to them after that
    /// included. Read at a `now` that lies behind the newest record, also those yet to come.
    pub expired: T,
    /// Added when the slot of its time already held a newer bucket.
    pub late: T,
}

impl<T: Clone + for<'a> AddAssign<&'a T>> Account<T> {
    /// Everything that was ever added.
    ///
    /// ```
    /// use leaparray::Account;
    ///
    /// let account = Account { in_window: 5_u64, expired: 2, late: 1 };
    /// assert_eq!(account.recorded(), 8);
    /// ```
    #[must_use]
    pub fn recorded(&self) -> T {
        let mut sum = self.in_window.clone();
        sum += &self.expired;
        sum += &self.late;
        sum
    }
}

impl<T: fmt::Display + Clone + for<'a> AddAssign<&'a T>> fmt::Display for Account<T> {
    /// `8 recorded = 5 in the window + 2 expired + 1 late`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_window, expired, late } = self;
        let recorded = self.recorded();
        write!(
            f,
            "{recorded} recorded = {in_window} in the window + {expired} expired + {late} late"
        )
    }
}
