//! Invalid configurations, and the texts of errors and refusals.

use std::time::Duration;

use leaparray::flow::breaker::{AdaptiveBreakerConfig, AdaptiveBreakerConfigError};
use leaparray::flow::{
    FixedWindowLimiter, LimitError, Rate, Reason, Refusal, Retry, SlidingWindowLimiter, WarmUp,
    WarmUpConfig,
};
use leaparray::{Timestamp, WindowConfig};

use crate::flow::ms;

#[test]
fn limit_that_does_not_fit_is_refused() {
    let config = WindowConfig::new(10, ms(10)).unwrap();
    let max = SlidingWindowLimiter::max_limit(&config);
    assert!(SlidingWindowLimiter::of_buckets(config, max).is_ok());
    let error = SlidingWindowLimiter::of_buckets(config, max + 1).unwrap_err();
    let bucket_len = ms(1);
    assert_eq!(error, LimitError::TooHigh { limit: max + 1, max, bucket_len });
    assert!(matches!(FixedWindowLimiter::new(ms(0), 1), Err(LimitError::NoWindow(_))));
    let warm = WarmUpConfig::default();
    assert_eq!(WarmUp::new(config, 0, warm).unwrap_err(), LimitError::Zero);
    assert!(matches!(WarmUp::new(config, max + 1, warm), Err(LimitError::TooHigh { .. })));
}

#[test]
fn error_says_what_is_wrong() {
    let rate = |permits, interval| Rate::new(permits, interval).unwrap_err().to_string();
    assert_eq!(rate(0, ms(1_000)), "a rate needs at least one permit in 1s, not 0");
    assert_eq!(rate(7, ms(0)), "a rate of 7 permits needs an interval above 0 ns");
    assert_eq!(
        rate(7, Duration::from_secs(1 << 40)),
        "an interval of 1099511627776s is longer than the longest, 18446744073.709551615s"
    );
    let nanos = Duration::from_nanos(6);
    assert_eq!(rate(7, nanos), "7 permits in 6ns are more than one a nanosecond");

    let bucket_len = ms(100);
    for (error, text) in [
        (LimitError::Zero, "a limit of 0 has nothing to warm up to"),
        (
            LimitError::TooHigh { limit: 9, max: 8, bucket_len },
            "a limit of 9 is above 8, the highest with buckets of 100ms",
        ),
        (
            FixedWindowLimiter::new(ms(0), 1).unwrap_err(),
            "a window of 1 samples needs an interval above 0 ns",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }

    let warm_up = |period, factor| WarmUpConfig::new(period, factor).unwrap_err().to_string();
    assert_eq!(warm_up(ms(0), 3.0), "to warm up by a cold factor of 3 takes more than 0 ns");
    assert_eq!(warm_up(ms(1), 1.0), "a cold factor is a number above 1, not 1");
    assert_eq!(warm_up(ms(1), f64::NAN), "a cold factor is a number above 1, not NaN");
}

#[test]
fn breaker_names_what_is_wrong_with_its_settings() {
    let default = AdaptiveBreakerConfig::default();
    for (error, text) in [
        (default.k(f64::INFINITY), "k is inf, but must be a finite number of at least 1"),
        (default.k(f64::NAN), "k is NaN, but must be a finite number of at least 1"),
        (default.k(0.99), "k is 0.99, but must be at least 1"),
        (default.probe_interval(Duration::ZERO), "the probe interval is 0 ns, but must be longer"),
    ] {
        assert_eq!(error.unwrap_err().to_string(), text);
    }
    assert_eq!(default.k(-1.0), Err(AdaptiveBreakerConfigError::KBelowOne { k: -1.0 }));
    let other = default.k(2.5).unwrap().min_requests(7).probe_interval(ms(1)).unwrap();
    assert!((other.drop_probability(9, 0) - 0.2).abs() < 1e-12);
    assert!(default.k(1.0).is_ok() && default.probe_interval(Duration::MAX).is_ok());
}

#[test]
fn refusal_names_its_reason() {
    let reasons = [
        (Reason::LimitReached, "refused: the limit is reached"),
        (Reason::WaitTooLong, "refused: the wait would be too long"),
        (Reason::MoreThanLimit, "refused: the request asks for more than the limit"),
        (Reason::Failing, "refused: the backend fails too often"),
        (Reason::QueueFull, "refused: too many requests wait already"),
    ];
    for (reason, text) in reasons {
        assert_eq!(Refusal::new(reason, Retry::Unknown).to_string(), text);
        let until = Refusal::new(reason, Retry::At(Timestamp::from_millis(1_500)));
        assert_eq!(
            until.to_string(),
            format!("{text}, until {} at least", Timestamp::from_millis(1_500))
        );
    }
}
