//! The parameters of a limit.

use std::fmt;
use std::time::Duration;

/// The parameters of one limit over a fleet. All processes that share a limit need the same ones, except for
/// [`ask_interval`](Self::with_ask_interval).
///
/// ```
/// use leaparray_redis::LeaseConfig;
/// use std::time::Duration;
///
/// let config = LeaseConfig::new(10_000, 10, Duration::from_secs(1))?.with_validity(5)?;
/// assert_eq!((config.limit(), config.bucket()), (10_000, Duration::from_millis(100)));
/// assert_eq!(config.quarantine(), Duration::from_millis(1_600));
/// # Ok::<_, leaparray_redis::LeaseConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseConfig {
    limit: u64,
    buckets: u64,
    /// Microseconds.
    bucket: u64,
    validity: u64,
    ask_interval: Duration,
    clock_error: u64,
}

/// A parameter that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseConfigError {
    /// The limit is 0, or above [`LeaseConfig::MAX_LIMIT`].
    #[non_exhaustive]
    Limit {
        /// The limit.
        limit: u64,
    },
    /// The number of buckets is 0, or above [`LeaseConfig::MAX_BUCKETS`].
    #[non_exhaustive]
    Buckets {
        /// The number of buckets.
        buckets: u32,
    },
    /// The length of a bucket is not a number of whole milliseconds, or is not from a millisecond to a day.
    #[non_exhaustive]
    Interval {
        /// The length of the window.
        interval: Duration,
        /// The number of buckets.
        buckets: u32,
    },
    /// The validity of a lease is 0, or above [`LeaseConfig::MAX_BUCKETS`].
    #[non_exhaustive]
    Validity {
        /// The number of buckets for which a lease is valid after the one in which it is granted.
        validity: u32,
    },
    /// The error of the clocks is a tenth or more.
    #[non_exhaustive]
    ClockError {
        /// The error in parts per million.
        ppm: u32,
    },
}

impl LeaseConfig {
    /// The highest limit: 2⁵⁰. A script of the server computes with numbers of 53 bits.
    pub const MAX_LIMIT: u64 = 1 << 50;

    /// The highest number of buckets of a window, and of a lease.
    pub const MAX_BUCKETS: u32 = 1_000;

    /// A limit of `limit` permits in any `buckets` consecutive buckets, which together take `interval`.
    ///
    /// The defaults: a lease is valid for three tenths of the buckets, and at least one, after the one in which it is granted;
    /// a node asks twice in that time; and the rates of the clocks differ by at most 1,000 parts per million.
    ///
    /// # Errors
    ///
    /// Returns an error if the limit is 0 or above 2⁵⁰, if there are no buckets or more than 1,000, or if a bucket does not
    /// take a number of whole milliseconds, from one to those of a day.
    pub fn new(limit: u64, buckets: u32, interval: Duration) -> Result<Self, LeaseConfigError> {
        if limit == 0 || limit > Self::MAX_LIMIT {
            return Err(LeaseConfigError::Limit { limit });
        }
        if buckets == 0 || buckets > Self::MAX_BUCKETS {
            return Err(LeaseConfigError::Buckets { buckets });
        }
        let bucket = interval / buckets;
        let is_whole =
            bucket * buckets == interval && bucket.subsec_nanos().is_multiple_of(1_000_000);
        if !is_whole || bucket.is_zero() || bucket > Duration::from_secs(86_400) {
            return Err(LeaseConfigError::Interval { interval, buckets });
        }
        let validity = (buckets * 3 / 10).max(1);
        Ok(Self {
            limit,
            buckets: buckets.into(),
            bucket: micros(bucket),
            validity: validity.into(),
            ask_interval: bucket * validity / 2,
            clock_error: 1_000,
        })
    }

    /// Sets for how many buckets a lease is valid after the one in which it is granted, and [the time between
    /// asks](Self::with_ask_interval) to half of that. A longer validity needs fewer asks, and keeps permits that a crashed
    /// node holds from the others for longer.
    ///
    /// # Errors
    ///
    /// Returns an error if `validity` is 0 or above 1,000.
    pub fn with_validity(mut self, validity: u32) -> Result<Self, LeaseConfigError> {
        if validity == 0 || validity > Self::MAX_BUCKETS {
            return Err(LeaseConfigError::Validity { validity });
        }
        self.validity = validity.into();
        self.ask_interval = self.bucket() * validity / 2;
        Ok(self)
    }

