//! The messages of refused configurations: each names the wrong value and what would be right.

use std::fmt::Debug;

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{CircuitConfig, Rate, WarmUpConfig};
use leaparray::registry::ResourceConfig;
use leaparray::{HistogramConfig, NodeConfig, RegistryConfig, WindowConfig};
use serde::de::DeserializeOwned;

/// Asserts that the text, in JSON, is refused with that message. The position that follows is the
/// parser's.
#[track_caller]
fn assert_refused<T: DeserializeOwned + Debug>(json: &str, expected: &str) {
    let message = serde_json::from_str::<T>(json).unwrap_err().to_string();
    assert_eq!(message.split(" at line ").next().unwrap(), expected);
}

#[test]
fn window_that_cannot_be_is_refused() {
    for (json, expected) in [
        (
            r#"{ "buckets": 0, "interval": "1s" }"#,
            "a window of 1s needs at least one sample, not 0",
        ),
        (
            r#"{ "buckets": 7, "interval": "1s" }"#,
            "1s does not divide into 7 samples of whole nanoseconds",
        ),
        (
            r#"{ "buckets": 10, "interval": "0s" }"#,
            "a window of 10 samples needs an interval above 0 ns",
        ),
        (
            r#"{ "buckets": 1048577, "interval": "1h" }"#,
            "1048577 samples are more than the 1048576 a window can have",
        ),
        (
            r#"{ "buckets": 1, "interval": "600 years" }"#,
            "an interval of 18934560000s is longer than the longest, 18446744073.709551615s",
        ),
        (r#"{ "buckets": -1, "interval": "1s" }"#, "invalid value: integer `-1`, expected usize"),
        (r#"{ "buckets": 10 }"#, "missing field `interval`"),
        (
            r#""1s""#,
            r#"invalid type: string "1s", expected a window such as { buckets = 10, interval = "1s" }"#,
        ),
    ] {
        assert_refused::<WindowConfig>(json, expected);
    }
}

#[test]
fn histogram_that_cannot_be_is_refused() {
    for (json, expected) in [
        (r#"{ "scale": 9 }"#, "scale 9 is not between 0 and 8"),
        (r#"{ "scale": -1 }"#, "invalid value: integer `-1`, expected u8"),
        (r#"{ "relative_error": 1.0 }"#, "a relative error of 1 is not above 0 and below 1"),
        (
            r#"{ "relative_error": 0.001 }"#,
            "a relative error of 0.001 is below 0.001354, the error of the finest scale, 8",
        ),
        (
            r#"{ "scale": 4, "relative_error": 0.02 }"#,
            "a histogram has `scale` or `relative_error`, not both",
        ),
        ("{}", "a histogram needs `scale` or `relative_error`"),
        (r#"{ "bins": 160 }"#, "unknown field `bins`, expected `scale` or `relative_error`"),
        (
            "4",
            "invalid type: integer `4`, expected a histogram such as { scale = 4 } or { relative_error = 0.02 }",
        ),
    ] {
        assert_refused::<HistogramConfig>(json, expected);
    }
    let error = postcard::from_bytes::<HistogramConfig>(&[9]).unwrap_err();
    assert_eq!(error, postcard::Error::SerdeDeCustom);
}

#[test]
fn text_that_is_no_duration_is_refused() {
    let form = r#"a duration as a string, such as "500ms" or "1m 30s""#;
    for (interval, expected) in [
        (
            r#""10""#,
            r#""10" is no duration such as "500ms" or "1m 30s": time unit needed, for example 10sec or 10ms"#,
        ),
        (r#""-1s""#, r#""-1s" is no duration such as "500ms" or "1m 30s": expected number at 0"#),
        (r#""""#, r#""" is no duration such as "500ms" or "1m 30s": value was empty"#),
        ("10", &format!("invalid type: integer `10`, expected {form}")),
        ("null", &format!("invalid type: null, expected {form}")),
    ] {
        let json = format!(r#"{{ "buckets": 10, "interval": {interval} }}"#);
        assert_refused::<WindowConfig>(&json, expected);
    }
}

#[test]
fn unknown_field_is_refused_with_the_fields_that_there_are() {
    assert_refused::<WindowConfig>(
        r#"{ "buckets": 10, "length": "1s" }"#,
        "unknown field `length`, expected `buckets` or `interval`",
    );
    assert_refused::<NodeConfig>(
        r#"{ "second": {} }"#,
        "unknown field `second`, expected one of `short`, `long`, `histogram`",
    );
    assert_refused::<RegistryConfig>(
        r#"{ "max_nodes": 1 }"#,
        "unknown field `max_nodes`, expected one of `node`, `max_resources`, `max_contexts`, `on_drop`",
    );
    assert_refused::<ResourceConfig>(
        r#"{ "traffic": "inbound" }"#,
        "unknown field `traffic`, expected one of `node`, `traffic_type`, `on_drop`",
    );
    assert_refused::<Rate>(
        r#"{ "permits": 1, "interval": "1s" }"#,
        "unknown field `interval`, expected `permits` or `per`",
    );
    assert_refused::<WarmUpConfig>(
        r#"{ "factor": 3.0 }"#,
        "unknown field `factor`, expected `period` or `cold_factor`",
    );
    assert_refused::<AdaptiveBreakerConfig>(
        r#"{ "K": 2.0 }"#,
        "unknown field `K`, expected one of `window`, `k`, `min_requests`, `probe_interval`, `recovery`, `on_drop`",
    );
}

#[test]
fn node_whose_windows_do_not_fit_is_refused() {
    for (json, expected) in [
        (
            r#"{ "short": { "buckets": 10, "interval": "1s" } }"#,
            "a view's buckets of 100ms are no multiple of the array's, 500ms",
        ),
        (
            r#"{ "short": { "buckets": 1, "interval": "7s" }, "long": { "buckets": 2, "interval": "14s" } }"#,
            "a second does not divide into buckets of 7s",
        ),
        (
            r#"{ "short": { "buckets": 0, "interval": "1s" } }"#,
            "a window of 1s needs at least one sample, not 0",
        ),
    ] {
        assert_refused::<NodeConfig>(json, expected);
    }
}

#[test]
fn rate_that_cannot_be_is_refused() {
    for (json, expected) in [
        (r#"{ "permits": 0, "per": "1s" }"#, "a rate needs at least one permit in 1s, not 0"),
        (r#"{ "permits": 5, "per": "0s" }"#, "a rate of 5 permits needs an interval above 0 ns"),
        (r#"{ "permits": 2, "per": "1ns" }"#, "2 permits in 1ns are more than one a nanosecond"),
        (r#"{ "permits": 5 }"#, "missing field `per`"),
        (
            "100",
            r#"invalid type: integer `100`, expected a rate such as { permits = 100, per = "1s" }"#,
        ),
    ] {
        assert_refused::<Rate>(json, expected);
    }
}

#[test]
fn warm_up_and_breaker_that_cannot_be_are_refused() {
    for (json, expected) in [
        (r#"{ "period": "0s" }"#, "to warm up by a cold factor of 3 takes more than 0 ns"),
        (r#"{ "cold_factor": 1.0 }"#, "a cold factor is a number above 1, not 1"),
    ] {
        assert_refused::<WarmUpConfig>(json, expected);
    }
    for (json, expected) in [
        (r#"{ "k": 0.5 }"#, "k is 0.5, but must be at least 1"),
        (r#"{ "probe_interval": "0s" }"#, "the probe interval is 0 ns, but must be longer"),
        (r#"{ "recovery": "0s" }"#, "the recovery takes 0 ns, but must take longer"),
        (
            r#"{ "window": { "buckets": 0, "interval": "1s" } }"#,
            "a window of 1s needs at least one sample, not 0",
        ),
    ] {
        assert_refused::<AdaptiveBreakerConfig>(json, expected);
    }
}

#[test]
fn circuit_breaker_that_cannot_be_is_refused() {
    for (json, expected) in [
        (
            r#"{ "window": { "buckets": 1, "interval": "1s" }, "last_calls": 9 }"#,
            "a breaker counts the calls of a window or the last 9 calls, not both",
        ),
        (
            r#"{ "window": { "buckets": 1, "interval": "2h" } }"#,
            "a breaker has a window of at most 3600s, not 7200s",
        ),
        (r#"{ "last_calls": 0 }"#, "a breaker counts the last 1 to 4000 calls, not 0"),
        (
            r#"{ "exception_ratio": { "at_least": 50.0 } }"#,
            "a share of at least 50 is no limit: it must be above 0 and at most 1",
        ),
        (
            r#"{ "exception_ratio": { "over": 0.5 } }"#,
            "unknown field `over`, expected `at_least` or `above`",
        ),
        (
            r#"{ "exception_ratio": { "above": 0.5, "at_least": 0.5 } }"#,
            "invalid length 2, expected a ratio such as { at_least = 0.5 } or { above = 0.5 }, or \"none\"",
        ),
        (
            r#"{ "exception_ratio": {} }"#,
            "invalid length 0, expected a ratio such as { at_least = 0.5 } or { above = 0.5 }, or \"none\"",
        ),
        (
            r#"{ "exception_ratio": "never" }"#,
            "invalid value: string \"never\", expected a ratio such as { at_least = 0.5 } or { above = 0.5 }, or \"none\"",
        ),
        (
            r#"{ "wait": { "first": "5s", "factor": 2.0, "max": "1s" } }"#,
            "the longest wait is 1s, but the first one is 5s",
        ),
        (
            r#"{ "wait": { "first": "1s", "factor": 2.0 } }"#,
            "a wait that grows by a factor of 2 needs `max`, the longest wait",
        ),
        (
            r#"{ "half_open_timeout": "0s" }"#,
            "a half-open breaker has a time-out of more than 0, or none",
        ),
        (
            r#"{ "half_open_timeout": "never" }"#,
            "\"never\" is no duration such as \"500ms\" or \"1m 30s\": expected number at 0",
        ),
        (r#"{ "probes": 0 }"#, "a breaker has 1 to 255 probes, not 0"),
        (r#"{ "slow": { "ratio": { "above": 0.5 } } }"#, "missing field `slow_above`"),
        (
            r#"{ "threshold": 0.5 }"#,
            "unknown field `threshold`, expected one of `window`, `last_calls`, `min_calls`, `exception_ratio`, `slow`, `exceptions`, `consecutive_exceptions`, `wait`, `probes`, `half_open_timeout`, `on_drop`",
        ),
    ] {
        assert_refused::<CircuitConfig>(json, expected);
    }
}

#[test]
fn other_direction_is_refused() {
    assert_refused::<ResourceConfig>(
        r#"{ "traffic_type": "Inbound" }"#,
        "unknown variant `Inbound`, expected `inbound` or `outbound`",
    );
}
