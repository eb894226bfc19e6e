//! The parameters of a limit.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The parameters of a limit that nodes share: L permits in n buckets of b ms, and how leases are
/// used.
///
/// All nodes of a limit have the same buckets and the same [validity](Self::with_validity): these
/// are a part of the limit's [keys](super::LeaseKeys), so nodes that disagree do not share the
/// limit. If they have different limits, as during a deployment, the highest one holds.
///
/// ```
/// use leaparray_redis::lease::LeaseConfig;
/// use std::time::Duration;
///
/// let config = LeaseConfig::new(10_000, 10, Duration::from_secs(1))?;
/// assert_eq!(config.bucket_len(), Duration::from_millis(100));
/// assert_eq!((config.limit(), config.validity()), (10_000, 6));
/// # Ok::<_, leaparray_redis::lease::LeaseConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseConfig {
    limit: u64,
    buckets: u32,
    bucket_millis: u64,
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

    /// Creates a limit of `limit` permits in any `buckets` consecutive buckets that together span
    /// `interval`.
    ///
    /// A lease is valid until the end of the sixth bucket after its grant, or of the bucket
    /// `buckets` after it if that is earlier. The least time between two asks in the background is
    /// four buckets, but at most a second and at most two thirds of the validity of a lease. The
    /// clocks of a node and of the server differ in rate by at most 1,000 ppm.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseConfigError`] if the limit or the number of buckets is zero or too large,
    /// or if a bucket is not of whole milliseconds, from one to
    /// [`MAX_BUCKET_LEN`](Self::MAX_BUCKET_LEN).
    pub fn new(limit: u64, buckets: u32, interval: Duration) -> Result<Self, LeaseConfigError> {
        if limit == 0 || limit > Self::MAX_LIMIT {
            return Err(LeaseConfigError::Limit { limit, max: Self::MAX_LIMIT });
        }
        if buckets == 0 || buckets > Self::MAX_BUCKETS {
            return Err(LeaseConfigError::Buckets { buckets, max: Self::MAX_BUCKETS });
        }
        let nanos = interval.as_nanos();
        let bucket_nanos = u128::from(buckets) * 1_000_000;
        let bucket_millis = nanos / bucket_nanos;
        if !nanos.is_multiple_of(bucket_nanos)
            || bucket_millis == 0
            || bucket_millis > Self::MAX_BUCKET_LEN.as_millis()
        {
            return Err(LeaseConfigError::Interval { buckets, interval });
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most a day")]
        let bucket_millis = bucket_millis as u64;
        let validity = buckets.min(6);
        let min_gap = (bucket_millis * 4).min(bucket_millis * u64::from(validity) * 2 / 3);
        let min_gap_micros = (min_gap * 1_000).min(1_000_000);
        Ok(Self { limit, buckets, bucket_millis, validity, min_gap_micros, drift_ppm: 1_000 })
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
    /// # Errors
    ///
    /// Returns a [`LeaseConfigError`] if it is zero or above [`MAX_VALIDITY`](Self::MAX_VALIDITY).
    pub const fn with_validity(mut self, validity: u32) -> Result<Self, LeaseConfigError> {
        if validity == 0 || validity > Self::MAX_VALIDITY {
            return Err(LeaseConfigError::Validity { validity, max: Self::MAX_VALIDITY });
        }
        self.validity = validity;
        let lease = self.bucket_micros() * validity as u64;
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
        let max = Duration::from_millis(self.bucket_millis * u64::from(self.validity));
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

    /// Returns the length of a bucket, b.
    #[must_use]
    pub const fn bucket_len(&self) -> Duration {
        Duration::from_millis(self.bucket_millis)
    }

    /// Returns the length of a bucket in microseconds.
    #[must_use]
    pub const fn bucket_micros(&self) -> u64 {
        self.bucket_millis * 1_000
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
    /// The interval does not divide into buckets of whole milliseconds, or they are too long.
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
            Self::Interval { buckets, interval } => write!(
                f,
                "interval {interval:?} does not divide into {buckets} buckets of whole milliseconds, from 1 ms to a day each"
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
