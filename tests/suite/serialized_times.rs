//! Times in serialized data: strings of seconds in JSON, integers of nanoseconds in a binary
//! format.

use std::fmt::Debug;
use std::time::Duration;

use leaparray::array::{Bucket, Ledger};
use leaparray::metric::{MetricBucket, SecondMetrics};
use leaparray::node::NodeSnapshot;
use leaparray::window::BucketTotals;
use leaparray::{
    ManualClock, MetricEvent, MetricTotals, NodeConfig, ResourceNode, SlidingWindow, Timestamp,
    WindowConfig,
};
use serde::de::value::I64Deserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A time of day whose number of nanoseconds is above 2⁵³, and odd.
const TODAY: Timestamp = Timestamp::from_nanos(1_540_629_334_619_000_001);

/// Totals whose sum of response times is above `u64::MAX` nanoseconds.
fn large_totals() -> MetricTotals {
    let bucket = MetricBucket::default();
    bucket.record_rt(Duration::MAX);
    let mut totals = MetricTotals::default();
    (0..8).for_each(|_| totals += &bucket.total());
    assert!(totals.rt_sum().as_nanos() > u64::MAX.into());
    totals
}

fn snapshot() -> NodeSnapshot {
    let clock = ManualClock::new(TODAY);
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let _in_flight = node.enter();
    let entry = node.enter();
    clock.advance(Duration::from_nanos(7_000_001));
    entry.success();
    node.now().snapshot()
}

fn json_message<T: DeserializeOwned + Debug>(text: &str) -> String {
    serde_json::from_str::<T>(text).unwrap_err().to_string()
}

#[track_caller]
fn assert_round_trips<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let bytes = postcard::to_stdvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
}

#[test]
fn timestamp_in_json_is_a_string_of_seconds() {
    assert_eq!(serde_json::to_string(&TODAY).unwrap(), "\"1540629334.619000001\"");
    assert_eq!(serde_json::to_string(&Timestamp::MAX).unwrap(), "\"18446744073.709551615\"");
}

#[test]
fn timestamp_is_read_from_seconds_as_text_and_from_nanoseconds_as_a_number() {
    let read = |text| serde_json::from_str::<Timestamp>(text).unwrap();
    assert_eq!(read("\"1540629334.619000001\""), TODAY);
    assert_eq!(read("\"1540629334.619\""), Timestamp::from_millis(1_540_629_334_619));
    assert_eq!(read("\"1540629334\""), Timestamp::from_secs(1_540_629_334));
    assert_eq!(read("1540629334619000001"), TODAY);
    assert_eq!(read("18446744073709551615"), Timestamp::MAX);
    // Some formats, such as TOML, have signed integers only.
    let signed: I64Deserializer<serde::de::value::Error> = 60_000_000_000_i64.into_deserializer();
    assert_eq!(Timestamp::deserialize(signed), Ok(Timestamp::from_secs(60)));
    // Also without a string to borrow from.
    assert_eq!(serde_json::from_value::<Timestamp>(json!("0.000000001")).unwrap().as_nanos(), 1);
}

