//! The streams and messages of a client are bounded.

use std::time::Duration;

use axum::http::Request;
use h2::client::handshake;
use leaparray_envoy::server::Bounds;
use leaparray_envoy::service::{Settings, Store};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::{exchange, serve};

/// How long an answer may take. Only a defect reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

const HEALTH: &str = "/grpc.health.v1.Health/Check";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const REFLECTION_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
const RLS: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const RLQS: &str = "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";

fn bounds() -> Bounds {
    let mut bounds = Bounds::default();
    (bounds.max_streams, bounds.max_request, bounds.max_report) = (7, 100, 300);
    bounds
}

/// Sends the head of a message of `len` bytes, and no byte of it. Returns the status of gRPC, and
/// the most streams of the connection.
async fn begin(path: &str, len: u32) -> (String, usize) {
    let (grpc, _) = serve(&Store::Memory, Settings::default(), bounds()).await;
    let stream = TcpStream::connect(grpc).await.unwrap();
    let (client, connection) = handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let request = Request::post(format!("http://{grpc}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let (response, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let mut head = vec![0];
    head.extend(len.to_be_bytes());
    body.send_data(head.into(), false).unwrap();
    let response = timeout(PATIENCE, response).await.expect("an answer").unwrap();
    // Of a stream that has answers, the status comes after them.
    let status = if let Some(status) = response.headers().get("grpc-status") {
        status.clone()
    } else {
        let mut body = response.into_body();
        let trailers = timeout(PATIENCE, body.trailers()).await.expect("trailers").unwrap();
        trailers.expect("trailers")["grpc-status"].clone()
    };
    (status.to_str().unwrap().to_owned(), client.current_max_send_streams())
}

#[tokio::test]
async fn streams_and_messages_of_a_connection_are_bounded() {
    const OUT_OF_RANGE: &str = "11";
    // Reflection ends the stream without an error.
    const ENDED: &str = "0";
    for (path, len, status) in [
        (RLS, 101, OUT_OF_RANGE),
        (HEALTH, 101, OUT_OF_RANGE),
        (REFLECTION, 101, ENDED),
        (REFLECTION_ALPHA, 101, ENDED),
        (RLQS, 301, OUT_OF_RANGE),
    ] {
        assert_eq!(begin(path, len).await, (status.to_owned(), 7), "{path}");
    }
}

#[tokio::test]
async fn requests_over_http_are_bounded() {
    let (_, http) = serve(&Store::Memory, Settings::default(), bounds()).await;
    let request = |len: usize, body: &str| {
        format!(
            "POST /json HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}"
        )
    };
    let answer =
        timeout(PATIENCE, exchange(http, request(101, &" ".repeat(101)))).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}"#;
    let answer = exchange(http, request(body.len(), body)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
