//! A rolling window: values of any type, bucket by bucket.

mod sum_bucket;

use std::fmt;
use std::ops::RangeInclusive;

pub use sum_bucket::{Number, Sum, SumBucket};

use crate::array::{Bucket, LeapArray, Ledger};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};

/// A value that can be added to a [`RollingWindow`]: `u64`, `i64`, `f64`, and types for which you
/// implement this.
///
/// ```
/// use leaparray::rolling_window::{Rolling, RollingWindow};
/// use leaparray::{Timestamp, WindowConfig};
/// use leaparray::array::Bucket;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// /// A word, of which only the length is recorded.
/// struct Word<'a>(&'a str);
///
/// #[derive(Default)]
/// struct Longest(AtomicU64);
///
/// impl Bucket for Longest {
///     type Total = LongestOf;
///
///     fn total(&self) -> LongestOf {
///         LongestOf(self.0.load(Ordering::Relaxed))
///     }
///
///     fn reset(&self) {
///         self.0.store(0, Ordering::Relaxed);
///     }
/// }
///
/// #[derive(Clone, Default)]
/// struct LongestOf(u64);
///
/// impl std::ops::AddAssign<&Self> for LongestOf {
///     fn add_assign(&mut self, other: &Self) {
///         self.0 = self.0.max(other.0);
///     }
/// }
///
/// impl Rolling for Word<'_> {
///     type Bucket = Longest;
///
///     fn add_to(self, bucket: &Longest) {
///         bucket.0.fetch_max(self.0.len() as u64, Ordering::Relaxed);
///     }
/// }
///
/// let window =
///     RollingWindow::<Word>::new(WindowConfig::new(3, Duration::from_millis(150))?);
/// let now = Timestamp::from_millis(60_000);
/// window.add_at(now, Word("window"));
/// window.add_at(now, Word("roll"));
/// assert_eq!(window.reduce_at(now, 0, |longest, bucket| bucket.total.0.max(longest)), 6);
/// # Ok::<_, leaparray::time::ConfigError>(())
/// ```
pub trait Rolling {
    /// The bucket to which values of this type are added.
    type Bucket: Bucket;

    /// Adds the value to a bucket. Any number of threads may call this at once for one bucket. An
    /// implementation should add on the calling thread; for an add on another thread, the
    /// conditions of [`BucketGuard`](crate::array::BucketGuard) apply.
    fn add_to(self, bucket: &Self::Bucket);
}

/// A window of recent values, bucket by bucket, after
/// [go-zero](https://github.com/zeromicro/go-zero)'s `RollingWindow`.
///
/// A value is added to the bucket of its time. A reduction calls a closure for each bucket of the
/// window, from the oldest to the newest, including empty buckets. Adding is lock-free. Reading
/// writes nothing, and allocates nothing, except for allocations of a [total](Bucket::Total) of
/// your own.
///
/// In go-zero, the buckets are counted from the time at which the window was made. Here, they start
/// at multiples of their length, as everywhere in this crate, so the readings of two windows of one
/// geometry can be compared.
///
/// ```
/// use leaparray::rolling_window::RollingWindow;
/// use leaparray::{ManualClock, Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let config = WindowConfig::new(3, Duration::from_millis(150))?;
/// let window = RollingWindow::<u64, _>::with_clock(config, clock.clone());
/// window.add(1);
/// clock.advance(Duration::from_millis(50));
/// window.add(2);
/// window.add(3);
///
/// assert_eq!(window.reduce(0, |sum, bucket| sum + bucket.total.sum), 6);
/// assert_eq!(window.reduce(0, |most, bucket| most.max(bucket.total.sum)), 5);
/// // Without the current bucket, which is still filling.
/// assert_eq!(window.reduce_complete(0, |most, bucket| most.max(bucket.total.sum)), 1);
/// # Ok::<_, leaparray::time::ConfigError>(())
/// ```
pub struct RollingWindow<T: Rolling, C = MonotonicClock> {
    array: LeapArray<T::Bucket>,
    clock: C,
}

/// The total of one bucket of a [`RollingWindow`]: plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RollingBucket<S> {
    /// The start of the bucket.
    pub start: Timestamp,
    /// The total of the bucket, such as a [`Sum`].
    pub total: S,
}

/// The total of the buckets for values of that type.
type Total<T> = <<T as Rolling>::Bucket as Bucket>::Total;

impl<T: Rolling> RollingWindow<T> {
    /// Creates a window with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(config: WindowConfig) -> Self {
        Self::with_clock(config, MonotonicClock::new())
    }
}

impl<T: Rolling, C: Clock> RollingWindow<T, C> {
    /// Creates a window that reads `clock`.
    #[must_use]
    pub fn with_clock(config: WindowConfig, clock: C) -> Self {
        Self { array: LeapArray::new(config), clock }
    }

    /// Adds a value now.
    pub fn add(&self, value: T) {
        self.add_at(self.clock.now(), value);
    }

    /// Adds a value at `now`. If the slot of that time already has a newer bucket, the value is in
    /// no bucket of the window, and [counts as late](Self::ledger_at).
    pub fn add_at(&self, now: Timestamp, value: T) {
        value.add_to(&self.array.current_bucket(now));
    }

    /// Folds all buckets of the window now, from the oldest to the newest.
    pub fn reduce<A>(&self, init: A, f: impl FnMut(A, RollingBucket<Total<T>>) -> A) -> A {
        self.reduce_at(self.clock.now(), init, f)
    }

