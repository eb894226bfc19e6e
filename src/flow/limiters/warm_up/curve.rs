//! The curve of a warm-up: how many permits a service gets in a time, depending on how cold it is.

use super::WarmUpConfig;
use crate::time::WindowConfig;

/// The curve of Guava's `SmoothWarmingUp`, in closed form.
///
/// The *coldness* `x` is 1 for a cold service and 0 for a warm one. The time between two permits is
/// `1 + (c − 1) · x` times as long as for a warm service, with the cold factor `c`. Permits lower
/// the coldness: from 1 to 0, a service gets the [`tokens`](Self::tokens) of the token bucket above
/// its warning line, `2 · r · P / (1 + c)` of them, with the rate `r` of a warm service and the
/// period `P`. The mean slowness on the way is `(1 + c) / 2`, so this takes the period. Below the
/// line, the rate is `r`.
///
/// Times are in buckets of the window. No result is infinite or not a number, for any valid
/// configuration.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    limit: u64,
    config: WarmUpConfig,
    /// The number of buckets of the window.
    samples: f64,
    /// The permits that a warm service gets in a bucket.
    rate: f64,
    /// The period, in buckets.
    period: f64,
    /// The permits that a cold service gets until it is warm.
    tokens: f64,
}

impl Curve {
    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    pub(super) fn new(window: &WindowConfig, limit: u64, config: WarmUpConfig) -> Self {
        let samples = window.sample_count() as f64;
        let rate = limit as f64 / samples;
        let period = config.period().as_secs_f64() / window.bucket_len().as_secs_f64();
        let tokens = 2.0 * rate * period / (1.0 + config.cold_factor());
        Self { limit, config, samples, rate, period, tokens }
    }

    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) const fn config(&self) -> WarmUpConfig {
        self.config
    }

    /// Returns the number of buckets of the window.
    pub(super) const fn samples(&self) -> u64 {
        whole(self.samples)
    }

    /// Returns the time over which a service keeps what it did not take. With the current bucket,
    /// this is a window.
    pub(super) const fn most_credit(&self) -> f64 {
        self.samples - 1.0
    }

    /// Returns the number of permits that must leave a window before it has fewer than a cold
    /// service admits.
    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    pub(super) fn above_cold_limit(&self, permits: u64) -> u64 {
        let above = permits as f64 - self.limit_at(1.0);
        if above < 0.0 { 0 } else { whole(above).saturating_add(1) }
    }

    /// Returns the permits that a service gets in a window at its present rate.
    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    pub(super) fn limit_at(&self, coldness: f64) -> f64 {
        self.limit as f64 / self.slowness(coldness)
    }

    /// Returns the permits that a service gets in a window, while it warms up.
    pub(super) fn of_window(&self, coldness: f64) -> f64 {
        self.permits_in(coldness, self.samples)
    }

    /// Returns how much longer than for a warm service the time between two permits is.
    fn slowness(&self, coldness: f64) -> f64 {
        1.0 + (self.config.cold_factor() - 1.0) * coldness
    }

    /// Returns the permits that a service gets in a time.
    pub(super) fn permits_in(&self, coldness: f64, time: f64) -> f64 {
        let until_warm = self.time_until_warm(coldness);
        if time >= until_warm {
            return self.tokens * coldness + self.rate * (time - until_warm);
        }
        // The share of the period that is left afterwards: (2 x + (c − 1) x²) / (1 + c). This is
        // solved for x in the form that does not subtract, and in which c² does not overflow.
        let left = (until_warm - time) / self.period;
        let cold_factor = self.config.cold_factor();
        let root = (1.0 - left).max(0.0).sqrt().hypot(cold_factor * left.sqrt());
        let after = left * (1.0 + cold_factor) / (1.0 + root);
        // Not the difference of the tokens, which would lose digits in a period of many buckets.
        self.rate * time / self.slowness(f64::midpoint(coldness, after))
    }

    /// Returns the time in which a service gets that many permits.
    #[expect(clippy::cast_precision_loss, reason = "as the limit")]
    pub(super) fn time_for(&self, coldness: f64, permits: u64) -> f64 {
        let (permits, cold) = (permits as f64, self.tokens * coldness);
        if permits >= cold {
            return self.time_until_warm(coldness) + (permits - cold) / self.rate;
        }
        let after = self.after(coldness, permits);
        permits / self.rate * self.slowness(f64::midpoint(coldness, after))
    }

    /// Returns the coldness after that many permits.
    #[expect(clippy::cast_precision_loss, reason = "as the limit")]
    pub(super) fn after_permits(&self, coldness: f64, permits: u64) -> f64 {
        if permits == 0 { coldness } else { self.after(coldness, permits as f64) }
    }

    fn after(&self, coldness: f64, permits: f64) -> f64 {
        (coldness - permits / self.tokens).max(0.0)
    }

    /// Returns the coldness after a time in which the service cools: tokens are added at the rate
    /// of a warm service.
    pub(super) fn after_cooling(&self, coldness: f64, time: f64) -> f64 {
        let share = time * (1.0 + self.config.cold_factor()) / (2.0 * self.period);
        (coldness + share).min(1.0)
    }

    /// Returns the time in which a service under full demand is warm.
    fn time_until_warm(&self, coldness: f64) -> f64 {
        let cold_factor = self.config.cold_factor();
        let steep = (cold_factor - 1.0) / (1.0 + cold_factor) * coldness;
        self.period * coldness * (2.0 / (1.0 + cold_factor) + steep)
    }
}

