//! Limits of shares.

use crate::flow::feedback::circuit::CircuitConfigError;

/// A limit of a share of calls, from 0 to 1.
///
/// ```
/// use leaparray::flow::circuit::RatioLimit;
///
/// let half = RatioLimit::at_least(0.5)?;
/// assert!(half.is_reached(1, 2));
/// assert!(!RatioLimit::above(0.5)?.is_reached(1, 2));
/// # Ok::<_, leaparray::flow::circuit::CircuitConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioLimit {
    ratio: f64,
    /// Whether a share must be above the ratio.
    is_exclusive: bool,
}

impl RatioLimit {
    pub(super) const HALF: Self = Self { ratio: 0.5, is_exclusive: false };
    pub(super) const TENTH: Self = Self { ratio: 0.1, is_exclusive: false };
    pub(super) const ALL: Self = Self { ratio: 1.0, is_exclusive: false };

    /// Creates a limit that is reached by a share of at least `ratio`.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::Ratio`] if the ratio is not above 0 and at most 1.
    pub const fn at_least(ratio: f64) -> Result<Self, CircuitConfigError> {
        if ratio > 0.0 && ratio <= 1.0 {
            return Ok(Self { ratio, is_exclusive: false });
        }
        Err(CircuitConfigError::Ratio { ratio })
    }

    /// Creates a limit that is reached by a share above `ratio`.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::RatioAbove`] if the ratio is not at least 0 and below 1.
    pub const fn above(ratio: f64) -> Result<Self, CircuitConfigError> {
        if ratio >= 0.0 && ratio < 1.0 {
            return Ok(Self { ratio, is_exclusive: true });
        }
        Err(CircuitConfigError::RatioAbove { ratio })
    }

    /// Returns the ratio, and whether a share must be above it.
    #[cfg(feature = "serde")]
    pub(super) const fn parts(self) -> (f64, bool) {
        (self.ratio, self.is_exclusive)
    }

    /// Returns whether `part` of `calls` calls reach the limit. No calls reach none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2⁵³")]
    pub fn is_reached(&self, part: u64, calls: u64) -> bool {
        // A quotient is rounded like a literal, so that 3 of 5 are 0.6.
        let share = part as f64 / calls as f64;
        calls > 0 && (share > self.ratio || !self.is_exclusive && share >= self.ratio)
    }
}