    /// Folds all buckets of the window at `now`, from the oldest to the newest, including empty
    /// buckets. Their number is the sample count, and smaller only within the first interval after
    /// [`Timestamp::MIN`].
    ///
    /// The buckets are read one after the other, the oldest first. A value that another thread adds
    /// during the call may or may not be found. The same holds for a bucket whose slot is taken by
    /// a later bucket during the call.
    pub fn reduce_at<A>(
        &self,
        now: Timestamp,
        init: A,
        f: impl FnMut(A, RollingBucket<Total<T>>) -> A,
    ) -> A {
        self.buckets_at(now).fold(init, f)
    }

    /// Folds the complete buckets of the window now, from the oldest to the newest.
    pub fn reduce_complete<A>(&self, init: A, f: impl FnMut(A, RollingBucket<Total<T>>) -> A) -> A {
        self.reduce_complete_at(self.clock.now(), init, f)
    }

    /// Folds the buckets of the window at `now` except the newest one, which is still filling. A
    /// window of a single bucket has no complete bucket.
    pub fn reduce_complete_at<A>(
        &self,
        now: Timestamp,
        init: A,
        f: impl FnMut(A, RollingBucket<Total<T>>) -> A,
    ) -> A {
        let covered = self.config().covered(now);
        match covered.end().checked_sub(1) {
            Some(last) => self.totals(*covered.start()..=last).fold(init, f),
            None => init,
        }
    }

    /// Returns the buckets of the window now, from the oldest to the newest; see
    /// [`buckets_at`](Self::buckets_at).
    pub fn buckets(&self) -> impl Iterator<Item = RollingBucket<Total<T>>> {
        self.buckets_at(self.clock.now())
    }

    /// Returns the buckets of the window at `now`, from the oldest to the newest, including empty
    /// buckets. Their number is the sample count, and smaller only within the first interval after
    /// [`Timestamp::MIN`].
    ///
    /// A bucket is read when the iterator reaches it. For values that other threads add in the
    /// meantime, [`reduce_at`](Self::reduce_at) applies.
    ///
    /// ```
    /// use leaparray::rolling_window::RollingWindow;
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = RollingWindow::<u64>::new(WindowConfig::new(3, Duration::from_secs(3))?);
    /// let t = Timestamp::from_secs;
    /// window.add_at(t(60), 5);
    /// window.add_at(t(62), 7);
    /// let sums = window.buckets_at(t(62)).map(|bucket| (bucket.start, bucket.total.sum));
    /// assert!(sums.eq([(t(60), 5), (t(61), 0), (t(62), 7)]));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn buckets_at(&self, now: Timestamp) -> impl Iterator<Item = RollingBucket<Total<T>>> {
        self.totals(self.config().covered(now))
    }

    /// Returns the total of the window now.
    pub fn total(&self) -> Total<T> {
        self.total_at(self.clock.now())
    }

    /// Returns the total of the window at `now`.
    ///
    /// ```
    /// use leaparray::rolling_window::RollingWindow;
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = RollingWindow::<f64>::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// let now = Timestamp::from_secs(60);
    /// window.add_at(now, 0.5);
    /// window.add_at(now, 2.0);
    /// assert_eq!((window.total_at(now).sum, window.total_at(now).count), (2.5, 2));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn total_at(&self, now: Timestamp) -> Total<T> {
        let add = |mut sum: Total<T>, found: Total<T>| {
            sum += &found;
            sum
        };
        self.array.fold(now, Total::<T>::default(), Bucket::total, add)
    }

    /// Returns the totals of the buckets with these numbers.
    fn totals(
        &self,
        numbers: RangeInclusive<u64>,
    ) -> impl Iterator<Item = RollingBucket<Total<T>>> {
        numbers.map(|number| {
            let mut total = Total::<T>::default();
            // Totals are added up rather than assigned: the fold may also visit empty buckets that
            // another thread is preparing.
            self.array.fold_over(number..=number, (), Bucket::total, |(), found| total += &found);
            RollingBucket { start: self.config().start_of(number), total }
        })
    }

    /// Returns the totals of all values, by whether they are in the window now, expired or late;
    /// see [`ledger_at`](Self::ledger_at).
    pub fn ledger(&self) -> Ledger<Total<T>> {
        self.ledger_at(self.clock.now())
    }

    /// Returns the totals of all values, by whether they are in the window at `now`, expired or
    /// late: recorded = in the window + expired + late. The result is coherent: it counts each
    /// value once. This call allocates.
    ///
    /// ```
    /// use leaparray::rolling_window::RollingWindow;
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = RollingWindow::<f64>::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// let t = Timestamp::from_millis;
    /// window.add_at(t(1_600), 0.5);
    /// // The slot of this time has the bucket of 1,500 ms by now.
    /// window.add_at(t(700), 0.25);
    /// let ledger = window.ledger_at(t(1_600)).map(|total| total.sum);
    /// assert_eq!((ledger.in_window, ledger.late), (0.5, 0.25));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn ledger_at(&self, now: Timestamp) -> Ledger<Total<T>> {
        self.array.ledger(now)
    }

    /// Returns the geometry.
    #[must_use]
    pub const fn config(&self) -> &WindowConfig {
        self.array.config()
    }

    /// Returns the clock that this window reads.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

impl<T: Rolling, C> fmt::Debug for RollingWindow<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RollingWindow").field("array", &self.array).finish_non_exhaustive()
    }
}
