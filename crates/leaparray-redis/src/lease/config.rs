//! The parameters of a limit.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The parameters of a limit that nodes share: L permits in any n consecutive buckets of length b,
/// and how leases are used.
///
/// # Intervals and buckets
///
/// [`new`](Self::new) limits any interval of the server's time, wherever it begins. It divides the
/// interval into 50 buckets and takes one more into the window: an interval begins and ends within
/// buckets, so it touches at most 51 of them. A permit is free again one to 1.02 intervals after
/// its use, so the server can grant 98 % of the rate. In intervals below 50 ms, with buckets of a
/// millisecond, it is the less, the fewer buckets there are: 91 % in 10 ms. A process uses a permit
/// again one interval after its last use, which is sooner: by requests that wait for a window, 98 %
/// is used. A permit is unused on its way to another process: 88 % is used by 100 processes whose
/// requests wait for one answer, with round trips of 50 ms. If that matters more than what is used
/// between the ends of two buckets, take `of_buckets`, with 97 % in that case.
///
/// [`of_buckets`](Self::of_buckets) limits windows of given buckets. Up to twice the limit may then
/// be used within little more than n − 1 bucket lengths, at the end of one bucket and the beginning
/// of another: in 0.9 s with 10 × 100 ms. With fewer buckets, an ask costs the server less: see the
/// README of this crate.
///
/// All nodes of a limit have the same buckets and the same [validity](Self::with_validity): these
/// are a part of the limit's [keys](super::LeaseKeys), so nodes that disagree do not share the
/// limit: while a deployment changes the interval or the buckets, the old and the new nodes have L
/// each. If they have different limits only, the highest one holds.
///
/// ```
/// use leaparray_redis::lease::LeaseConfig;
/// use std::time::Duration;
///
/// let config = LeaseConfig::new(10_000, Duration::from_secs(1))?;
/// assert_eq!((config.limit(), config.interval()), (10_000, Duration::from_secs(1)));
/// assert_eq!((config.buckets(), config.bucket_len()), (51, Duration::from_millis(20)));
/// assert_eq!(config.bucket_len() * config.validity(), Duration::from_millis(600));
/// # Ok::<_, leaparray_redis::lease::LeaseConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseConfig {
    limit: u64,
    buckets: u32,
    bucket_micros: u64,
    /// The interval in which the limit holds, at most as long as the window.
    interval_micros: u64,
    validity: u32,
    min_gap_micros: u64,
    drift_ppm: u32,
}

impl LeaseConfig {
    /// The highest limit, 2^40 permits. A share of it can be computed in doubles without rounding.
    pub const MAX_LIMIT: u64 = 1 << 40;
    /// The most buckets of a window, 256. The cost of an ask grows with them.
    pub const MAX_BUCKETS: u32 = 256;
    /// The longest validity of a lease, in buckets.
    pub const MAX_VALIDITY: u32 = 256;
    /// The longest bucket, a day.
    pub const MAX_BUCKET_LEN: Duration = Duration::from_secs(86_400);
    /// The largest bound of the clocks' rate error, 10 %.
    pub const MAX_DRIFT_PPM: u32 = 100_000;

