//! Bodies of one large frame, and clients that read them slowly.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::routing::get;
use http_body_util::BodyExt;
use leaparray::Registry;
use leaparray::flow::ConcurrencyLimiter;
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clients::server::{Server, Version, until};

/// More than all buffers between the handler and the client.
const BYTES: usize = 60_000_000;

fn routes() -> Router {
    Router::new().route("/large", get(async || Bytes::from(vec![b'x'; BYTES])))
}

#[tokio::test]
async fn client_that_reads_a_large_frame_slowly_holds_its_permit() {
    let registry = Arc::new(Registry::new());
    let limiter = Arc::new(ConcurrencyLimiter::new(1));
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let routes = routes().layer(layer.limit(Arc::clone(&limiter)));
    let server = Server::start_with(registry, routes).await;
    let request = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(request).await.unwrap();
    let mut start = [0; 1_000];
    slow.read_exact(&mut start).await.unwrap();
    assert!(start.starts_with(b"HTTP/1.1 200"));
    for _ in 0..4 {
        let mut other = TcpStream::connect(server.address).await.unwrap();
        other.write_all(request).await.unwrap();
        other.read_exact(&mut start[..12]).await.unwrap();
        assert_eq!(&start[..12], b"HTTP/1.1 429", "one client holds the only permit");
    }
    assert_eq!((server.endings("GET /large"), limiter.in_use()), ([0, 0, 0, 1], 1));
    drop(slow);
    server.expect("GET /large", [0, 0, 1, 0]).await;
    until(|| limiter.in_use() == 0, || "the permit is not back".to_owned()).await;
}

#[tokio::test]
async fn large_frame_arrives_whole() {
    for version in Version::ALL {
        let server = Server::start(routes()).await;
        let request = Request::get(server.url("/large")).body(Body::empty()).unwrap();
        let response = version.client().request(request).await.unwrap();
        assert_eq!(response.headers()["content-length"], BYTES.to_string());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.len() == BYTES && body.iter().all(|&byte| byte == b'x'), "{version:?}");
        server.expect("GET /large", [1, 0, 0, 0]).await;
    }
}
