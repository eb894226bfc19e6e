//! A decision that is not by a limit is told in the response and in a metric.

use std::net::SocketAddr;

use leaparray_envoy::server::Bounds;
use leaparray_envoy::service::{Fallback, Settings, Store};

use crate::world::{exchange, serve};

async fn ask(address: SocketAddr, user: usize) -> String {
    let body = format!(
        r#"{{"domain":"shop","descriptors":[{{"entries":[{{"key":"user","value":"{user}"}}]}}]}}"#
    );
    let length = body.len();
    let request = format!(
        "POST /json HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    exchange(address, request).await
}

async fn metrics(address: SocketAddr) -> String {
    exchange(address, "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".into()).await
}

#[tokio::test]
async fn no_room_for_a_key_is_told() {
    for (fallback, status, policy, other) in [
        (Fallback::Closed, "HTTP/1.1 429", "closed", "open"),
        (Fallback::Open, "HTTP/1.1 200", "open", "closed"),
    ] {
        let mut settings = Settings::default();
        (settings.fallback, settings.max_keys) = (fallback, 1);
        let (_, address) = serve(&Store::Memory, settings, Bounds::default()).await;
        let told = r#""dynamicMetadata":{"fallback":"no room for a further key"}"#;
        let mut fallbacks = 0;
        for user in 0..200 {
            let answer = ask(address, user).await;
            if answer.contains(told) {
                assert!(answer.starts_with(status), "{answer}");
                fallbacks += 1;
            } else {
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                assert!(!answer.contains("dynamicMetadata"), "{answer}");
            }
        }
        assert!(fallbacks > 0);
        let metrics = metrics(address).await;
        for (policy, count) in [(policy, fallbacks), (other, 0)] {
            let line = format!("leaparray_envoy_fallbacks_total{{policy=\"{policy}\"}} {count}\n");
            assert!(metrics.contains(&line), "{line} {metrics}");
        }
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn store_that_is_away_is_told() {
    use leaparray_envoy::service::Leases;
    // Nothing listens there, and no other test gets the port.
    let reserved = tokio::net::TcpSocket::new_v4().unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = reserved.local_addr().unwrap();
    let engine = leaparray_redis::RedisEngine::open(&format!("redis://{free}/")).unwrap();
    let store = Store::Redis(Leases::new("shop", engine).unwrap());
    let (_, address) = serve(&store, Settings::default(), Bounds::default()).await;
    let answer = ask(address, 1).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains(r#""dynamicMetadata":{"fallback":"store away"}"#), "{answer}");
    let metrics = metrics(address).await;
    assert!(
        metrics.contains("leaparray_envoy_fallbacks_total{policy=\"closed\"} 1\n"),
        "{metrics}"
    );
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn request_without_room_to_wait_is_told() {
    use leaparray_envoy::service::Leases;
    // A new limit waits for its first answer.
    let engine = leaparray_redis::RedisEngine::open("redis://127.0.0.1:1/").unwrap();
    let store = Store::Redis(Leases::new("shop", engine).unwrap());
    let mut settings = Settings::default();
    settings.max_waiting = 0;
    let (_, address) = serve(&store, settings, Bounds::default()).await;
    let answer = ask(address, 1).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    let told = r#""dynamicMetadata":{"fallback":"too many requests wait for the store"}"#;
    assert!(answer.contains(told), "{answer}");
    let metrics = metrics(address).await;
    let line = "leaparray_envoy_fallbacks_total{policy=\"closed\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
}