    /// Creates a limit of `limit` permits in [any interval](Self#intervals-and-buckets) of that
    /// length.
    ///
    /// A lease is valid for 0.6 of the interval from 50 ms to a second, for 0.3 to 0.6 s up to 5 s,
    /// and for six buckets from there on. The least time between two asks in the background is two
    /// thirds of that, but at most a second. The clocks of a node and of the server differ in rate
    /// by at most 1,000 ppm.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseConfigError`] if the limit is zero or too high, or if the interval is
    /// shorter than a millisecond or longer than 50 × [`MAX_BUCKET_LEN`](Self::MAX_BUCKET_LEN).
    ///
    /// ```
    /// use leaparray_redis::lease::LeaseConfig;
    /// use std::time::Duration;
    ///
    /// let minute = Duration::from_secs(60);
    /// let config = LeaseConfig::new(600, minute)?;
    /// // At least as many buckets as an interval can touch.
    /// assert!(config.bucket_len() * (config.buckets() - 1) >= minute);
    /// assert!(LeaseConfig::new(600, Duration::ZERO).is_err());
    /// # Ok::<_, leaparray_redis::lease::LeaseConfigError>(())
    /// ```
    pub fn new(limit: u64, interval: Duration) -> Result<Self, LeaseConfigError> {
        let micros = interval.as_nanos().div_ceil(1_000);
        // Of whole microseconds, so the last bucket may reach beyond the interval.
        let bucket = micros.div_ceil(BUCKETS).max(MIN_BUCKET_MICROS);
        if micros < MIN_BUCKET_MICROS || bucket > Self::MAX_BUCKET_LEN.as_micros() {
            return Err(LeaseConfigError::AnyInterval { interval });
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 51 buckets of a day")]
        let (buckets, bucket, micros) =
            (micros.div_ceil(bucket) as u32 + 1, bucket as u64, micros as u64);
        let config = Self { limit, interval_micros: micros, ..Self::of(buckets, bucket) };
        config.with_limit(limit)
    }

    /// Creates a limit of `limit` permits in any `buckets` consecutive
    /// [buckets](Self#intervals-and-buckets) that together span `interval`.
    ///
    /// A lease is valid until the end of the sixth bucket after its grant, or of the bucket
    /// `buckets` after it if that is earlier. The least time between two asks in the background is
    /// four buckets, but at most a second and at most two thirds of the validity of a lease. Where
    /// a window has more than 19 buckets, of less than 100 ms, each is instead as many times as
    /// long as a hundred milliseconds or a tenth of the window have buckets. The clocks of a node
    /// and of the server differ in rate by at most 1,000 ppm.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseConfigError`] if the limit or the number of buckets is zero or too large,
    /// or if a bucket is not of whole microseconds, from a millisecond to
    /// [`MAX_BUCKET_LEN`](Self::MAX_BUCKET_LEN).
    pub fn of_buckets(
        limit: u64,
        buckets: u32,
        interval: Duration,
    ) -> Result<Self, LeaseConfigError> {
        if buckets == 0 || buckets > Self::MAX_BUCKETS {
            return Err(LeaseConfigError::Buckets { buckets, max: Self::MAX_BUCKETS });
        }
        let nanos = interval.as_nanos();
        let bucket_nanos = u128::from(buckets) * 1_000;
        let micros = nanos / bucket_nanos;
        if !nanos.is_multiple_of(bucket_nanos)
            || micros < MIN_BUCKET_MICROS
            || micros > Self::MAX_BUCKET_LEN.as_micros()
        {
            return Err(LeaseConfigError::Interval { buckets, interval });
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most a day")]
        Self::of(buckets, micros as u64).with_limit(limit)
    }

    /// Returns a limit of one permit, with the default validity and gap.
    fn of(buckets: u32, bucket_micros: u64) -> Self {
        let interval_micros = bucket_micros * u64::from(buckets);
        let mut config = Self {
            limit: 1,
            buckets,
            bucket_micros,
            interval_micros,
            validity: 1,
            min_gap_micros: 0,
            drift_ppm: 1_000,
        };
        let step = config.step();
        config.validity = buckets.min(6 * step);
        let lease = bucket_micros * u64::from(config.validity);
        let gap = bucket_micros * u64::from(4 * step);
        config.min_gap_micros = gap.min(lease * 2 / 3).min(1_000_000);
        config
    }

    /// Sets the limit, and leaves the rest as it is.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseConfigError`] if the limit is zero or above [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub const fn with_limit(mut self, limit: u64) -> Result<Self, LeaseConfigError> {
        if limit == 0 || limit > Self::MAX_LIMIT {
            return Err(LeaseConfigError::Limit { limit, max: Self::MAX_LIMIT });
        }
        self.limit = limit;
        Ok(self)
    }

    /// Sets the validity of a lease: the highest number of buckets from the bucket of its grant to
    /// its last one, v. A longer validity needs fewer asks, strands more permits when a node
    /// crashes, and makes the quarantine after a loss of state longer, which takes n + v + 1
    /// buckets. If the [least time between two asks](Self::with_min_gap) is longer than such a
    /// lease, it becomes two thirds of it.
    ///
    /// A request for several permits needs all of them at one time. In a shortage, one that waits
    /// gathers them from the buckets of a lease, and permits that were granted ahead have less of
    /// it left. So a validity below the default starves such requests: with half of it and ten
    /// buckets, requests for 1 to 9 of 100 permits at four processes used about a tenth of the
    /// limit.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseConfigError`] if it is zero or above [`MAX_VALIDITY`](Self::MAX_VALIDITY).
    pub const fn with_validity(mut self, validity: u32) -> Result<Self, LeaseConfigError> {
        if validity == 0 || validity > Self::MAX_VALIDITY {
            return Err(LeaseConfigError::Validity { validity, max: Self::MAX_VALIDITY });
        }
        self.validity = validity;
        let lease = self.bucket_micros * validity as u64;
        if self.min_gap_micros > lease {
            self.min_gap_micros = lease * 2 / 3;
        }
        Ok(self)
    }

    /// Sets the least time between two asks in the background, in whole microseconds: τ. Zero is
    /// allowed. A node without a permit for a request does not wait for it.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseConfigError`] if it is longer than a lease, which is valid for v buckets: a
    /// node would ask too late.
    pub fn with_min_gap(mut self, min_gap: Duration) -> Result<Self, LeaseConfigError> {
        let max = Duration::from_micros(self.bucket_micros * u64::from(self.validity));
        if min_gap > max {
            return Err(LeaseConfigError::MinGap { min_gap, max });
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 256 days")]
        let micros = min_gap.as_micros() as u64;
        self.min_gap_micros = micros;
        Ok(self)
    }

    /// Sets the bound on the difference in rate between a node's clock and the server's, in
    /// millionths: ρ. A lease ends earlier on the node by that much.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseConfigError`] if it is above [`MAX_DRIFT_PPM`](Self::MAX_DRIFT_PPM).
    pub const fn with_drift_ppm(mut self, drift_ppm: u32) -> Result<Self, LeaseConfigError> {
        if drift_ppm > Self::MAX_DRIFT_PPM {
            return Err(LeaseConfigError::Drift { drift_ppm, max: Self::MAX_DRIFT_PPM });
        }
        self.drift_ppm = drift_ppm;
        Ok(self)
    }

    /// Returns the limit: the permits in any n consecutive buckets, L.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of buckets of the window, n.
    #[must_use]
    pub const fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Returns the length of the intervals in which the limit holds: for a limit [of
    /// buckets](Self::of_buckets), the length of its window.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        Duration::from_micros(self.interval_micros)
    }

    /// Returns the number of buckets in which the demand is averaged, and after which a node that
    /// lacks permits asks again: in a hundred milliseconds or a tenth of the window, whichever is
    /// shorter, and at least one. So short buckets need no more asks.
    pub(crate) const fn step(&self) -> u32 {
        let tenth = self.buckets as u64 * self.bucket_micros / 10;
        let longest = if tenth < MAX_STEP_MICROS { tenth } else { MAX_STEP_MICROS };
        #[expect(clippy::cast_possible_truncation, reason = "at most a tenth of the buckets")]
        let step = (longest / self.bucket_micros) as u32;
        if step == 0 { 1 } else { step }
    }

    /// Returns the length of a bucket, b.
    #[must_use]
    pub const fn bucket_len(&self) -> Duration {
        Duration::from_micros(self.bucket_micros)
    }

    /// Returns the length of a bucket in microseconds.
    #[must_use]
    pub const fn bucket_micros(&self) -> u64 {
        self.bucket_micros
    }

    /// Returns the validity of a lease: the highest number of buckets from the bucket of its grant
    /// to its last one, v.
    #[must_use]
    pub const fn validity(&self) -> u32 {
        self.validity
    }

    /// Returns the least time between two asks in the background, τ.
    #[must_use]
    pub const fn min_gap(&self) -> Duration {
        Duration::from_micros(self.min_gap_micros)
    }

    /// Returns the bound on the difference in rate between a node's clock and the server's, in
    /// millionths, ρ.
    #[must_use]
    pub const fn drift_ppm(&self) -> u32 {
        self.drift_ppm
    }

    /// Returns the time without a grant after a loss of state: n + v + 1 buckets.
    #[must_use]
    pub const fn quarantine(&self) -> Duration {
        Duration::from_micros(self.buckets_micros(1))
    }

    /// Returns the time for which the server keeps the charges and sequence numbers after an ask:
    /// n + v + 2 buckets.
    #[must_use]
    pub const fn retention(&self) -> Duration {
        Duration::from_micros(self.buckets_micros(2))
    }

    /// Returns the length of n + v + `more` buckets, in microseconds.
    pub(crate) const fn buckets_micros(&self, more: u64) -> u64 {
        (self.buckets as u64 + self.validity as u64 + more) * self.bucket_micros()
    }
}

/// The number of buckets in an interval, beside the one that is more in the window.
const BUCKETS: u128 = 50;
const MIN_BUCKET_MICROS: u128 = 1_000;
const MAX_STEP_MICROS: u64 = 100_000;

/// The error of a [`LeaseConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseConfigError {
    /// The limit is zero or too high.
    Limit {
        /// The limit that was asked for.
        limit: u64,
        /// The highest limit.
        max: u64,
    },
    /// The number of buckets is zero or too large.
    Buckets {
        /// The number that was asked for.
        buckets: u32,
        /// The largest number.
        max: u32,
    },
    /// The interval is too short or too long for a limit in any interval.
    AnyInterval {
        /// The interval that was asked for.
        interval: Duration,
    },
    /// The interval does not divide into buckets of whole microseconds, or they are too short or
    /// too long.
    Interval {
        /// The number of buckets.
        buckets: u32,
        /// The interval that was asked for.
        interval: Duration,
    },
    /// The validity of a lease is zero or too long.
    Validity {
        /// The validity that was asked for, in buckets.
        validity: u32,
        /// The longest validity.
        max: u32,
    },
    /// The least time between two asks is longer than a lease.
    MinGap {
        /// The time that was asked for.
        min_gap: Duration,
        /// The longest time.
        max: Duration,
    },
    /// The bound on the difference of the clocks' rates is too large.
    Drift {
        /// The bound that was asked for, in millionths.
        drift_ppm: u32,
        /// The largest bound.
        max: u32,
    },
}

impl fmt::Display for LeaseConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { limit, max } => {
                write!(f, "a limit is from 1 to {max} permits, not {limit}")
            }
            Self::Buckets { buckets, max } => {
                write!(f, "a window has from 1 to {max} buckets, not {buckets}")
            }
            Self::AnyInterval { interval } => {
                write!(f, "a limit holds in any interval of 1 ms to 50 days, not of {interval:?}")
            }
            Self::Interval { buckets, interval } => write!(
                f,
                "interval {interval:?} does not divide into {buckets} buckets of whole microseconds, from 1 ms to a day each"
            ),
            Self::Validity { validity, max } => {
                write!(f, "a lease is valid for 1 to {max} buckets, not {validity}")
            }
            Self::MinGap { min_gap, max } => {
                write!(f, "{min_gap:?} between two asks is longer than a lease, {max:?}")
            }
            Self::Drift { drift_ppm, max } => {
                write!(f, "the rates of two clocks may differ by up to {max} ppm, not {drift_ppm}")
            }
        }
    }
}

impl Error for LeaseConfigError {}
