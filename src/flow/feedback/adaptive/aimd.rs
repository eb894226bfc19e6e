//! Additive increase, multiplicative decrease.

use std::time::Duration;

use super::algorithm::{LimitAlgorithm, LimitEvidence, LimitPlan};
use super::range::{LimitRange, float, floor};
use crate::flow::feedback::adaptive::AdaptiveConfigError;

/// Additive increase, multiplicative decrease, as in Netflix's
/// [concurrency-limits](https://github.com/Netflix/concurrency-limits).
///
/// After a call that failed or took longer than the [timeout](Self::timeout), the limit is
/// multiplied by the [backoff](Self::backoff). After another call, the limit grows by 1 if at least
/// half of it was in use when the call began.
///
/// The limit grows as long as no call fails or times out, whatever the response times are.
/// Therefore a backend with a queue is always at the edge of its timeout.
///
/// ```
/// use leaparray::flow::{AdaptiveLimiter, LimiterExt};
/// use leaparray::flow::adaptive::Aimd;
///
/// let limiter = AdaptiveLimiter::new(Aimd::default());
/// assert_eq!(limiter.limit(), 20);
/// let calls: Vec<_> =
///     (0..20).filter_map(|_| limiter.try_acquire().at_once().ok()).collect();
/// calls.into_iter().for_each(|call| call.accept());
/// assert_eq!(
///     limiter.limit(),
///     31,
///     "the last 11 of 20 began while half of the limit was in use"
/// );
/// limiter.try_acquire().at_once()?.reject();
/// assert_eq!(limiter.limit(), 27);
/// # Ok::<_, leaparray::flow::Refusal>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Aimd {
    range: LimitRange,
    timeout: Duration,
    backoff: f64,
    limit: f64,
}

impl Default for Aimd {
    /// From 20 to 200, a timeout of 5 s, and a backoff of 0.9.
    fn default() -> Self {
        Self::new(LimitRange::known(20, 20, 200))
    }
}

impl Aimd {
    /// Creates the algorithm with a timeout of 5 s and a backoff of 0.9.
    #[must_use]
    pub const fn new(range: LimitRange) -> Self {
        let limit = range.initial_f64();
        Self { range, timeout: Duration::from_secs(5), backoff: 0.9, limit }
    }

    /// Sets the response time above which a call counts as failed.
    #[must_use]
    pub const fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the factor of a decrease.
    ///
    /// # Errors
    ///
    /// Returns an [`AdaptiveConfigError`] unless the factor is at least 0.5 and below 1.
    pub const fn backoff(self, backoff: f64) -> Result<Self, AdaptiveConfigError> {
        if backoff >= 0.5 && backoff < 1.0 {
            Ok(Self { backoff, ..self })
        } else {
            Err(AdaptiveConfigError::Backoff { backoff })
        }
    }
}

impl LimitAlgorithm for Aimd {
    fn highest_limit(&self) -> u64 {
        self.range.max()
    }

    fn first_plan(&mut self) -> LimitPlan {
        LimitPlan::each_call(floor(self.limit))
    }

    fn resume(&mut self, limit: u64) -> LimitPlan {
        self.limit = self.range.clamp(float(limit));
        self.first_plan()
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        if let LimitEvidence::Call(call) = evidence {
            if call.is_exception || call.response_time > self.timeout {
                self.limit = (self.limit * self.backoff).floor();
            } else if float(call.in_flight) * 2.0 >= self.limit {
                self.limit += 1.0;
            }
            self.limit = self.range.clamp(self.limit);
        }
        LimitPlan::each_call(floor(self.limit))
    }
}
