//! Scales, errors, quantiles and response times at the ends of their ranges and beyond.

use std::time::Duration;

use leaparray::histogram::{HistogramConfigError, HistogramScaleError};
use leaparray::{HistogramConfig, LatencyHistogram};

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[test]
fn relative_error_that_cannot_be_is_refused() {
    let no_error = [0.0, -0.0, -0.1, 1.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for error in no_error {
        let refused = HistogramConfig::with_relative_error(error).unwrap_err();
        assert!(matches!(refused, HistogramConfigError::RelativeError { .. }), "{error}");
        let expected = format!("a relative error of {error} is not above 0 and below 1");
        assert_eq!(refused.to_string(), expected);
    }
    for error in [0.00135, 1e-9, f64::MIN_POSITIVE] {
        let refused = HistogramConfig::with_relative_error(error).unwrap_err();
        assert_eq!(refused, HistogramConfigError::TooFine { error });
    }
    let message = HistogramConfigError::TooFine { error: 0.001 }.to_string();
    assert_eq!(
        message,
        "a relative error of 0.001 is below 0.001354, the error of the finest scale, 8"
    );
}

#[test]
fn relative_error_gives_the_coarsest_scale_that_has_it() {
    let finest = HistogramConfig::with_scale(8).unwrap().relative_error();
    for scale in 0..=8 {
        let config = HistogramConfig::with_scale(scale).unwrap();
        let error = config.relative_error();
        let base = 2_f64.powf(2_f64.powi(-i32::from(scale)));
        assert!((error / ((base - 1.0) / (base + 1.0)) - 1.0).abs() < 1e-10, "scale {scale}");
        assert_eq!(HistogramConfig::with_relative_error(error), Ok(config));
        assert_eq!(HistogramConfig::with_relative_error(error.next_up()), Ok(config));
        let finer = HistogramConfig::with_relative_error(error.next_down());
        assert_eq!(finer.map(HistogramConfig::scale).ok(), (scale < 8).then_some(scale + 1));
        assert!(error >= finest);
    }
    let loosest = HistogramConfig::with_relative_error(1_f64.next_down()).unwrap();
    assert_eq!(loosest.scale(), 0);
}

#[test]
fn scale_out_of_range_is_refused() {
    assert_eq!(HistogramConfig::with_scale(8).unwrap().scale(), HistogramConfig::MAX_SCALE);
    for scale in [9, u8::MAX] {
        let refused = HistogramConfig::with_scale(scale).unwrap_err();
        assert_eq!(refused, HistogramConfigError::Scale { scale });
    }
    let histogram = LatencyHistogram::default();
    let refused = histogram.downscaled(5).unwrap_err();
    assert_eq!(refused, HistogramScaleError::Finer { scale: 5, present: 4 });
    assert_eq!(refused.to_string(), "scale 5 is finer than 4, the scale of the histogram");
    let refused = histogram.downscaled(-11).unwrap_err();
    assert_eq!(refused, HistogramScaleError::TooCoarse { scale: -11 });
    assert_eq!(refused.to_string(), "scale -11 is below -10, the coarsest");
    assert_eq!(histogram.downscaled(-10).unwrap().scale(), -10);
}

#[test]
fn quantile_out_of_range_is_none() {
    let mut histogram = LatencyHistogram::default();
    let empty = [0.0, 0.5, 1.0].map(|q| histogram.quantile(q));
    assert_eq!(empty, [None; 3]);
    assert_eq!((histogram.min(), histogram.max(), histogram.mean()), (None, None, None));
    histogram.record(nanos(5));
    let outside = [-0.1, -f64::MIN_POSITIVE, 1_f64.next_up(), f64::INFINITY, f64::NAN];
    assert_eq!(histogram.quantiles(outside), [None; 5]);
    assert_eq!(outside.map(|q| histogram.quantile_as_secs_f64(q)), [None; 5]);
    let inside = [0.0, -0.0, f64::MIN_POSITIVE, 1_f64.next_down(), 1.0];
    assert_eq!(histogram.quantiles(inside), [Some(nanos(5)); 5]);
    assert_eq!(histogram.quantiles([]), []);
}

#[test]
fn rank_is_that_of_the_decimal_fraction() {
    // The bins of 8 to 107 s have several ranks; those of 1 to 100 ns, one each.
    for total in [1, 2, 7, 10, 100, 1_000] {
        let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(8).unwrap());
        (1..=total).for_each(|it| histogram.record(nanos(it)));
        for percent in 0..=100_u32 {
            let quantile = histogram.quantile(f64::from(percent) / 100.0).unwrap();
            let rank = (u64::from(percent) * total).div_ceil(100).max(1);
            // At scale 8, a bin of less than 370 ns has one whole nanosecond.
            let allowed = if rank < 360 { 0 } else { 3 };
            assert!(quantile.abs_diff(nanos(rank)) <= nanos(allowed), "{percent} % of {total}");
        }
    }
}

