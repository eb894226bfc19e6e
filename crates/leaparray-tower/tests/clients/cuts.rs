//! Ten thousand requests, of which a third is cut at a random byte.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{StreamExt, future, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::Server;

const REQUESTS: usize = 10_000;
const CONNECTIONS: usize = 100;

const CHUNK: &[u8] = &[b'x'; 200];
/// The chunks of a body before its last one.
const CHUNKS: usize = 4;
const LAST: &[u8] = b"end";
const BODY: usize = CHUNK.len() * CHUNKS + LAST.len();

/// A body in several chunks. If the request will be cut, the last one never comes: so the cut is before the end of the
/// body, whichever byte it is at. The length is announced, or not.
fn body(headers: &HeaderMap) -> Response {
    let chunks = stream::iter((0..CHUNKS).map(|_| Bytes::from_static(CHUNK)));
    let is_cut = headers.contains_key("cut");
    let last = stream::once(async move {
        if is_cut {
            future::pending::<()>().await;
        }
        Bytes::from_static(LAST)
    });
    let body = Body::from_stream(chunks.chain(last).map(Ok::<_, Infallible>));
    if headers.contains_key("announced") {
        ([(CONTENT_LENGTH, BODY.to_string())], body).into_response()
    } else {
        body.into_response()
    }
}

/// What a client has counted.
#[derive(Default)]
struct Counts {
    whole: u64,
    cut: u64,
}

/// Sends requests over one connection after the other, until all are sent.
async fn drive(server: &Server, sent: &AtomicUsize, seed: u64) -> Counts {
    let (mut random, mut counts) = (fastrand::Rng::with_seed(seed), Counts::default());
    let mut connection = None;
    while sent.fetch_add(1, Ordering::Relaxed) < REQUESTS {
        let is_cut = random.u8(..3) == 0;
        let announced = if random.bool() { "announced: 1\r\n" } else { "" };
        let cut = if is_cut { "cut: 1\r\n" } else { "" };
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => TcpStream::connect(server.address).await.unwrap(),
        };
        let request = format!("GET /body HTTP/1.1\r\nhost: x\r\n{announced}{cut}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        if is_cut {
            // At least the chunks come, beside the head. Without the first byte, the server need not have seen the request.
            let mut bytes = vec![0; random.usize(1..=CHUNK.len() * CHUNKS)];
            stream.read_exact(&mut bytes).await.unwrap();
            counts.cut += 1;
        } else {
            let end: &[u8] = if announced.is_empty() { b"end\r\n0\r\n\r\n" } else { LAST };
            read_until(&mut stream, end).await;
            counts.whole += 1;
            connection = Some(stream);
        }
    }
    counts
}

/// Reads a response that ends with `end`.
async fn read_until(stream: &mut TcpStream, end: &[u8]) {
    let mut response = Vec::new();
    while !response.ends_with(end) {
        assert!(
            stream.read_buf(&mut response).await.unwrap() > 0,
            "the server has closed the connection"
        );
    }
    assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_the_clients_equal_those_of_the_resource() {
    let server = Arc::new(
        Server::start(Router::new().route("/body", get(async |headers: HeaderMap| body(&headers))))
            .await,
    );
    let sent = Arc::new(AtomicUsize::new(0));
    let clients = (0..CONNECTIONS as u64).map(|seed| {
        let (server, sent) = (Arc::clone(&server), Arc::clone(&sent));
        tokio::spawn(async move { drive(&server, &sent, seed).await })
    });
    let mut sum = Counts::default();
    for client in clients.collect::<Vec<_>>() {
        let counts = client.await.unwrap();
        sum.whole += counts.whole;
        sum.cut += counts.cut;
    }
    assert_eq!(sum.whole + sum.cut, REQUESTS as u64);
    assert!((3_000..3_700).contains(&sum.cut), "{} cuts", sum.cut);
    server.expect("GET /body", [sum.whole, 0, sum.cut, 0]).await;
    // The route, and the resource of requests without a route.
    assert_eq!(server.registry.len(), 2);
}
