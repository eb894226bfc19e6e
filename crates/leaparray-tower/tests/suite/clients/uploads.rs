//! Clients that leave in their uploads, and uploads that fail although the client is there.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::{Request, StatusCode};
use axum::routing::{MethodFilter, on, post};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use leaparray::Registry;
use leaparray::flow::{LeakyBucket, Rate};
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clients::server::{Server, Version, until};

fn routes() -> Router {
    Router::new()
        // The extractor makes a 400 of the error.
        .route("/extracts", post(async |_: String| "done"))
        .route(
            "/fails",
            on(MethodFilter::POST.or(MethodFilter::PUT), async |body: Body| {
                match body.collect().await {
                    Ok(_) => StatusCode::OK,
                    Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
                }
            }),
        )
        .route(
            "/ignores",
            post(async |body: Body| {
                let _ = body.collect().await;
            }),
        )
        .route("/echoes", post(async |body: Body| body))
        .route(
            "/panics",
            post(async |body: Body| {
                body.collect().await.unwrap();
            }),
        )
        .layer(DefaultBodyLimit::max(10))
}

/// A body whose first chunk is followed by no other.
fn upload() -> Body {
    let chunk = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"chunk"))]);
    Body::from_stream(chunk.chain(stream::pending()))
}

#[tokio::test]
async fn client_that_leaves_in_its_upload_cancels_its_request() {
    for version in Version::ALL {
        for path in ["/extracts", "/fails", "/ignores"] {
            let server = Server::start(routes()).await;
            let client = version.client();
            let request = Request::post(server.url(path)).body(upload()).unwrap();
            let sending = tokio::spawn(client.request(request));
            let name = format!("POST {path}");
            server.expect(&name, [0, 0, 0, 1]).await;
            sending.abort();
            let _ = sending.await;
            drop(client);
            until(|| server.endings(&name)[3] == 0, || format!("{path} is in flight")).await;
            assert_eq!(server.endings(&name), [0, 0, 1, 0], "{path}, {version:?}");
        }
    }
}

#[tokio::test]
async fn client_that_ends_its_connection_before_the_announced_length_cancels_its_request() {
    // The body of an echo fails with the upload, after the head of the response. No request but a
    // posted one can have a deadline of gRPC, and all can have an upload.
    let posted = ["/extracts", "/fails", "/ignores", "/echoes"].map(|path| ("POST", path));
    for (method, path) in posted.into_iter().chain([("PUT", "/fails")]) {
        let server = Server::start(routes()).await;
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        let name = format!("{method} {path}");
        let head = format!("{name} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nchunk");
        connection.write_all(head.as_bytes()).await.unwrap();
        server.expect(&name, [0, 0, 0, 1]).await;
        drop(connection);
        until(|| server.endings(&name)[3] == 0, || format!("{name} is in flight")).await;
        assert_eq!(server.endings(&name), [0, 0, 1, 0], "{name}");
    }
}

/// The second request waits for its turn, and then reaches the handler, which reads the upload.
#[tokio::test]
async fn client_that_leaves_in_its_upload_after_a_wait_cancels_its_request() {
    let reached = Arc::new(AtomicU64::new(0));
    let handler = {
        let reached = Arc::clone(&reached);
        async move |body: Body| {
            reached.fetch_add(1, Ordering::Relaxed);
            body.collect().await.map(drop).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
        }
    };
    let registry = Arc::new(Registry::new());
    let pace = LeakyBucket::new(Rate::per_second(20).unwrap(), Duration::from_secs(1));
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let routes = Router::new().route("/", post(handler)).layer(layer.limit(Arc::new(pace)));
    let server = Server::start_with(registry, routes).await;
    for turn in 1..=2 {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        let head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nchunk";
        connection.write_all(head).await.unwrap();
        let requests = || reached.load(Ordering::Relaxed);
        until(|| requests() == turn, || format!("{} have reached the handler", requests())).await;
        drop(connection);
        server.expect("POST /", [0, 0, turn, 0]).await;
    }
}

#[tokio::test]
async fn panic_after_a_client_has_left_in_its_upload_is_an_exception() {
    let server = Server::start(routes()).await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let head = b"POST /panics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nchunk";
    connection.write_all(head).await.unwrap();
    server.expect("POST /panics", [0, 0, 0, 1]).await;
    drop(connection);
    server.expect("POST /panics", [0, 1, 0, 0]).await;
}

#[tokio::test]
async fn whole_upload_and_too_large_upload_are_answered() {
    for version in Version::ALL {
        let server = Server::start(routes()).await;
        for (answered, (body, status)) in (1..).zip([("chunk", 200), ("far too large", 413)]) {
            let request = Request::post(server.url("/extracts")).body(Body::from(body)).unwrap();
            let response = version.client().request(request).await.unwrap();
            assert_eq!(response.status(), status, "{version:?}");
            server.expect("POST /extracts", [answered, 0, 0, 0]).await;
        }
    }
}

#[tokio::test]
async fn client_that_stays_after_an_invalid_chunk_is_answered() {
    let server = Server::start(routes()).await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let request =
        b"POST /extracts HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot hexadecimal";
    connection.write_all(request).await.unwrap();
    let mut response = Vec::new();
    let _ = connection.read_to_end(&mut response).await;
    assert!(response.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&response));
    server.expect("POST /extracts", [1, 0, 0, 0]).await;
}
