//! Snapshots as JSON.

use std::time::Duration;

use leaparray::array::Ledger;
use leaparray::metric::SecondMetrics;
use leaparray::node::{NodeSnapshot, SecondsCursor};
use leaparray::registry::{RegistryCursor, RegistrySnapshot, ResourceSecond};
use leaparray::{
    Clock, Entry, ManualClock, MetricTotals, NodeConfig, Registry, RegistryConfig, ResourceNode,
    Timestamp, TrafficType,
};
use serde_json::json;

#[test]
fn snapshot_is_written_with_its_names_and_read_back() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    clock.advance(Duration::from_secs(5));
    let (entry, _other) = (Entry::enter_many_at(&node, node.clock().now(), 2), node.enter());
    clock.advance(Duration::from_millis(7));
    entry.success();
    let snapshot = node.now().snapshot();
    let value = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(value["timestamp"], json!("65.007000000"));
    assert_eq!((&value["concurrency"], &value["reserved"]), (&json!(1), &json!(0)));
    let second = json!({
        "covered": "0.507000000",
        "interval": "1.000000000",
        "totals": {
            "pass": 3, "block": 0, "exception": 0, "success": 2, "reserved_pass": 0, "cancelled": 0,
            "rt_sum": "0.007000000", "rt_count": 1,
            "min_rt": "0.007000000", "max_rt": "0.007000000", "max_concurrency": 2,
        },
        "quantiles": null,
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
    let [quick, slow] = [(); 2].map(|()| node.enter());
    clock.advance(Duration::from_millis(2));
    quick.success();
    clock.advance(Duration::from_millis(5));
    slow.success();
    clock.advance(Duration::from_secs(2));
    let seconds: Vec<SecondMetrics> = node.now().poll_seconds(&cursor).collect();
    let value = serde_json::to_value(&seconds).unwrap();
    let rts = [&value[0]["rt_sum"], &value[0]["min_rt"], &value[0]["max_rt"]];
    assert_eq!(rts, ["0.009000000", "0.002000000", "0.007000000"]);
    assert_eq!((&value[0]["pass"], &value[0]["rt_count"]), (&json!(2), &json!(2)));
    assert_eq!(serde_json::from_value::<Vec<SecondMetrics>>(value).unwrap(), seconds);
    let ledger = node.now().long().ledger();
    let text = serde_json::to_string(&ledger).unwrap();
    assert_eq!(serde_json::from_str::<Ledger<MetricTotals>>(&text).unwrap(), ledger);
}

#[test]
fn registry_snapshot_is_written_with_its_names_and_read_back() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let registry = Registry::with_clock(RegistryConfig::default(), clock);
    let database = registry.resource_with("database", TrafficType::Outbound).unwrap();
    database.in_context("web").unwrap().enter().success();
    let snapshot = registry.now().snapshot();
    let value = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(value["timestamp"], "60.000000000");
    let [own, web] = [&value["resources"][0], &value["resources"][1]];
    assert_eq!((&own["name"], &own["context"]), (&json!("database"), &json!(null)));
    assert_eq!((&web["name"], &web["context"]), (&json!("database"), &json!("web")));
    assert_eq!(web["traffic_type"], "outbound");
    assert_eq!(web["snapshot"]["long"]["totals"]["success"], 1);
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<RegistrySnapshot>(&text).unwrap(), snapshot);
    let bytes = postcard::to_stdvec(&snapshot).unwrap();
    assert_eq!(postcard::from_bytes::<RegistrySnapshot>(&bytes).unwrap(), snapshot);
}

#[test]
fn seconds_of_a_registry_are_written_with_their_names_and_read_back() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let orders = registry.resource("orders").unwrap();
    orders.block();
    orders.in_context("web").unwrap().block_many_at(orders.clock().now(), 2);
    clock.advance(Duration::from_secs(1));
    let seconds = registry.now().poll_seconds(&RegistryCursor::new());
    let value = serde_json::to_value(&seconds).unwrap();
    assert_eq!((&value[0]["name"], &value[0]["context"]), (&json!("orders"), &json!(null)));
    assert_eq!(
        (&value[1]["context"], &value[1]["traffic_type"]),
        (&json!("web"), &json!("inbound"))
    );
    assert_eq!(value[1]["metrics"]["second"], "60.000000000");
    assert_eq!(value[1]["metrics"]["block"], 2);
    assert_eq!(serde_json::from_value::<Vec<ResourceSecond>>(value).unwrap(), seconds);
}
