//! The geometry of a window: bucket numbers, starts and slots. Pure functions of times.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::divisor::Divisor;
use super::error::{ConfigError, ViewError};
use super::timestamp::Timestamp;

/// The length of the shortest bucket. With buckets of one nanosecond, a bucket would start at every
/// time, but the array needs a time at which no bucket starts.
const MIN_BUCKET_NANOS: u64 = 2;

/// The geometry of a window: the number of its buckets, and their total length.
///
/// It is validated when it is created, so every value is valid. With L the [bucket
/// length](Self::bucket_len) and N the [sample count](Self::sample_count), the time `t` falls into
/// the bucket number `k(t) = floor(t / L)`, which starts at `k · L` and is in slot `k mod N`. A
/// read at `now` covers exactly the buckets `k(now) − N + 1 ..= k(now)`.
///
/// With the feature `serde`, it can be [read from a file](crate::guide::configuration),
/// as `{ buckets = 10, interval = "1s" }`.
///
/// ```
/// use leaparray::{Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let config = WindowConfig::new(2, Duration::from_secs(1))?;
/// let t = Timestamp::from_millis(1_600);
/// assert_eq!(config.bucket_len(), Duration::from_millis(500));
/// assert_eq!(config.bucket_number(t), 3);
/// assert_eq!(config.bucket_start(t), Timestamp::from_millis(1_500));
/// # Ok::<_, leaparray::time::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowConfig {
    samples: Divisor,
    bucket: Divisor,
}

impl WindowConfig {
    /// The largest [sample count](Self::sample_count), 2²⁰. The slots of an empty window then take
    /// about ten megabytes.
    pub const MAX_SAMPLE_COUNT: usize = 1 << 20;

    /// The longest [interval](Self::interval), `u64::MAX` nanoseconds.
    pub const MAX_INTERVAL: Duration = Duration::from_nanos(u64::MAX);

    /// Creates a window of `sample_count` buckets that together span `interval`.
    ///
    /// # Errors
    ///
    /// Returns a [`ConfigError`] if either is zero or too large, if a bucket would be shorter than
    /// two nanoseconds, or if the interval does not divide into buckets of whole nanoseconds.
    ///
    /// ```
    /// use leaparray::WindowConfig;
    /// use leaparray::time::ConfigError;
    /// use std::time::Duration;
    ///
    /// let interval = Duration::from_secs(1);
    /// assert!(WindowConfig::new(10, interval).is_ok());
    /// assert_eq!(
    ///     WindowConfig::new(3, interval),
    ///     Err(ConfigError::Indivisible { sample_count: 3, interval })
    /// );
    /// ```
    pub const fn new(sample_count: usize, interval: Duration) -> Result<Self, ConfigError> {
        if sample_count == 0 {
            return Err(ConfigError::ZeroSamples { interval });
        }
        if sample_count > Self::MAX_SAMPLE_COUNT {
            let max = Self::MAX_SAMPLE_COUNT;
            return Err(ConfigError::TooManySamples { sample_count, max });
        }
        if interval.is_zero() {
            return Err(ConfigError::ZeroInterval { sample_count });
        }
        if interval.as_nanos() > Self::MAX_INTERVAL.as_nanos() {
            let max = Self::MAX_INTERVAL;
            return Err(ConfigError::IntervalTooLong { interval, max });
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_INTERVAL")]
        let nanos = interval.as_nanos() as u64;
        if nanos / (sample_count as u64) < MIN_BUCKET_NANOS {
            return Err(ConfigError::BucketTooShort { sample_count, interval });
        }
        if !nanos.is_multiple_of(sample_count as u64) {
            return Err(ConfigError::Indivisible { sample_count, interval });
        }
        let bucket = Divisor::new(nanos / sample_count as u64);
        Ok(Self { samples: Divisor::new(sample_count as u64), bucket })
    }

    /// Returns the number of buckets, N: 1 to [`Self::MAX_SAMPLE_COUNT`].
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it was a usize")]
    pub const fn sample_count(&self) -> usize {
        self.samples.value() as usize
    }

    /// Returns the length of the window, N · L.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        Duration::from_nanos(self.bucket.value() * self.samples.value())
    }

    /// Returns the length of a bucket, L: at least two nanoseconds.
    #[must_use]
    pub const fn bucket_len(&self) -> Duration {
        Duration::from_nanos(self.bucket.value())
    }

