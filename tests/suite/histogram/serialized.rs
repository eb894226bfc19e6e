//! Histograms and quantiles in JSON and in a binary format.

use std::time::Duration;

use leaparray::histogram::LatencyQuantiles;
use leaparray::{HistogramConfig, LatencyHistogram};
use serde_json::{Value, json};

fn histogram(scale: u8, nanos: &[u64]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(scale).unwrap());
    for &nanos in nanos {
        histogram.record(Duration::from_nanos(nanos));
    }
    histogram
}

#[track_caller]
fn assert_round_trips(histogram: &LatencyHistogram) {
    let text = serde_json::to_string(histogram).unwrap();
    assert_eq!(&serde_json::from_str::<LatencyHistogram>(&text).unwrap(), histogram);
    let bytes = postcard::to_stdvec(histogram).unwrap();
    assert_eq!(&postcard::from_bytes::<LatencyHistogram>(&bytes).unwrap(), histogram);
}

#[test]
fn histogram_is_its_buckets_and_its_exact_times() {
    let histogram = histogram(0, &[600_000_000, 900_000_001, 4_000_000_001]);
    let form = json!({
        "scale": 0,
        "sum": "5.500000002",
        "min": "0.600000000",
        "max": "4.000000001",
        "buckets": [[-1, 2], [2, 1]],
    });
    assert_eq!(serde_json::to_value(&histogram).unwrap(), form);
    assert_round_trips(&histogram);
}

#[test]
fn each_histogram_is_read_back_exactly() {
    for scale in 0..=8 {
        assert_round_trips(&histogram(scale, &[]));
        assert_round_trips(&histogram(scale, &[0]));
        let ends = histogram(scale, &[0, 1, 1_000_000_000, 1_000_000_001, 1 << 62]);
        assert_round_trips(&ends);
        assert_round_trips(&ends.downscaled(-1).unwrap());
        assert_round_trips(&ends.downscaled(-10).unwrap());
    }
    let mut full = histogram(4, &[]);
    (0..20).for_each(|_| full.record_many(Duration::MAX, u64::MAX));
    assert_round_trips(&full);
}

/// Asserts that a histogram with one changed field is refused with that message.
#[track_caller]
fn assert_refused(field: &str, value: Value, expected: &str) {
    let mut form = serde_json::to_value(histogram(0, &[600_000_000, 4_000_000_001])).unwrap();
    form[field] = value;
    let message = serde_json::from_value::<LatencyHistogram>(form).unwrap_err().to_string();
    assert_eq!(message, expected);
}

#[test]
fn form_of_no_histogram_is_refused() {
    for scale in [-11, 9] {
        let message = format!("scale {scale} is not between -10 and 8");
        assert_refused("scale", json!(scale), &message);
    }
    for (buckets, message) in [
        (json!([[-31, 1], [2, 1]]), "bucket -31 is not between -30 and 32"),
        (json!([[-1, 1], [33, 1]]), "bucket 33 is not between -30 and 32"),
        (json!([[-1, 1], [i32::MAX, 1]]), "bucket 2147483647 is not between -30 and 32"),
        (json!([[-1, 1], [0, 0], [2, 1]]), "bucket 0 is empty, and should be left out"),
        (json!([[-1, 1], [2, 1], [2, 1]]), "bucket 2 is not after the one before it"),
        (json!([[-1, 1], [2, 1], [0, 1]]), "bucket 0 is not after the one before it"),
        (json!([[0, 1], [2, 1]]), "`min`, 600000000 ns, is not in bucket 0"),
        (json!([[-1, 1], [1, 1]]), "`max`, 4000000001 ns, is not in bucket 1"),
        (json!([]), "without a bucket, `sum` is 0 and there is no `min` and no `max`"),
    ] {
        assert_refused("buckets", buckets, message);
    }
    for field in ["min", "max"] {
        assert_refused(field, json!(null), "with a bucket, `min` and `max` are needed");
    }
    assert_refused("min", json!("5.0"), "`min`, 5000000000 ns, is not in bucket -1");
    let long = json!("4611686018.427387905");
    assert_refused("max", long, "`max`, 4611686018427387905 ns, is not in bucket 2");
    let expected = "unknown field `count`, expected one of `scale`, `sum`, `min`, `max`, `buckets`";
    assert_refused("count", json!(2), expected);
}

#[test]
fn bucket_without_a_whole_nanosecond_is_refused() {
    // At scale 8, bin −7654 contains 1 ns, and bin −7600 ends at 1.16 ns.
    let form = json!({
        "scale": 8, "sum": 4, "min": 1, "max": 3,
        "buckets": [[-7654, 1], [-7600, 1], [-7249, 1]],
    });
    let message = serde_json::from_value::<LatencyHistogram>(form).unwrap_err().to_string();
    assert_eq!(message, "bucket -7600 contains no whole nanosecond");
}

#[test]
fn minimum_above_the_maximum_is_refused() {
    let form = json!({ "scale": 0, "sum": 2, "min": "0.9", "max": "0.6", "buckets": [[-1, 2]] });
    let message = serde_json::from_value::<LatencyHistogram>(form).unwrap_err().to_string();
    assert_eq!(message, "`min`, 900000000 ns, is above `max`, 600000000 ns");
}

#[test]
fn sum_without_a_bucket_is_refused() {
    let form = json!({ "scale": 0, "sum": 2, "buckets": [] });
    let message = serde_json::from_value::<LatencyHistogram>(form).unwrap_err().to_string();
    assert_eq!(message, "without a bucket, `sum` is 0 and there is no `min` and no `max`");
    let empty = json!({ "scale": 4, "sum": 0, "buckets": [] });
    let empty = serde_json::from_value::<LatencyHistogram>(empty).unwrap();
    assert_eq!(empty, LatencyHistogram::default());
}

#[test]
fn quantiles_are_strings_of_seconds() {
    let summary = histogram(4, &[1_500_000_000]).summary().unwrap();
    let text = "1.500000000";
    let form = json!({ "p50": text, "p90": text, "p99": text, "p999": text });
    assert_eq!(serde_json::to_value(summary).unwrap(), form);
    assert_eq!(serde_json::from_value::<LatencyQuantiles>(form).unwrap(), summary);
    let bytes = postcard::to_stdvec(&summary).unwrap();
    assert_eq!(postcard::from_bytes::<LatencyQuantiles>(&bytes).unwrap(), summary);
}
