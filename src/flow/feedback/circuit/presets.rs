//! Configurations of other breakers.

use std::time::Duration;

use super::config::{Calls, CircuitConfig};
use super::ratio::RatioLimit;
use super::wait::Wait;
use crate::flow::feedback::circuit::CircuitConfigError;
use crate::time::WindowConfig;

const SECOND: Duration = Duration::from_secs(1);

/// The defaults of other breakers, with limits that are compared as there. Each preset lists its
/// differences.
///
/// If the other breaker admits a probe only after the end of its wait, the wait here is a
/// millisecond longer.
impl CircuitConfig {
    /// The defaults of [resilience4j](https://resilience4j.readme.io/docs/circuitbreaker): half of
    /// the last 100 calls, or all of them slower than a minute; open for a minute, with ten probes
    /// and no time-out. There, a half-open breaker decides after as many calls as the minimum, if
    /// that is below the number of probes; here, after all probes.
    pub const fn resilience4j() -> Self {
        Self { calls: Calls::Last(100), probes: 10, ..Self::WITH_ONE_PROBE }
            .min_calls(100)
            .slow_ratio(RatioLimit::ALL, Duration::from_secs(60))
            .wait(Wait::new(Duration::from_millis(60_001)))
    }

    /// A rule of [Sentinel](https://github.com/alibaba/Sentinel) for the share of exceptions: more
    /// than `ratio` of at least five calls in a bucket of a second; one probe.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::RatioAbove`] if the ratio is not at least 0 and below 1.
    pub fn sentinel_exception_ratio(
        ratio: f64,
        wait: Duration,
    ) -> Result<Self, CircuitConfigError> {
        Ok(Self::sentinel(wait).exception_ratio(RatioLimit::above(ratio)?))
    }

    /// A rule of Sentinel for the share of slow calls: more than `ratio` of at least five calls in
    /// a bucket of a second take longer than `max_rt`, or all of them if the ratio is 1; one probe.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::RatioAbove`] if the ratio is not from 0 to 1.
    pub fn sentinel_slow_ratio(
        ratio: f64,
        max_rt: Duration,
        wait: Duration,
    ) -> Result<Self, CircuitConfigError> {
        #[expect(clippy::float_cmp, reason = "the rule for exactly 1")]
        let limit = if ratio == 1.0 { RatioLimit::ALL } else { RatioLimit::above(ratio)? };
        Ok(Self::sentinel(wait).slow_ratio(limit, max_rt))
    }

    /// A rule of Sentinel for the number of exceptions: more than `exceptions` in a bucket of a
    /// second; one probe. Unlike there, the number of calls does not matter.
    pub const fn sentinel_exception_count(exceptions: u64, wait: Duration) -> Self {
        Self::sentinel(wait).exceptions(exceptions.saturating_add(1))
    }

    const fn sentinel(wait: Duration) -> Self {
        Self::of_ratios(1, SECOND, 5).no_exception_ratio().wait(Wait::new(wait))
    }

    /// The defaults of [Hystrix](https://github.com/Netflix/Hystrix): half of at least 20 calls in
    /// ten buckets of a second; open for 5 seconds, with one probe. Hystrix reads its counts every
    /// half a second; this breaker decides at each call.
    pub const fn hystrix() -> Self {
        let five_seconds = Duration::from_millis(5_001);
        Self::of_ratios(10, Duration::from_secs(10), 20).wait(Wait::new(five_seconds))
    }

    /// The defaults of [Polly](https://www.pollydocs.org/strategies/circuit-breaker): a tenth of at
    /// least 100 calls in ten buckets of 3 seconds; open for 5 seconds, with one probe. Polly
    /// decides when a call fails; here, a success that completes the minimum number of calls can
    /// also open the breaker.
    pub const fn polly() -> Self {
        Self::of_ratios(10, Duration::from_secs(30), 100).exception_ratio(RatioLimit::TENTH)
    }

    /// The defaults of [failsafe](https://failsafe.dev/circuit-breaker/): the last `exceptions`
    /// calls all end with an exception; open for a minute. There, a half-open breaker admits as
    /// many requests, opens if all of them fail, and closes with the first success; here, it has
    /// one probe, which decides.
    ///
    /// # Errors
    ///
    /// Returns [`CircuitConfigError::Calls`] if the number is 0 or above
    /// [`CountWindow::MAX_LEN`](crate::count_window::CountWindow::MAX_LEN).
    pub fn failsafe(exceptions: u32) -> Result<Self, CircuitConfigError> {
        let wait = Wait::new(60 * SECOND);
        let config = Self::of_ratios(1, SECOND, 1).no_exception_ratio().wait(wait);
        Ok(config.last_calls(exceptions)?.exceptions(exceptions.into()))
    }

    /// The defaults of [gobreaker](https://github.com/sony/gobreaker): more than five exceptions in
    /// a row; open for a minute, with one probe.
    pub const fn gobreaker() -> Self {
        let wait = Duration::from_millis(60_001);
        Self::of_ratios(1, SECOND, 1)
            .no_exception_ratio()
            .consecutive_exceptions(6)
            .wait(Wait::new(wait))
    }

    /// Half of the calls in a window, with one probe and no time-out.
    const fn of_ratios(buckets: usize, interval: Duration, min_calls: u64) -> Self {
        let Ok(window) = WindowConfig::new(buckets, interval) else {
            panic!("the presets have valid windows")
        };
        Self::WITH_ONE_PROBE.in_window(window).min_calls(min_calls)
    }
}
