//! Full demand: each bucket asks for more than it gets. The permits follow the integral of the
//! rate.

use leaparray::WindowConfig;
use leaparray::flow::{LimiterExt, SlidingWindowLimiter, WarmUp, WarmUpConfig};

use super::{Service, config, second};
use crate::flow::{at, ms};

/// A cold service under full demand, by the definition of Guava's `SmoothWarmingUp`: the time
/// between two permits rises linearly from the warning line to the full bucket. Integrated in small
/// steps, with times in buckets.
struct Integral {
    /// The tokens above the warning line.
    tokens: f64,
    most: f64,
    stable: f64,
    cold: f64,
    permits: f64,
}

impl Integral {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    fn new(window: WindowConfig, limit: u64, config: WarmUpConfig) -> Self {
        let stable = window.sample_count() as f64 / limit as f64;
        let cold = stable * config.cold_factor();
        let period = config.period().as_secs_f64() / window.bucket_len().as_secs_f64();
        let most = 2.0 * period / (stable + cold);
        Self { tokens: most, most, stable, cold, permits: 0.0 }
    }

    fn rate(&self, tokens: f64) -> f64 {
        let share = tokens.max(0.0) / self.most;
        1.0 / (self.stable + (self.cold - self.stable) * share)
    }

    /// Advances by one bucket, and returns the permits so far.
    fn advance(&mut self) -> f64 {
        const STEPS: u32 = 5_000;
        let step = 1.0 / f64::from(STEPS);
        for _ in 0..STEPS {
            let half = self.tokens - self.rate(self.tokens) * step / 2.0;
            let permits = self.rate(half) * step;
            self.tokens -= permits;
            self.permits += permits;
        }
        self.permits
    }
}

/// Full demand for the period and two windows. At the end of each bucket, the permits are those of
/// the integral, and less than one batch more.
fn follow(window: WindowConfig, limit: u64, config: WarmUpConfig, batch: u64) {
    let service = Service::new(window, limit, config);
    let mut integral = Integral::new(window, limit, config);
    let len = window.bucket_len().as_secs_f64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    let period = (config.period().as_secs_f64() / len).round() as u64;
    let mut admitted = 0;
    for bucket in 0..period {
        admitted += service.take_all(bucket, batch);
        let expected = integral.advance();
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let (found, batch) = (admitted as f64, batch as f64);
        let off = found - expected;
        let rounding = 1e-5 * expected.max(1.0);
        let case = format!("{window}, limit {limit}, {config:?}, batch {batch}, bucket {bucket}");
        assert!(off > -rounding && off < batch + rounding, "{case}: {found}, not {expected}");
    }
    let samples = window.sample_count() as u64;
    let limits = [period - 1, period].map(|bucket| service.current_limit(bucket));
    if limit >= 100 && batch == 1 {
        assert!(limits[0] < limit, "{window}, {limit}, {config:?}: warm too soon");
    }
    assert_eq!(limits[1], limit, "{window}, {config:?}: warm after the period");
    let window_of = |begin: u64| -> u64 {
        (begin..begin + samples).map(|bucket| service.take_all(bucket, batch)).sum()
    };
    let of_windows = [period, period + samples].map(window_of);
    let whole = limit / batch * batch;
    assert!(of_windows[0] <= limit && of_windows[1] <= limit, "{of_windows:?}");
    assert!(of_windows.iter().all(|&permits| permits + batch > whole), "{of_windows:?} {whole}");
}

#[test]
fn permits_follow_the_integral_for_periods_and_factors() {
    for windows in [1, 2, 5, 10, 60] {
        for cold_factor in [1.5, 3.0, 10.0, 100.0] {
            follow(second(10), 1_000, config(windows * 1_000, cold_factor), 1);
        }
    }
}

#[test]
fn permits_follow_the_integral_for_limits_and_geometries() {
    for buckets in [1, 2, 10, 20] {
        for limit in [1, 10, 15, 100, 1_000] {
            follow(second(buckets), limit, config(10_000, 3.0), 1);
        }
        follow(second(buckets), 1_000_000, config(5_000, 3.0), 1_000);
    }
}

#[test]
fn permits_follow_the_integral_for_batches() {
    for batch in [1, 7, 50, 500, 1_000] {
        for cold_factor in [1.5, 3.0, 10.0] {
            follow(second(10), 1_000, config(10_000, cold_factor), batch);
        }
    }
}

/// The period begins and ends within a bucket.
#[test]
fn period_of_half_a_window_or_less_is_followed_as_well() {
    for millis in [100, 500, 1_500] {
        follow(second(10), 1_000, config(millis, 3.0), 1);
    }
}