#[test]
fn refused_timestamp_is_told_with_what_would_be_right() {
    let form = "a string of seconds with at most nine decimals, such as \"0.025\", or an integer of nanoseconds";
    for (text, expected) in [
        ("\"-1\"", "\"-1\" is no time: write seconds with at most nine decimals"),
        ("\"+1\"", "\"+1\" is no time: write seconds with at most nine decimals"),
        ("\"1.0000000000\"", "\"1.0000000000\" has more than nine decimals"),
        ("\"18446744073.709551616\"", "is above the largest time, 18446744073.709551615"),
        ("-1", &format!("invalid value: integer `-1`, expected {form}")),
        ("1.5", &format!("invalid type: floating point `1.5`, expected {form}")),
        // One above the largest time: JSON numbers of that size are floating-point numbers.
        ("18446744073709551616", &format!("expected {form}")),
        ("null", &format!("invalid type: null, expected {form}")),
    ] {
        let message = json_message::<Timestamp>(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn times_of_totals_are_exact_strings() {
    let value = serde_json::to_value(large_totals()).unwrap();
    // 2⁶² ns, eight times.
    assert_eq!(value["rt_sum"], "36893488147.419103232");
    assert_eq!(
        (&value["min_rt"], &value["max_rt"]),
        (&json!("4611686018.427387904"), &value["min_rt"])
    );
    let none = serde_json::to_value(MetricTotals::default()).unwrap();
    assert_eq!((&none["rt_sum"], &none["min_rt"]), (&json!("0.000000000"), &json!(null)));
}

#[test]
fn refused_sum_is_told_with_what_would_be_right() {
    let mut value = serde_json::to_value(large_totals()).unwrap();
    for sum in ["340282366920938463463374607431.768211456", "-1", "1.0000000000"] {
        value["rt_sum"] = json!(sum);
        assert_eq!(
            json_message::<MetricTotals>(&value.to_string()).split(" at line").next().unwrap(),
            format!(
                "invalid value: string {sum:?}, expected a string of seconds with at most nine decimals, \
                 such as \"0.025\", or an integer of nanoseconds"
            ),
        );
    }
    value["rt_sum"] = json!("340282366920938463463374607431.768211455");
    let totals = serde_json::from_value::<MetricTotals>(value).unwrap();
    assert_eq!(totals.rt_sum(), Duration::MAX);
}

#[test]
fn durations_of_snapshots_and_seconds_are_exact_strings() {
    let value = serde_json::to_value(snapshot()).unwrap();
    assert_eq!(value["timestamp"], "1540629334.626000002");
    assert_eq!(value["short"]["covered"], "0.050000000");
    assert_eq!(value["short"]["totals"]["rt_sum"], "0.007000001");

    let mut second = SecondMetrics::new(TODAY);
    let value = serde_json::to_value(&second).unwrap();
    assert_eq!((&value["rt_sum"], &value["min_rt"]), (&json!("0.000000000"), &json!(null)));
    // An `f64` cannot hold these numbers of nanoseconds.
    second.counts.set_rt_sum(Duration::MAX);
    (second.counts[MetricEvent::Rt], second.min_rt) =
        (3, Some(Duration::from_nanos((1 << 53) + 1)));
    let value = serde_json::to_value(&second).unwrap();
    assert_eq!(
        (&value["second"], &value["min_rt"], &value["rt_count"]),
        (&json!("1540629334.619000001"), &json!("9007199.254740993"), &json!(3))
    );
    assert_eq!(value["rt_sum"], "18446744073709551615.999999999");
}

#[test]
fn time_in_a_binary_format_is_an_integer_of_nanoseconds() {
    let of = |nanos: u64| postcard::to_stdvec(&nanos).unwrap();
    assert_eq!(postcard::to_stdvec(&TODAY).unwrap(), of(TODAY.as_nanos()));
    let mut second = SecondMetrics::new(Timestamp::from_nanos(1));
    second.counts[MetricEvent::Rt] = 2;
    second.counts.set_rt_sum(Duration::from_nanos(100));
    (second.min_rt, second.max_rt) = (Some(Duration::from_nanos(40)), None);
    let counts = MetricEvent::ALL.iter().map(|event| if *event == MetricEvent::Rt { 2 } else { 0 });
    let counts: Vec<u8> = counts.collect();
    let expected = [&[1][..], &counts, &[100], &[1, 40], &[0], &[0], &[0]].concat();
    assert_eq!(postcard::to_stdvec(&second).unwrap(), expected);
}

#[test]
fn plain_data_is_read_back_from_binary_and_json() {
    assert_round_trips(&[Timestamp::MIN, TODAY, Timestamp::MAX]);
    assert_round_trips(&snapshot());
    assert_round_trips(&MetricTotals::default());
    assert_round_trips(&large_totals());
    let mut second = SecondMetrics::new(TODAY);
    assert_round_trips(&second);
    second.counts[MetricEvent::Rt] = 1 << 40;
    second.counts.set_rt_sum(Duration::MAX);
    (second.min_rt, second.max_rt) = (Some(Duration::ZERO), Some(Duration::from_nanos(u64::MAX)));
    assert_round_trips(&second);
    let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(1)).unwrap());
    window.record_success_at(TODAY, Duration::from_nanos(25));
    window.record_success_at(Timestamp::from_secs(2_000_000_000), Duration::MAX);
    let ledger: Ledger<MetricTotals> = window.at(Timestamp::from_secs(2_000_000_000)).ledger();
    assert_round_trips(&ledger);
    let buckets: Vec<BucketTotals> =
        window.at(Timestamp::from_secs(2_000_000_000)).buckets().collect();
    assert!(!buckets.is_empty());
    assert_round_trips(&buckets);
}