    /// Returns the absolute number of the bucket that `now` falls into, `k(now) = floor(now / L)`.
    #[must_use]
    pub const fn bucket_number(&self, now: Timestamp) -> u64 {
        self.bucket.divide(now.as_nanos()).0
    }

    /// Returns the start of the bucket that `now` falls into, `k(now) · L`.
    #[must_use]
    pub const fn bucket_start(&self, now: Timestamp) -> Timestamp {
        self.start_of(self.bucket_number(now))
    }

    /// Returns the end of the bucket that `now` falls into, which is the start of the next bucket
    /// and not in this one. For the last bucket of time, this is [`Timestamp::MAX`], which is in
    /// the bucket.
    ///
    /// A bucket that was read has only its start: this is the end that belongs to it. The length is
    /// [`bucket_len`](Self::bucket_len), which Sentinel calls `windowLengthInMs`.
    ///
    /// ```
    /// use leaparray::{Timestamp, WindowConfig};
    /// use leaparray::array::LeapArray;
    /// use leaparray::metric::MetricBucket;
    /// use std::time::Duration;
    ///
    /// let t = Timestamp::from_millis;
    /// let array = LeapArray::<MetricBucket>::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// let bucket = array.current_bucket(t(700));
    /// let start = bucket.in_time().expect("not late").start();
    /// assert_eq!((start, array.config().bucket_end(start)), (t(500), t(1_000)));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn bucket_end(&self, now: Timestamp) -> Timestamp {
        self.bucket_start(now).saturating_add(self.bucket_len())
    }

    /// Returns the ring's slot for the bucket that `now` falls into, `k(now) mod N`.
    pub(crate) const fn slot(&self, now: Timestamp) -> usize {
        self.slot_of(self.bucket_number(now))
    }

    /// Returns the number of the bucket that `now` falls into, and the nanoseconds from its start
    /// to `now`.
    #[inline]
    pub(crate) const fn bucket_and_age(&self, now: Timestamp) -> (u64, u64) {
        self.bucket.divide(now.as_nanos())
    }

    #[inline]
    pub(crate) const fn bucket_nanos(&self) -> u64 {
        self.bucket.value()
    }

    /// Returns the start of the bucket with that number. The number is the bucket number of some
    /// timestamp, so the product does not overflow.
    pub(crate) const fn start_of(&self, number: u64) -> Timestamp {
        Timestamp::from_nanos(number * self.bucket.value())
    }

    /// Returns whether the bucket with that number ends before the end of time. If its end is that
    /// of time, this may return `false`.
    #[inline]
    pub(crate) const fn is_whole(&self, number: u64) -> bool {
        // The start of the next bucket is at most `u64::MAX`.
        number < self.bucket.quotient_of_max()
    }

    #[expect(clippy::cast_possible_truncation, reason = "below the sample count, a usize")]
    pub(crate) const fn slot_of(&self, number: u64) -> usize {
        self.samples.divide(number).1 as usize
    }

    /// Returns the numbers of the buckets that a read at `now` covers. They begin at 0 at the
    /// earliest.
    pub(crate) const fn covered(&self, now: Timestamp) -> RangeInclusive<u64> {
        run(self.bucket_number(now), self.samples.value())
    }

    /// Returns the number of buckets of `array` in one bucket of this window, or an error if this
    /// window cannot be a view of that array.
    pub(crate) const fn buckets_per_sample(&self, array: &Self) -> Result<u64, ViewError> {
        if !self.bucket.value().is_multiple_of(array.bucket.value()) {
            let (view, array) = (self.bucket_len(), array.bucket_len());
            return Err(ViewError::BucketNotAMultiple { view, array });
        }
        if !array.interval().as_nanos().is_multiple_of(self.interval().as_nanos()) {
            let (view, array) = (self.interval(), array.interval());
            return Err(ViewError::IntervalNotADivisor { view, array });
        }
        Ok(self.bucket.value() / array.bucket.value())
    }
}

/// Returns the `len` bucket numbers that end with `last`, or fewer if they would begin before 0.
pub(crate) const fn run(last: u64, len: u64) -> RangeInclusive<u64> {
    last.saturating_sub(len - 1)..=last
}

impl fmt::Display for WindowConfig {
    /// Formats the number and the length of the buckets: `2 × 500ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {:?}", self.sample_count(), self.bucket_len())
    }
}
