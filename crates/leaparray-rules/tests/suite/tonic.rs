//! The rules in the layer of a server of tonic, asked by a client of tonic over loopback.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{RuleSet, Rules};
use leaparray_tower::{GrpcMethod, ResourceLayer};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const CHECK: &str = "grpc.health.v1.Health/Check";

/// Starts a server whose requests the rules decide, and returns a client of it.
async fn start(rules: &Rules<ManualClock>) -> HealthClient<Channel> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let layer = ResourceLayer::new(Arc::clone(rules.registry()), GrpcMethod).unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer.limits(rules.limits())).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await;
    HealthClient::new(channel.unwrap())
}

async fn check(client: &mut HealthClient<Channel>, key: &'static str) -> Result<(), Status> {
    let mut request = Request::new(HealthCheckRequest { service: String::new() });
    request.metadata_mut().insert("x-api-key", key.parse().unwrap());
    client.check(request).await.map(drop)
}

fn each_client(burst: u64) -> RuleSet {
    RuleSet::parse(&format!(
        "[[rule]]\nname = \"each-client\"\nresource = \"grpc.health.v1.*\"\n\
         key = \"header:x-api-key\"\nlimit = \"1 per minute, bursts of {burst}\""
    ))
    .unwrap()
}

#[tokio::test]
async fn method_of_grpc_is_decided_by_its_metadata_and_after_a_change_by_the_new_numbers() {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let rules = Rules::new(Arc::new(registry));
    rules.apply(&each_client(2));
    let mut client = start(&rules).await;

    for key in ["ann", "ann", "bob"] {
        check(&mut client, key).await.unwrap();
    }
    let refused = check(&mut client, "ann").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");

    // Each client keeps what it has.
    rules.apply(&each_client(1));
    for (key, admitted) in [("ann", false), ("bob", true), ("bob", false)] {
        assert_eq!(check(&mut client, key).await.is_ok(), admitted, "{key}");
    }
    let resource = rules.registry().get(CHECK).unwrap();
    let count = |event| resource.now().long().sum(event);
    assert_eq!((count(MetricEvent::Success), count(MetricEvent::Block)), (4, 3));

    clock.advance(Duration::from_secs(60));
    assert!(check(&mut client, "ann").await.is_ok());
}
