//! The resources, and the tree of them.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use crate::service::Service;

async fn nodes(service: &Service, path: &str) -> Vec<Value> {
    let (status, json) = service.get(path).await;
    assert_eq!(status, 200, "{json}");
    serde_json::from_str(&json).unwrap()
}

fn record(service: &Service) {
    let orders = service.registry.resource("orders").unwrap();
    let web = orders.in_context("web").unwrap();
    for node in [&orders, &web, &web] {
        let entry = node.enter();
        service.clock.advance(Duration::from_millis(10));
        entry.success();
    }
    orders.block();
    service.registry.resource("pay").unwrap().in_context("web").unwrap().enter().exception();
    service.registry.resource("idle").unwrap();
}

#[tokio::test]
async fn resources_are_listed_with_all_their_contexts() {
    let service = Service::new();
    record(&service);
    let all = nodes(&service, "/clusterNode").await;
    let names: Vec<_> = all.iter().map(|it| it["resource"].as_str().unwrap()).collect();
    assert_eq!(names, ["idle", "orders", "pay"]);
    let used = nodes(&service, "/clusterNode?type=notZero").await;
    assert_eq!(used, all[1..]);
    assert_eq!(nodes(&service, "/clusterNode?type=NOTZERO").await, used);
    assert_eq!(nodes(&service, "/clusterNode?type=zero").await, all, "as a dashboard asks");
    let (_, one) = service.get("/clusterNodeById?id=orders").await;
    assert_eq!(
        one,
        "{\"averageRt\":10,\"blockQps\":1,\"exceptionQps\":0,\"oneMinuteBlock\":1,\
         \"oneMinuteException\":0,\"oneMinutePass\":3,\"oneMinuteTotal\":4,\"passQps\":3,\
         \"resource\":\"orders\",\"successQps\":3,\"threadNum\":0,\"timestamp\":1795845600030,\
         \"totalQps\":4}"
    );
    assert_eq!(used[1]["successQps"], 1, "an exception is a request that completed");
    assert_eq!(used[1]["exceptionQps"], 1);
    service.pass(1_000);
    let later = nodes(&service, "/clusterNode?type=notZero").await;
    assert_eq!((&later[0]["passQps"], &later[0]["oneMinutePass"]), (&0.into(), &3.into()));
}

#[tokio::test]
async fn parents_come_before_their_children() {
    let service = Service::new();
    record(&service);
    let tree = nodes(&service, "/jsonTree?type=root").await;
    let mut known: HashMap<&str, &str> = HashMap::new();
    let mut pairs = Vec::new();
    for node in &tree {
        let name = node["resource"].as_str().unwrap();
        let parent = node.get("parentId").map(|it| known[it.as_str().unwrap()]);
        pairs.push((parent, name, node["passQps"].as_u64().unwrap()));
        assert!(known.insert(node["id"].as_str().unwrap(), name).is_none());
    }
    assert_eq!(
        pairs,
        [
            (None, "machine-root", 4),
            (Some("machine-root"), "sentinel_default_context", 1),
            (Some("sentinel_default_context"), "idle", 0),
            (Some("sentinel_default_context"), "orders", 1),
            (Some("machine-root"), "web", 3),
            (Some("web"), "orders", 2),
            (Some("web"), "pay", 1),
        ]
    );
}

#[tokio::test]
async fn service_without_resources_has_a_root() {
    let tree = nodes(&Service::new(), "/jsonTree").await;
    assert_eq!(tree.len(), 1);
    assert_eq!((&tree[0]["resource"], &tree[0]["id"]), (&"machine-root".into(), &"0".into()));
    assert!(tree[0].get("parentId").is_none());
}