/// The limit of 1,000 and a period of ten seconds: 5,000 permits, in seconds that rise as the rate
/// does.
#[test]
fn ten_seconds_of_the_defaults_have_half_of_the_permits() {
    let service = Service::of(1_000);
    let second_of = |second: u64| -> u64 {
        (0..10).map(|bucket| service.take_all(second * 10 + bucket, 1)).sum()
    };
    let seconds: Vec<u64> = (0..12).map(second_of).collect();
    assert_eq!(seconds, [342, 358, 378, 402, 430, 467, 514, 578, 677, 854, 1_000, 1_000]);
    assert_eq!(seconds[..10].iter().sum::<u64>(), 5_000);
}

#[test]
fn small_limit_is_whole_after_the_period() {
    let service = Service::of(10);
    let whole = (0..200).find(|&bucket| {
        service.take_all(bucket, 1);
        service.current_limit(bucket + 1) == 10
    });
    assert!((98..=101).contains(&whole.unwrap()), "{whole:?}");
}

/// A request for the whole limit goes when there is no debt, and is paid afterwards. It costs a
/// cold service 2.8 s.
#[test]
fn whole_limit_at_once_is_paid_at_the_rate_of_the_curve() {
    let service = Service::of(1_000);
    let admitted: Vec<u64> =
        (0..15).filter(|second| service.ask(second * 10, 1_000).is_admitted()).collect();
    assert_eq!(admitted, [0, 3, 6, 8, 9, 10, 11, 12, 13, 14]);
}

/// The same with other factors. In the mean, the first ten seconds follow the curve.
#[test]
fn whole_limit_at_once_depends_on_the_cold_factor() {
    let admitted = |cold_factor| {
        let service = Service::new(second(10), 1_000, config(10_000, cold_factor));
        (0..10).filter(|second| service.ask(second * 10, 1_000).is_admitted()).count()
    };
    assert_eq!([1.01, 1.5, 3.0, 9.0].map(admitted), [10, 8, 5, 2]);
}

/// A warm service whose demand leaves it credit decides as a sliding window of the whole limit
/// does.
#[test]
fn warm_service_decides_as_a_sliding_window() {
    let window = second(10);
    let (service, sliding) =
        (Service::of(100), SlidingWindowLimiter::of_buckets(window, 100).unwrap());
    let sliding = sliding.with_max_lead(std::time::Duration::MAX);
    for bucket in 0..200 {
        service.take_all(bucket, 1);
    }
    // Eleven buckets with few requests give it credit, and too many permits in a window to cool.
    (200..211).for_each(|bucket| assert!(service.ask(bucket, 5).is_admitted()));
    (200..211)
        .for_each(|bucket| assert!(sliding.try_acquire_at(service.start(bucket), 5).is_admitted()));
    let mut state = 7_u64;
    for step in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (bucket, permits) = (211 + step / 8, 1 + (state >> 40) % 37);
        let now = service.start(bucket);
        let expected = sliding.try_acquire_at(now, permits);
        assert_eq!(service.ask(bucket, permits), expected, "bucket {bucket}, {permits} permits");
    }
}

/// The period has many short buckets, each of which warms the service by less than a permit.
#[test]
fn long_period_of_short_buckets_warms_in_time() {
    let window = WindowConfig::new(10, ms(10)).unwrap();
    let service = Service::new(window, 7, config(300_000, 3.0));
    let warm_after = (0..400_000).find(|&bucket| {
        service.take_all(bucket, 1);
        service.current_limit(bucket + 1) == 7
    });
    assert!((299_990..300_010).contains(&warm_after.unwrap()), "{warm_after:?} ms");
}

#[test]
fn highest_limit_warms_up() {
    let window = WindowConfig::new(1, std::time::Duration::from_nanos(u64::MAX)).unwrap();
    let limit = SlidingWindowLimiter::max_limit(&window);
    let warm_up = WarmUp::new(window, limit, WarmUpConfig::default()).unwrap();
    assert!(warm_up.try_acquire_at(at(5), limit).is_admitted(), "a batch");
    assert!([1, limit].iter().all(|&permits| warm_up.try_acquire_at(at(5), permits).is_refused()));
}

/// A configuration whose curve has no room in a float decides like the nearest one that has.
#[test]
fn extreme_configurations_decide() {
    for cold_factor in [1.0 + f64::EPSILON, 1e155, f64::MAX] {
        for period in [std::time::Duration::from_nanos(1), std::time::Duration::MAX] {
            let config = WarmUpConfig::new(period, cold_factor).unwrap();
            let service = Service::new(second(10), 1_000, config);
            let admitted = [0, 1].map(|bucket| service.take_all(bucket, 1));
            assert!((1..=100).contains(&admitted[0]), "{config:?}: {admitted:?}");
            for permits in [1, 1_000, 1_001] {
                let peeked = service.peek(1, permits);
                let asked = service.ask(1, permits);
                assert!(
                    asked.is_refused() && peeked == Some(asked),
                    "{config:?} {peeked:?} {asked:?}"
                );
            }
            assert!(service.ask(5, 0).is_admitted());
            assert!((1..=1_000).contains(&service.current_limit(70)));
            assert!(service.available(70) <= 1_000);
        }
    }
}
