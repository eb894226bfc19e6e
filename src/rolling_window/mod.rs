//! A rolling window: values of any type, bucket by bucket.

mod sum_bucket;

use std::fmt;
use std::ops::Range;

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
/// assert_eq!(window.at(now).buckets().map(|bucket| bucket.total.0).max(), Some(6));
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
/// A value is added to the bucket of its time. A [reading](RollingReading) has the totals of the
/// buckets, from the oldest to the newest, including empty ones: what go-zero's `Reduce` visits.
/// Adding is lock-free. Reading writes nothing, and allocates nothing, except for allocations of a
/// [total](Bucket::Total) of your own.
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
/// let reading = window.now();
/// assert_eq!(reading.total().sum, 6);
/// assert_eq!(reading.buckets().map(|bucket| bucket.total.sum).max(), Some(5));
/// // Without the current bucket, which is still filling.
/// assert_eq!(reading.complete_buckets().map(|bucket| bucket.total.sum).max(), Some(1));
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
    /// no bucket of the window, and [counts as late](RollingReading::ledger).
    pub fn add_at(&self, now: Timestamp, value: T) {
        value.add_to(&self.array.current_bucket(now));
    }

    /// Returns the window now, to be read.
    #[must_use]
    pub fn now(&self) -> RollingReading<'_, T, C> {
        self.at(self.clock.now())
    }
}

impl<T: Rolling, C> RollingWindow<T, C> {
    /// Returns the window at `now`, to be read.
    #[must_use]
    pub const fn at(&self, now: Timestamp) -> RollingReading<'_, T, C> {
        RollingReading { window: self, now }
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

    /// Returns the totals of the buckets with these numbers.
    fn totals(&self, numbers: Range<u64>) -> impl Iterator<Item = RollingBucket<Total<T>>> {
        numbers.map(|number| {
            let mut total = Total::<T>::default();
            // Totals are added up rather than assigned: the fold may also visit empty buckets that
            // another thread is preparing.
            self.array.fold_over(number..=number, (), Bucket::total, |(), found| total += &found);
            RollingBucket { start: self.config().start_of(number), total }
        })
    }
}

/// A [`RollingWindow`] at one time. Returned by [`RollingWindow::at`] and [`RollingWindow::now`].
///
/// Each method reads the values that were added by then. Buckets are read one after the other: a
/// value that another thread adds during the reading may or may not be found, and so may a bucket
/// whose slot a later bucket takes.
pub struct RollingReading<'a, T: Rolling, C = MonotonicClock> {
    window: &'a RollingWindow<T, C>,
    now: Timestamp,
}

impl<'a, T: Rolling, C> RollingReading<'a, T, C> {
    /// Returns the buckets of the window, from the oldest to the newest, including empty buckets.
    /// Their number is the sample count, and smaller only within the first interval after
    /// [`Timestamp::MIN`]. A bucket is read when the iterator reaches it.
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
    /// let sums = window.at(t(62)).buckets().map(|bucket| (bucket.start, bucket.total.sum));
    /// assert!(sums.eq([(t(60), 5), (t(61), 0), (t(62), 7)]));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = RollingBucket<Total<T>>> + use<'a, T, C> {
        let covered = self.window.config().covered(self.now);
        self.window.totals(*covered.start()..*covered.end() + 1)
    }

    /// Returns the buckets of the window except the newest one, which is still filling. A window of
    /// a single bucket has no complete bucket.
    pub fn complete_buckets(
        &self,
    ) -> impl Iterator<Item = RollingBucket<Total<T>>> + use<'a, T, C> {
        let covered = self.window.config().covered(self.now);
        // Without the bucket of `now`, the last one.
        let complete = *covered.start()..*covered.end();
        self.window.totals(complete)
    }

    /// Returns the total of the window.
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
    /// let total = window.at(now).total();
    /// assert_eq!((total.sum, total.count), (2.5, 2));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub fn total(&self) -> Total<T> {
        let add = |mut sum: Total<T>, found: Total<T>| {
            sum += &found;
            sum
        };
        self.window.array.fold(self.now, Total::<T>::default(), Bucket::total, add)
    }

    /// Returns the totals of all values, by whether they are in the window, expired or late:
    /// recorded = in the window + expired + late. The result is coherent: it counts each value
    /// once. This call allocates.
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
    /// let ledger = window.at(t(1_600)).ledger().map(|total| total.sum);
    /// assert_eq!((ledger.in_window, ledger.late), (0.5, 0.25));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub fn ledger(&self) -> Ledger<Total<T>> {
        self.window.array.ledger(self.now)
    }
}

impl<T: Rolling, C> fmt::Debug for RollingWindow<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RollingWindow").field("array", &self.array).finish_non_exhaustive()
    }
}

impl<T: Rolling, C> Clone for RollingReading<'_, T, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Rolling, C> Copy for RollingReading<'_, T, C> {}

impl<T: Rolling, C> fmt::Debug for RollingReading<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RollingReading")
            .field("window", self.window)
            .field("now", &self.now)
            .finish()
    }
}
