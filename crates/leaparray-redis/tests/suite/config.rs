//! The parameters of a limit and its keys: what is allowed, and what an error says.

use std::time::Duration;

use leaparray_redis::lease::{LeaseConfig, LeaseConfigError, LeaseKeys, LeaseNameError};

const SECOND: Duration = Duration::from_secs(1);

fn config() -> LeaseConfig {
    LeaseConfig::of_buckets(100, 10, SECOND).expect("valid")
}

/// Checks an error and its message.
fn refuses(result: Result<LeaseConfig, LeaseConfigError>, error: LeaseConfigError, message: &str) {
    assert_eq!(result, Err(error));
    assert_eq!(error.to_string(), message);
}

#[test]
fn limit_is_from_1_to_2_to_the_40() {
    let max = LeaseConfig::MAX_LIMIT;
    for limit in [1, max] {
        assert_eq!(LeaseConfig::of_buckets(limit, 1, SECOND).map(|it| it.limit()), Ok(limit));
    }
    refuses(
        LeaseConfig::of_buckets(0, 1, SECOND),
        LeaseConfigError::Limit { limit: 0, max },
        "a limit is from 1 to 1099511627776 permits, not 0",
    );
    refuses(
        LeaseConfig::of_buckets(max + 1, 1, SECOND),
        LeaseConfigError::Limit { limit: max + 1, max },
        "a limit is from 1 to 1099511627776 permits, not 1099511627777",
    );
}

#[test]
fn window_has_from_1_to_256_buckets() {
    let max = LeaseConfig::MAX_BUCKETS;
    for buckets in [1, max] {
        let interval = Duration::from_millis(buckets.into());
        assert_eq!(
            LeaseConfig::of_buckets(1, buckets, interval).map(|it| it.buckets()),
            Ok(buckets)
        );
    }
    refuses(
        LeaseConfig::of_buckets(1, 0, SECOND),
        LeaseConfigError::Buckets { buckets: 0, max },
        "a window has from 1 to 256 buckets, not 0",
    );
    refuses(
        LeaseConfig::of_buckets(1, max + 1, SECOND),
        LeaseConfigError::Buckets { buckets: max + 1, max },
        "a window has from 1 to 256 buckets, not 257",
    );
}

#[test]
fn bucket_is_of_whole_microseconds_and_at_most_a_day() {
    let day = LeaseConfig::MAX_BUCKET_LEN;
    for (buckets, interval) in [
        (2, Duration::from_millis(2)),
        (2, day * 2),
        (256, day * 256),
        (3, SECOND * 3),
        (2, Duration::from_millis(3)),
    ] {
        let config = LeaseConfig::of_buckets(1, buckets, interval).expect("valid");
        assert_eq!(config.bucket_len() * buckets, interval);
        assert_eq!(u128::from(config.bucket_micros()), config.bucket_len().as_micros());
    }
    let refused = [
        (2, Duration::ZERO),
        (2, Duration::from_millis(1)),
        (2, Duration::from_micros(2_001)),
        (1, Duration::from_micros(999)),
        (1, Duration::from_nanos(1_000_001)),
        (1, day + Duration::from_millis(1)),
        (256, Duration::MAX),
    ];
    for (buckets, interval) in refused {
        let error = LeaseConfigError::Interval { buckets, interval };
        assert_eq!(LeaseConfig::of_buckets(1, buckets, interval), Err(error));
    }
    refuses(
        LeaseConfig::of_buckets(1, 7, SECOND),
        LeaseConfigError::Interval { buckets: 7, interval: SECOND },
        "interval 1s does not divide into 7 buckets of whole microseconds, from 1 ms to a day each",
    );
}

#[test]
fn validity_is_from_1_to_256_buckets() {
    let max = LeaseConfig::MAX_VALIDITY;
    for validity in [1, max] {
        let config = config().with_validity(validity).expect("valid");
        assert_eq!(config.validity(), validity);
    }
    refuses(
        config().with_validity(0),
        LeaseConfigError::Validity { validity: 0, max },
        "a lease is valid for 1 to 256 buckets, not 0",
    );
    refuses(
        config().with_validity(max + 1),
        LeaseConfigError::Validity { validity: max + 1, max },
        "a lease is valid for 1 to 256 buckets, not 257",
    );
}

