//! How long a breaker stays open.

use std::time::Duration;

use crate::flow::feedback::breaker::RandomSource;
use crate::flow::feedback::circuit::CircuitConfigError;
use crate::time::saturating_nanos;

/// The time for which a [`CircuitBreaker`](super::CircuitBreaker) stays open, rounded up to whole
/// milliseconds.
///
/// ```
/// use leaparray::flow::circuit::Wait;
/// use std::time::Duration;
///
/// // 1 s, then 2 s, 4 s and so on up to a minute, each longer or shorter by up to a tenth.
/// let wait = Wait::new(Duration::from_secs(1))
///     .growing(2.0, Duration::from_secs(60))?
///     .with_jitter(0.1)?;
/// # let _ = wait;
/// # Ok::<_, leaparray::flow::circuit::CircuitConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Wait {
    pub(super) first: Duration,
    pub(super) factor: f64,
    pub(super) max: Duration,
    pub(super) jitter: f64,
}

impl Wait {
    /// Creates a wait of always the same time.
    pub const fn new(wait: Duration) -> Self {
        Self { first: wait, factor: 1.0, max: wait, jitter: 0.0 }
    }

    /// Multiplies the wait by `factor` each time that a half-open breaker opens again, up to `max`.
    /// A breaker that opens from another state begins with the first wait.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::Factor`] if the factor is not a finite number of at least 1,
    /// and [`CircuitConfigError::MaxWait`] if `max` is shorter than the first wait.
    pub fn growing(self, factor: f64, max: Duration) -> Result<Self, CircuitConfigError> {
        if !(factor.is_finite() && factor >= 1.0) {
            return Err(CircuitConfigError::Factor { factor });
        }
        if max < self.first {
            return Err(CircuitConfigError::MaxWait { max, first: self.first });
        }
        Ok(Self { factor, max, ..self })
    }

    /// Makes each wait longer or shorter by a random part of it, up to `jitter`. So breakers that
    /// have opened together do not send their probes together. The maximum of a wait that grows
    /// includes the jitter.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::Jitter`] if the jitter is not from 0 to 1.
    pub fn with_jitter(self, jitter: f64) -> Result<Self, CircuitConfigError> {
        if !(0.0..=1.0).contains(&jitter) {
            return Err(CircuitConfigError::Jitter { jitter });
        }
        Ok(Self { jitter, ..self })
    }

    /// Returns the wait of the trip with that number, from 1, in nanoseconds.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    #[expect(clippy::cast_precision_loss, reason = "a wait of more than 104 days is rounded")]
    pub(super) fn nanos(&self, trip: u64, random: &impl RandomSource) -> u64 {
        let (first, max) = (saturating_nanos(self.first) as f64, saturating_nanos(self.max) as f64);
        let exponent = i32::try_from(trip.saturating_sub(1)).unwrap_or(i32::MAX);
        // A power that is infinite would make no number of a wait of 0.
        let mut wait = (first * self.factor.powi(exponent).min(f64::MAX)).min(max);
        if self.jitter == 0.0 {
            return wait as u64;
        }
        if self.factor > 1.0 {
            // Before the jitter. If the sum were cut to the maximum, half of the longest waits
            // would be equal.
            wait = wait.min(max / (1.0 + self.jitter));
        }
        // From −1 to 1.
        let part = f64::from(random.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0;
        (wait * (1.0 + part * self.jitter)) as u64
    }
}
