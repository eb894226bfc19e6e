//! The configuration of a breaker.

use std::time::Duration;

use super::evidence::Rule;
use crate::flow::feedback::breaker::AdaptiveBreakerConfigError;
use crate::node::OnDrop;
use crate::time::{WindowConfig, saturating_nanos};

/// The configuration of an [`AdaptiveBreaker`](super::AdaptiveBreaker): its window, how early it
/// drops requests, and how fast it recovers. It can be
/// [changed](super::AdaptiveBreaker::reconfigure) while the breaker runs.
///
/// With the feature `serde`, it can be [read from a file](crate::guide::configuration),
/// with the fields `window`, `k`, `min_requests`, `probe_interval`, `recovery` and `on_drop`.
///
/// ```
/// use leaparray::WindowConfig;
/// use leaparray::flow::breaker::AdaptiveBreakerConfig;
/// use std::time::Duration;
///
/// let default = AdaptiveBreakerConfig::default();
/// let milder = AdaptiveBreakerConfig::default()
///     .window(WindowConfig::new(60, Duration::from_secs(30))?)
///     .k(2.0)?;
///
/// // Of 99 requests, the backend has accepted 47.
/// assert!(default.drop_probability(99, 47) > 0.2);
/// assert_eq!(milder.drop_probability(99, 47), 0.0);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct AdaptiveBreakerConfig {
    pub(in crate::flow) window: WindowConfig,
    pub(in crate::flow) k: f64,
    pub(in crate::flow) min_requests: u64,
    pub(in crate::flow) probe_interval: Duration,
    pub(in crate::flow) recovery: Duration,
    pub(in crate::flow) on_drop: OnDrop,
}

impl AdaptiveBreakerConfig {
    /// Sets the window in which requests are counted. The default is 40 buckets of 250 ms.
    pub const fn window(self, window: WindowConfig) -> Self {
        Self { window, ..self }
    }

    /// Sets `k`: no request is dropped while there are at most `k` requests for each request that
    /// the backend accepts. The default is 1.5.
    ///
    /// The nearer `k` is to 1, the earlier requests are dropped. The larger `k` is, the more
    /// requests reach a failing backend. Google's *Site Reliability Engineering* calls it *K*.
    ///
    /// # Errors
    ///
    /// Returns a [`AdaptiveBreakerConfigError`] if `k` is not finite, or below 1: with such a `k`,
    /// requests would be dropped although the backend accepts all of them.
    pub const fn k(self, k: f64) -> Result<Self, AdaptiveBreakerConfigError> {
        if !k.is_finite() {
            return Err(AdaptiveBreakerConfigError::KNotFinite { k });
        }
        if k < 1.0 {
            return Err(AdaptiveBreakerConfigError::KBelowOne { k });
        }
        Ok(Self { k, ..self })
    }

    /// Sets the number of other requests in the window up to which no request is dropped. The
    /// default is 5. go-zero calls it `protection`.
    pub const fn min_requests(self, min_requests: u64) -> Self {
        Self { min_requests, ..self }
    }

    /// Sets the probe interval: the time after which a request is let through, if no request that
    /// might have been dropped got through in that time. The default is one second.
    ///
    /// # Errors
    ///
    /// Returns a [`AdaptiveBreakerConfigError`] if the interval is zero: then no request would be
    /// dropped.
    pub const fn probe_interval(
        self,
        probe_interval: Duration,
    ) -> Result<Self, AdaptiveBreakerConfigError> {
        if probe_interval.is_zero() {
            return Err(AdaptiveBreakerConfigError::ZeroProbeInterval);
        }
        Ok(Self { probe_interval, ..self })
    }

    /// Sets the recovery: the time in which the probability falls to zero after a failure, while
    /// the backend works again. The default is 5 seconds.
    ///
    /// The time begins with an accepted request, which may be a [probe](Self::probe_interval). The
    /// share of requests that get through grows by the same factor in equal times; see
    /// [`AdaptiveBreaker`](super::AdaptiveBreaker#recovery). A time that is longer than half of the
    /// window counts as half of the window.
    ///
    /// # Errors
    ///
    /// Returns a [`AdaptiveBreakerConfigError`] if the time is zero: then one accepted request
    /// would end an outage.
    ///
    /// ```
    /// use leaparray::flow::breaker::{AdaptiveBreakerConfig, AdaptiveBreakerConfigError};
    /// use std::time::Duration;
    ///
    /// let config = AdaptiveBreakerConfig::default();
    /// assert!(config.recovery(Duration::from_secs(2)).is_ok());
    /// assert_eq!(config.recovery(Duration::ZERO), Err(AdaptiveBreakerConfigError::ZeroRecovery));
    /// ```
    pub const fn recovery(self, recovery: Duration) -> Result<Self, AdaptiveBreakerConfigError> {
        if recovery.is_zero() {
            return Err(AdaptiveBreakerConfigError::ZeroRecovery);
        }
        Ok(Self { recovery, ..self })
    }