#[test]
fn gap_is_at_most_a_lease() {
    let max = Duration::from_millis(600);
    for gap in [Duration::ZERO, Duration::from_micros(1), max] {
        assert_eq!(config().with_min_gap(gap).map(|it| it.min_gap()), Ok(gap));
    }
    let min_gap = max + Duration::from_micros(1);
    refuses(
        config().with_min_gap(min_gap),
        LeaseConfigError::MinGap { min_gap, max },
        "600.001ms between two asks is longer than a lease, 600ms",
    );
    assert!(config().with_min_gap(Duration::MAX).is_err());
    // Whole microseconds: the rest is cut off.
    let gap = config().with_min_gap(Duration::from_nanos(1_999)).map(|it| it.min_gap());
    assert_eq!(gap, Ok(Duration::from_micros(1)));
}

/// A setting that follows breaks none that was checked before.
#[test]
fn gap_stays_at_most_a_lease_when_the_validity_is_lowered() {
    let gap = |validity| config().with_validity(validity).map(|it| it.min_gap());
    assert_eq!(gap(4), Ok(Duration::from_millis(400)));
    assert_eq!(gap(3), Ok(Duration::from_millis(200)));
    assert_eq!(gap(1), Ok(Duration::from_micros(66_666)));
}

#[test]
fn drift_is_at_most_a_tenth() {
    let max = LeaseConfig::MAX_DRIFT_PPM;
    for drift_ppm in [0, max] {
        assert_eq!(config().with_drift_ppm(drift_ppm).map(|it| it.drift_ppm()), Ok(drift_ppm));
    }
    refuses(
        config().with_drift_ppm(max + 1),
        LeaseConfigError::Drift { drift_ppm: max + 1, max },
        "the rates of two clocks may differ by up to 100000 ppm, not 100001",
    );
}

#[test]
fn settings_have_defaults() {
    let defaults = |buckets, millis| {
        let config =
            LeaseConfig::of_buckets(1, buckets, Duration::from_millis(millis)).expect("valid");
        assert_eq!(config.drift_ppm(), 1_000);
        (config.validity(), config.min_gap())
    };
    assert_eq!(defaults(10, 1_000), (6, Duration::from_millis(400)));
    // At most two thirds of the validity, and at most a second.
    assert_eq!(defaults(3, 300), (3, Duration::from_millis(200)));
    assert_eq!(defaults(1, 1), (1, Duration::from_micros(666)));
    assert_eq!(defaults(60, 60_000), (6, SECOND));
}

#[test]
fn quarantine_and_retention_follow_from_the_window_and_the_validity() {
    let config = config();
    assert_eq!(config.quarantine(), Duration::from_millis(1_700));
    assert_eq!(config.retention(), Duration::from_millis(1_800));
    let config = config.with_validity(1).expect("valid");
    assert_eq!(config.quarantine(), Duration::from_millis(1_200));
    let day = LeaseConfig::MAX_BUCKET_LEN;
    let longest = LeaseConfig::of_buckets(1, 256, day * 256).expect("valid");
    let longest = longest.with_validity(256).expect("valid");
    assert_eq!(longest.retention(), day * 514);
}

#[test]
fn keys_of_a_limit_share_a_hash_tag() {
    let keys = LeaseKeys::new("orders", &config()).expect("valid");
    assert_eq!(keys.mark(), "leaparray:{orders:10:100000:6}:mark");
    assert_eq!(keys.charges(), "leaparray:{orders:10:100000:6}:charges");
    assert_eq!(keys.node(u64::MAX), "leaparray:{orders:10:100000:6}:node:18446744073709551615");
}

