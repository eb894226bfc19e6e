//! The range of the limit.

use crate::flow::feedback::adaptive::AdaptiveConfigError;
use crate::flow::limiters::PermitCount;

/// The lowest, the first and the highest limit of an algorithm.
///
/// ```
/// use leaparray::flow::adaptive::LimitRange;
///
/// let range = LimitRange::new(4, 20, 1_000)?;
/// assert_eq!((range.min(), range.initial(), range.max()), (4, 20, 1_000));
/// assert_eq!(
///     LimitRange::new(4, 2, 1_000).unwrap_err().to_string(),
///     "limits are 1 <= lowest <= first <= highest <= 16777215, not 4, 2, 1000",
/// );
/// # Ok::<_, leaparray::flow::adaptive::AdaptiveConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRange {
    min: u64,
    initial: u64,
    max: u64,
}

impl LimitRange {
    /// The highest limit: a permit keeps its number of permits in 24 bits.
    pub const MAX: u64 = PermitCount::MOST;

    /// Creates a range.
    ///
    /// # Errors
    ///
    /// Returns an [`AdaptiveConfigError`] unless 1 ≤ `min` ≤ `initial` ≤ `max` ≤
    /// [`MAX`](Self::MAX).
    pub const fn new(min: u64, initial: u64, max: u64) -> Result<Self, AdaptiveConfigError> {
        if 1 <= min && min <= initial && initial <= max && max <= Self::MAX {
            Ok(Self { min, initial, max })
        } else {
            Err(AdaptiveConfigError::Range { min, initial, max, highest: Self::MAX })
        }
    }

    /// A range that the caller knows to be valid.
    pub(super) const fn known(min: u64, initial: u64, max: u64) -> Self {
        Self { min, initial, max }
    }

    /// Returns the lowest limit.
    #[must_use]
    pub const fn min(self) -> u64 {
        self.min
    }

    /// Returns the limit before the first call.
    #[must_use]
    pub const fn initial(self) -> u64 {
        self.initial
    }

    /// Returns the highest limit.
    #[must_use]
    pub const fn max(self) -> u64 {
        self.max
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 24 bits")]
    pub(super) const fn initial_f64(self) -> f64 {
        self.initial as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 24 bits")]
    pub(super) const fn clamp(self, limit: f64) -> f64 {
        limit.clamp(self.min as f64, self.max as f64)
    }
}

/// Rounds a limit down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within a range")]
pub(super) const fn floor(limit: f64) -> u64 {
    limit as u64
}

/// Converts a number of calls.
#[expect(clippy::cast_precision_loss, reason = "the nearest")]
pub(super) const fn float(calls: u64) -> f64 {
    calls as f64
}