    /// Sets the outcome of a request whose [`FeedbackPermit`](crate::flow::FeedbackPermit) is
    /// dropped without a report: the backend has rejected it, which is the default, or it was
    /// cancelled.
    ///
    /// If permits live in futures, choose [`OnDrop::Cancelled`]. Otherwise, clients that go away
    /// make the breaker drop requests to a backend that is well.
    ///
    /// ```
    /// use leaparray::Clock;
    /// use leaparray::node::OnDrop;
    /// use leaparray::flow::{AdaptiveBreaker, LimiterExt};
    /// use leaparray::flow::breaker::AdaptiveBreakerConfig;
    ///
    /// let config = AdaptiveBreakerConfig::default().on_drop(OnDrop::Cancelled);
    /// let breaker = AdaptiveBreaker::new(config);
    /// for _ in 0..1_000 {
    ///     drop(breaker.try_acquire().at_once()?);
    /// }
    /// assert_eq!(breaker.drop_probability_at(breaker.clock().now()), 0.0);
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    pub const fn on_drop(self, on_drop: OnDrop) -> Self {
        Self { on_drop, ..self }
    }

    /// Returns the probability with which a request is dropped if the window has `total` other
    /// requests, of which the backend has accepted `accepts`. It is at least 0 and below 1; if the
    /// numbers are so large that an `f64` cannot distinguish it from 1, it is 1.
    ///
    /// The probability is `max(0, (total − min_requests − k · accepts) / (total + 1))`, after the
    /// chapter *Handling Overload* of Google's *Site Reliability Engineering*. During a
    /// [recovery](super::AdaptiveBreaker#recovery), the breaker lowers it.
    ///
    /// ```
    /// use leaparray::flow::breaker::AdaptiveBreakerConfig;
    ///
    /// let config = AdaptiveBreakerConfig::default();
    /// assert_eq!(config.drop_probability(99, 99), 0.0);
    /// assert_eq!(config.drop_probability(99, 66), 0.0);
    /// assert_eq!(config.drop_probability(99, 46), 0.25);
    /// assert_eq!(config.drop_probability(99, 0), 0.94);
    /// ```
    #[must_use]
    pub const fn drop_probability(&self, total: u64, accepts: u64) -> f64 {
        self.rule().formula(total, accepts)
    }

    pub(super) const fn rule(&self) -> Rule {
        let Self { k, min_requests, recovery, .. } = *self;
        Rule { k, min_requests, recovery_nanos: saturating_nanos(recovery) }
    }
}

impl Default for AdaptiveBreakerConfig {
    fn default() -> Self {
        const WINDOW: WindowConfig = match WindowConfig::new(40, Duration::from_secs(10)) {
            Ok(window) => window,
            Err(_) => panic!("a quarter of a second divides it"),
        };
        Self {
            window: WINDOW,
            k: 1.5,
            min_requests: 5,
            probe_interval: Duration::from_secs(1),
            recovery: Duration::from_secs(5),
            on_drop: OnDrop::default(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn default_is_that_of_go_zero_with_a_probe_each_second() {
        let default = AdaptiveBreakerConfig::default();
        assert_eq!(default.window.to_string(), "40 × 250ms");
        assert_eq!((default.k.to_bits(), default.min_requests), (1.5_f64.to_bits(), 5));
        assert_eq!(default.probe_interval, Duration::from_secs(1));
    }

    #[test]
    fn formula_at_given_counts() {
        let config = AdaptiveBreakerConfig::default();
        for (total, accepts, expected) in [
            (0, 0, 0.0),
            (5, 0, 0.0),
            (6, 0, 1.0 / 7.0),
            (6, 1, 0.0),
            (99, 40, 0.34),
            (1_000, 1_000, 0.0),
            (1_004, 666, 0.0),
            (1_005, 666, 1.0 / 1_006.0),
            (u64::MAX, u64::MAX, 0.0),
            (u64::MAX, 0, 1.0),
        ] {
            let found = config.drop_probability(total, accepts);
            assert!((found - expected).abs() < 1e-12, "{total}, {accepts}: {found}");
        }
        let huge = config.k(f64::MAX).unwrap();
        assert!(huge.drop_probability(u64::MAX, u64::MAX).abs() < 1e-12);
        let all = config.min_requests(u64::MAX);
        assert!(all.drop_probability(u64::MAX, 0).abs() < 1e-12);
    }
}