    /// Sets the least time from one ask of a node to the next while it holds permits. A node without permits asks at once.
    #[must_use]
    pub const fn with_ask_interval(mut self, interval: Duration) -> Self {
        self.ask_interval = interval;
        self
    }

    /// Sets the bound on the difference between the rates of a node's clock and the server's, in parts per million.
    ///
    /// # Errors
    ///
    /// Returns an error if `ppm` is 100,000 or more.
    pub fn with_clock_error(mut self, ppm: u32) -> Result<Self, LeaseConfigError> {
        if ppm >= 100_000 {
            return Err(LeaseConfigError::ClockError { ppm });
        }
        self.clock_error = ppm.into();
        Ok(self)
    }

    /// Returns the limit.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of buckets of the window.
    #[must_use]
    pub const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Returns the length of a bucket.
    #[must_use]
    pub const fn bucket(&self) -> Duration {
        Duration::from_micros(self.bucket)
    }

    /// Returns for how many buckets a lease is valid after the one in which it is granted.
    #[must_use]
    pub const fn validity(&self) -> u64 {
        self.validity
    }

    /// Returns the least time from one ask of a node to the next while it holds permits.
    #[must_use]
    pub const fn ask_interval(&self) -> Duration {
        self.ask_interval
    }

    /// Returns how long a server that does not know the leases before its start grants nothing: n + v + 1 buckets. A lease
    /// from before it ends v buckets later, and its uses leave the window after n more.
    #[must_use]
    pub const fn quarantine(&self) -> Duration {
        Duration::from_micros((self.buckets + self.validity + 1) * self.bucket)
    }

    /// The bucket of a time of the server in microseconds.
    pub(crate) const fn bucket_of(&self, time: u64) -> u64 {
        time / self.bucket
    }

    /// The first microsecond of a bucket.
    pub(crate) const fn start_of(&self, bucket: u64) -> u64 {
        bucket.saturating_mul(self.bucket)
    }

    /// The longest time that the server's clock may have advanced while a node's advanced by `elapsed`.
    pub(crate) fn longest(&self, elapsed: Duration) -> u64 {
        let elapsed = micros(elapsed).saturating_add(1);
        elapsed.saturating_add(self.error_of(elapsed))
    }

    /// A time of a node's clock in which the server's does not advance by more than `time` microseconds.
    pub(crate) fn shortest(&self, time: u64) -> Duration {
        Duration::from_micros(time.saturating_sub(self.error_of(time)).saturating_sub(1))
    }

    /// The error of a time, rounded up.
    fn error_of(&self, time: u64) -> u64 {
        // Twice: 1 / (1 − e) is less than 1 + 2 e for an error below a half.
        let error = u128::from(time) * u128::from(2 * self.clock_error);
        u64::try_from(error.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// The whole microseconds of a time, at most `u64::MAX`.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl fmt::Display for LeaseConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, buckets) = (LeaseConfig::MAX_LIMIT, LeaseConfig::MAX_BUCKETS);
        match self {
            Self::Limit { limit } => write!(f, "the limit is {limit}; it must be from 1 to {most}"),
            Self::Buckets { buckets: found } => {
                write!(f, "the window has {found} buckets; it must have from 1 to {buckets}")
            }
            Self::Interval { interval, buckets } => write!(
                f,
                "a window of {interval:?} has {buckets} buckets; a bucket must take whole milliseconds, up to a day"
            ),
            Self::Validity { validity } => {
                write!(f, "a lease is valid for {validity} buckets; it must be from 1 to {buckets}")
            }
            Self::ClockError { ppm } => {
                write!(
                    f,
                    "the clocks differ by {ppm} parts per million; it must be less than 100000"
                )
            }
        }
    }
}

impl std::error::Error for LeaseConfigError {}
