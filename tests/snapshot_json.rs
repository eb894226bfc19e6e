//! Snapshots as JSON.
#![cfg(feature = "serde")]

use std::time::Duration;

use leaparray::{
    Ledger, ManualClock, MetricTotals, NodeConfig, NodeSnapshot, ResourceNode, SecondMetrics,
    SecondsCursor, Timestamp,
};
use serde_json::json;

#[test]
fn snapshot_is_written_with_its_names_and_read_back() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    clock.advance(Duration::from_secs(5));
    let (entry, _other) = (node.enter_many(2), node.enter());
    clock.advance(Duration::from_millis(7));
    entry.success();
    let snapshot = node.snapshot();
    let value = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(value["timestamp"], json!(65_007_000_000_u64));
    assert_eq!((&value["concurrency"], &value["reserved"]), (&json!(1), &json!(0)));
    let second = json!({
        "covered_nanos": 507_000_000,
        "interval_nanos": 1_000_000_000,
        "totals": {
            "pass": 3, "block": 0, "exception": 0, "success": 2, "reserved_pass": 0, "cancelled": 0,
            "rt_sum_nanos": 7_000_000, "rt_count": 1,
            "min_rt_nanos": 7_000_000, "max_rt_nanos": 7_000_000, "max_concurrency": 2,
        },
    });
    assert_eq!(value["short"], second);
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<NodeSnapshot>(&text).unwrap(), snapshot);
}

#[test]
fn second_and_ledger_are_written_and_read_back() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let cursor = SecondsCursor::new();
    let entry = node.enter();
    clock.advance(Duration::from_millis(7));
    entry.success();
    clock.advance(Duration::from_secs(2));
    let seconds: Vec<SecondMetrics> = node.poll_seconds(&cursor).collect();
    let value = serde_json::to_value(&seconds).unwrap();
    assert_eq!((&value[0]["pass"], &value[0]["avg_rt_nanos"]), (&json!(1), &json!(7_000_000)));
    assert_eq!(serde_json::from_value::<Vec<SecondMetrics>>(value).unwrap(), seconds);
    let ledger = node.ledger();
    let text = serde_json::to_string(&ledger).unwrap();
    assert_eq!(serde_json::from_str::<Ledger<MetricTotals>>(&text).unwrap(), ledger);
}