/// Returns the number, rounded down; 0 for a negative number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub(super) const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    fn curve(samples: usize, limit: u64, period: Duration, cold_factor: f64) -> Curve {
        let window = WindowConfig::new(samples, Duration::from_secs(1)).unwrap();
        Curve::new(&window, limit, WarmUpConfig::new(period, cold_factor).unwrap())
    }

    fn assert_near(found: f64, expected: f64, what: &str) {
        let most = 1e-9 * expected.abs().max(1.0);
        assert!((found - expected).abs() <= most, "{what}: {found}, not {expected}");
    }

    /// Ten seconds of a limit of 1,000 a second: half of the permits at a cold factor of 3.
    #[test]
    fn period_has_the_tokens_of_the_line() {
        for (cold_factor, tokens) in [(3.0, 5_000.0), (1.5, 8_000.0), (99.0, 200.0)] {
            let curve = curve(10, 1_000, Duration::from_secs(10), cold_factor);
            assert_near(curve.permits_in(1.0, 100.0), tokens, "of the period");
            assert_near(curve.permits_in(1.0, 101.0), tokens + 100.0, "warm");
            assert_near(curve.time_until_warm(1.0), 100.0, "the period");
            assert_near(curve.limit_at(1.0), 1_000.0 / cold_factor, "cold");
            assert_near(curve.limit_at(0.0), 1_000.0, "warm");
        }
    }

    #[test]
    fn time_and_permits_are_inverse() {
        for cold_factor in [1.01, 1.5, 3.0, 10.0, 100.0] {
            let curve = curve(10, 1_000, Duration::from_secs(10), cold_factor);
            for permits in [0, 1, 7, 19, 500, 4_000, 20_000] {
                for coldness in [0.0, 1e-3, 0.5, 1.0] {
                    let time = curve.time_for(coldness, permits);
                    #[expect(clippy::cast_precision_loss, reason = "small")]
                    let expected = permits as f64;
                    assert_near(curve.permits_in(coldness, time), expected, "permits");
                    let after = curve.after_permits(coldness, permits);
                    let warm = curve.time_until_warm(coldness) - curve.time_until_warm(after);
                    let beyond = (expected - curve.tokens * coldness).max(0.0) / curve.rate;
                    assert_near(warm + beyond, time, "time");
                }
            }
        }
    }

    #[test]
    fn cooling_takes_the_tokens_at_the_whole_rate() {
        let curve = curve(10, 1_000, Duration::from_secs(10), 3.0);
        assert_near(curve.after_cooling(0.0, 25.0), 0.5, "half of the tokens");
        assert_near(curve.after_cooling(0.0, 50.0), 1.0, "all tokens");
        assert_near(curve.after_cooling(0.9, 50.0), 1.0, "full");
        assert_near(curve.after_permits(0.5, 500), 0.4, "a tenth of them taken");
    }

    /// No result is infinite or not a number, and no permit takes a negative time.
    #[test]
    fn extreme_configurations_have_finite_curves() {
        let periods = [Duration::from_nanos(1), Duration::from_secs(1), Duration::MAX];
        let factors = [1.0 + f64::EPSILON, 3.0, 1e154, 1e155, f64::MAX];
        let limits = [1, 1_000, 1 << 40];
        for period in periods {
            for cold_factor in factors {
                for limit in limits {
                    let curve = curve(10, limit, period, cold_factor);
                    for coldness in [0.0, 1e-300, 0.3, 1.0] {
                        let times = [1, limit].map(|permits| curve.time_for(coldness, permits));
                        let permits = times.map(|time| curve.permits_in(coldness, time));
                        let rest = [1, limit].map(|permits| curve.after_permits(coldness, permits));
                        let others = [
                            curve.of_window(coldness),
                            curve.limit_at(coldness),
                            curve.after_cooling(coldness, 1.0),
                        ];
                        let all = [&times[..], &permits, &rest, &others].concat();
                        let valid = |value: &f64| value.is_finite() && *value >= 0.0;
                        assert!(all.iter().all(valid), "{curve:?} {coldness}: {all:?}");
                        assert!(times[0] <= times[1] && times[0] > 0.0, "{curve:?}: {times:?}");
                    }
                }
            }
        }
    }
}
