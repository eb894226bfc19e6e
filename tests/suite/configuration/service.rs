//! The configuration of a service, in TOML.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{Rate, WarmUpConfig};
use leaparray::registry::ResourceConfig;
use leaparray::{NodeConfig, RegistryConfig, TrafficType, WindowConfig};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    registry: RegistryConfig,
    resources: BTreeMap<String, ResourceConfig>,
    limit: Limit,
    pace: Rate,
    warm_up: WarmUpConfig,
    breaker: AdaptiveBreakerConfig,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    window: WindowConfig,
    requests: u64,
}

const FILE: &str = r#"
pace = { permits = 200, per = "1s" }
warm_up = { period = "30s" }

[registry]
max_resources = 1_000

[registry.node]
short = { buckets = 10, interval = "1s" }
long = { buckets = 600, interval = "1m" }

[resources."GET /orders"]

[resources.database]
traffic_type = "outbound"
node.long = { buckets = 600, interval = "5m" }

[limit]
window = { buckets = 10, interval = "1s" }
requests = 300

[breaker]
k = 2
window = { buckets = 60, interval = "1m 30s" }
"#;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn service() -> Service {
    let window = |buckets, interval| WindowConfig::new(buckets, interval).unwrap();
    let second = window(10, millis(1_000));
    let node = NodeConfig::new(second, window(600, millis(60_000))).unwrap();
    let long = window(600, millis(300_000));
    let database = NodeConfig::new(*NodeConfig::default().short(), long).unwrap();
    let resources = [
        ("GET /orders".to_owned(), ResourceConfig::default()),
        ("database".to_owned(), ResourceConfig::from(TrafficType::Outbound).node(database)),
    ];
    Service {
        registry: RegistryConfig::default().max_resources(1_000).node(node),
        resources: resources.into(),
        limit: Limit { window: second, requests: 300 },
        pace: Rate::per_second(200).unwrap(),
        warm_up: WarmUpConfig::new(millis(30_000), 3.0).unwrap(),
        breaker: AdaptiveBreakerConfig::default()
            .window(window(60, millis(90_000)))
            .k(2.0)
            .unwrap(),
    }
}

#[test]
fn service_is_read_and_written() {
    let read: Service = toml::from_str(FILE).unwrap();
    assert_eq!(read, service());
    let text = toml::to_string(&read).unwrap();
    assert_eq!(toml::from_str::<Service>(&text).unwrap(), read, "{text}");
}

#[test]
fn mistake_in_the_file_is_told_with_its_line() {
    let message = |from: &str, to: &str| {
        assert!(FILE.contains(from));
        toml::from_str::<Service>(&FILE.replacen(from, to, 1)).unwrap_err().to_string()
    };
    for (from, to, line, expected) in [
        (
            "per = \"1s\"",
            "per = 1",
            "line 2",
            "invalid type: integer `1`, expected a duration as a string, such as \"500ms\" or \"1m 30s\"",
        ),
        ("permits = 200", "permits = 0", "line 2", "a rate needs at least one permit in 1s, not 0"),
        ("k = 2", "k = nan", "line 22", "k is NaN, but must be a finite number of at least 1"),
        (
            "buckets = 60,",
            "buckets = 7,",
            "line 24",
            "90s does not divide into 7 samples of whole nanoseconds",
        ),
        (
            "max_resources",
            "max_resource",
            "line 6",
            "unknown field `max_resource`, expected one of",
        ),
    ] {
        let message = message(from, to);
        assert!(message.contains(line) && message.contains(expected), "{message}");
    }
}