/// Nodes that disagree on the buckets or the validity do not share a limit. The others may differ,
/// as during a deployment.
#[test]
fn keys_differ_if_the_buckets_or_the_validity_do() {
    let key = |config: LeaseConfig| LeaseKeys::new("a", &config).expect("valid").mark();
    let same = key(config());
    assert_ne!(key(LeaseConfig::of_buckets(100, 5, SECOND).expect("valid")), same);
    assert_ne!(key(LeaseConfig::of_buckets(100, 10, SECOND * 2).expect("valid")), same);
    assert_ne!(key(config().with_validity(5).expect("valid")), same);
    assert_eq!(key(LeaseConfig::of_buckets(200, 10, SECOND).expect("valid")), same);
    assert_eq!(key(config().with_min_gap(Duration::ZERO).expect("valid")), same);
    assert_eq!(key(config().with_drift_ppm(0).expect("valid")), same);
}

/// Names and numbers are never read as each other: a name with colons is another limit.
#[test]
fn keys_of_two_names_differ() {
    let mark = |name: &str| LeaseKeys::new(name, &config()).expect("valid").mark();
    assert_ne!(mark("a"), mark("a:10:100000:6"));
    assert_eq!(mark("ein Limit: größer"), "leaparray:{ein Limit: größer:10:100000:6}:mark");
}

#[test]
fn name_is_from_1_to_256_bytes_without_braces() {
    let max = LeaseKeys::MAX_NAME_LEN;
    let error = |name: &str| LeaseKeys::new(name, &config()).expect_err("refused");
    for name in ["a", &"a".repeat(max), &"ö".repeat(max / 2)] {
        assert!(LeaseKeys::new(name, &config()).is_ok());
    }
    for (name, len) in [("", 0), (&*"a".repeat(max + 1), 257), (&"ö".repeat(129), 258)] {
        assert_eq!(error(name), LeaseNameError::Length { len, max });
        let message = format!("the name of a limit or a fleet has from 1 to 256 bytes, not {len}");
        assert_eq!(error(name).to_string(), message);
    }
    for (name, at) in [("{", 0), ("ab}", 2), ("ö{a}", 2)] {
        assert_eq!(error(name), LeaseNameError::Brace { at });
        let message = format!(
            "the name of a limit or a fleet has a brace at byte {at}, which would end its hash tag"
        );
        assert_eq!(error(name).to_string(), message);
    }
}

/// A limit in any interval: a window of at least one bucket more than the interval has.
#[test]
fn window_of_any_interval_has_a_bucket_more() {
    for (interval, buckets, micros, validity, gap) in [
        (SECOND, 51, 20_000, 30, 400),
        (SECOND * 60, 51, 1_200_000, 6, 1_000),
        (Duration::from_millis(75), 51, 1_500, 30, 30),
        (Duration::from_millis(10), 11, 1_000, 6, 4),
        (Duration::from_millis(1), 2, 1_000, 2, 1),
        (Duration::from_nanos(1_000_001), 3, 1_000, 3, 2),
    ] {
        let config = LeaseConfig::new(100, interval).expect("valid");
        assert_eq!((config.buckets(), config.bucket_micros()), (buckets, micros), "{interval:?}");
        assert!(config.bucket_len() * (buckets - 1) >= config.interval(), "{interval:?}");
        assert!(config.interval() >= interval);
        assert_eq!(config.validity(), validity, "{interval:?}");
        assert_eq!(config.min_gap().as_millis(), gap, "{interval:?}");
    }
    assert_eq!(config().interval(), SECOND);
    let long = LeaseConfig::MAX_BUCKET_LEN * 50;
    assert!(LeaseConfig::new(1, long).is_ok());
    for interval in [Duration::ZERO, Duration::from_micros(999), long + SECOND, Duration::MAX] {
        let error = LeaseConfigError::AnyInterval { interval };
        assert_eq!(LeaseConfig::new(1, interval), Err(error));
    }
    refuses(
        LeaseConfig::new(1, Duration::ZERO),
        LeaseConfigError::AnyInterval { interval: Duration::ZERO },
        "a limit holds in any interval of 1 ms to 50 days, not of 0ns",
    );
    let max = LeaseConfig::MAX_LIMIT;
    refuses(
        LeaseConfig::new(0, SECOND),
        LeaseConfigError::Limit { limit: 0, max },
        "a limit is from 1 to 1099511627776 permits, not 0",
    );
}