#[test]
fn extreme_ranks_are_exact() {
    let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(0).unwrap());
    let response_times = [1_000_000_003, 1_000_000_007, 1_000_000_011, 1_999_999_999];
    for response_time in response_times {
        histogram.record(nanos(response_time));
    }
    assert_eq!(histogram.quantiles([0.0, 0.25, 0.2]), [Some(nanos(1_000_000_003)); 3]);
    assert_eq!(histogram.quantiles([0.999, 1.0, 0.76]), [Some(nanos(1_999_999_999)); 3]);
    assert_eq!(histogram.quantile_as_secs_f64(0.0), Some(1.000_000_003));
    // 2ab/(a + b), with the extremes as a and b.
    assert_eq!(histogram.quantile(0.5), Some(nanos(1_333_333_336)));
}

#[test]
fn zero_is_in_the_bin_of_one_nanosecond() {
    let mut histogram = LatencyHistogram::default();
    histogram.record_many(Duration::ZERO, 3);
    assert_eq!(histogram.quantiles([0.0, 0.5, 1.0]), [Some(Duration::ZERO); 3]);
    assert_eq!(histogram.quantile_as_secs_f64(0.5), Some(0.0));
    assert_eq!(histogram.count_at_or_below(Duration::ZERO), 3);
    histogram.record(nanos(1));
    assert_eq!(histogram.buckets().map(|it| it.count).collect::<Vec<_>>(), [4]);
    assert_eq!((histogram.min(), histogram.max()), (Some(Duration::ZERO), Some(nanos(1))));
    assert_eq!(histogram.count_at_or_below(Duration::ZERO), 0, "a lower bound");
}

#[test]
fn response_time_above_the_longest_counts_as_the_longest() {
    let mut histogram = LatencyHistogram::default();
    histogram.record(Duration::MAX);
    histogram.record(nanos(1 << 62));
    assert_eq!(histogram.min(), Some(nanos(1 << 62)));
    assert_eq!((histogram.max(), histogram.mean()), (histogram.min(), histogram.min()));
    assert_eq!(histogram.sum(), nanos(1 << 63));
    assert_eq!(histogram.count_at_or_below(Duration::MAX), 2);
}

#[test]
fn no_request_with_a_response_time_changes_nothing() {
    let mut histogram = LatencyHistogram::default();
    histogram.record_many(nanos(7), 0);
    assert_eq!(histogram, LatencyHistogram::default());
}

#[test]
fn counts_saturate() {
    let mut histogram = LatencyHistogram::default();
    let [short, long] = [nanos(100), nanos(1_000_000)];
    histogram.record_many(short, u64::MAX - 1);
    histogram.record_many(short, 3);
    histogram.record_many(long, u64::MAX);
    assert_eq!(histogram.count(), u64::MAX);
    assert_eq!(histogram.buckets().map(|it| it.count).collect::<Vec<_>>(), [u64::MAX; 2]);
    assert_eq!(histogram.quantiles([0.0, 0.5, 1.0]), [Some(short), Some(short), Some(long)]);
    let other = histogram.clone();
    histogram.merge(&other);
    assert_eq!(histogram.count(), u64::MAX);
    assert_eq!(histogram.downscaled(-10).unwrap().buckets().next().unwrap().count, u64::MAX);
    let mut longest = LatencyHistogram::default();
    (0..20).for_each(|_| longest.record_many(Duration::MAX, u64::MAX));
    assert_eq!((longest.count(), longest.sum()), (u64::MAX, Duration::MAX));
}
