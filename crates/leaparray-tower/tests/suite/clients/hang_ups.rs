//! Clients that leave, and handlers and bodies that fail.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{FutureExt, StreamExt, stream};
use http_body_util::BodyExt;
use tokio::time::sleep;

use crate::clients::server::{Server, Version};

/// A body whose first chunk is followed by `then`.
fn chunk_and_then(then: impl FnOnce() -> Result<Bytes, io::Error> + Send + 'static) -> Body {
    let chunk = stream::iter([Ok(Bytes::from_static(b"chunk"))]);
    Body::from_stream(chunk.chain(stream::once(async move { then() })))
}

fn waits_in_its_body() -> Body {
    let chunk = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"chunk"))]);
    Body::from_stream(chunk.chain(stream::pending()))
}

fn routes() -> Router {
    Router::new()
        .route("/waits", get(async || pending::<()>().await))
        .route("/waits-in-its-body", get(async || waits_in_its_body()))
        .route("/fails-and-waits", get(async || (StatusCode::BAD_GATEWAY, waits_in_its_body())))
        .route("/panics", get(async || -> () { panic!("a bug of the handler") }))
        .route("/body-panics", get(async || chunk_and_then(|| panic!("a bug of the body"))))
        .route(
            "/body-fails",
            get(async || chunk_and_then(|| Err(io::Error::other("a broken disk")))),
        )
        .route("/done", get(async || "done"))
}

fn request(server: &Server, path: &str) -> Request<Body> {
    Request::get(server.url(path)).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn client_that_leaves_before_the_head_cancels_its_request() {
    for version in Version::ALL {
        let server = Server::start(routes()).await;
        let client = version.client();
        let waiting = tokio::spawn(client.request(request(&server, "/waits")));
        server.expect("GET /waits", [0, 0, 0, 1]).await;
        waiting.abort();
        drop(client);
        server.expect("GET /waits", [0, 0, 1, 0]).await;
    }
}

#[tokio::test]
async fn client_that_leaves_in_the_body_cancels_its_request() {
    for version in Version::ALL {
        let server = Server::start(routes()).await;
        let client = version.client();
        let response = client.request(request(&server, "/waits-in-its-body")).await.unwrap();
        let mut body = response.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "chunk");
        assert_eq!(server.endings("GET /waits-in-its-body"), [0, 0, 0, 1]);
        drop((body, client));
        server.expect("GET /waits-in-its-body", [0, 0, 1, 0]).await;
    }
}

#[tokio::test]
async fn client_that_leaves_in_the_body_of_a_failure_leaves_an_exception() {
    for version in Version::ALL {
        let server = Server::start(routes()).await;
        let client = version.client();
        let response = client.request(request(&server, "/fails-and-waits")).await.unwrap();
        assert_eq!(server.endings("GET /fails-and-waits"), [0, 0, 0, 1]);
        drop((response, client));
        server.expect("GET /fails-and-waits", [0, 1, 0, 0]).await;
    }
}

#[tokio::test]
async fn client_that_leaves_after_the_last_frame_changes_nothing() {
    for version in Version::ALL {
        let server = Server::start(routes()).await;
        let client = version.client();
        // The response is never read.
        let response = client.request(request(&server, "/done")).await.unwrap();
        server.expect("GET /done", [1, 0, 0, 0]).await;
        drop((response, client));
        let registry = server.stop().await;
        assert_eq!(crate::clients::server::endings(&registry, "GET /done"), [1, 0, 0, 0]);
    }
}

#[tokio::test]
async fn panic_and_failure_are_exceptions() {
    for version in Version::ALL {
        let server = Server::start(routes()).await;
        assert!(version.client().request(request(&server, "/panics")).await.is_err());
        server.expect("GET /panics", [0, 1, 0, 0]).await;
        for path in ["/body-panics", "/body-fails"] {
            let client = version.client();
            if let Ok(response) = client.request(request(&server, path)).await {
                assert!(response.into_body().collect().await.is_err(), "{path}");
            }
            server.expect(&format!("GET {path}"), [0, 1, 0, 0]).await;
        }
    }
}

/// A middleware that answers a panic, as that of a service that must not close its connections.
async fn catch_panic(request: axum::extract::Request, next: Next) -> Response {
    let caught = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    caught.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

#[tokio::test]
async fn panic_that_a_middleware_catches_is_an_exception() {
    let registry = std::sync::Arc::new(leaparray::Registry::new());
    let layer =
        leaparray_tower::ResourceLayer::new(registry.clone(), leaparray_tower::MatchedRoute);
    let routes = routes().layer(layer.unwrap()).layer(from_fn(catch_panic));
    let server = Server::start_with(registry, routes).await;
    let response = Version::Http1.client().request(request(&server, "/panics")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    server.expect("GET /panics", [0, 1, 0, 0]).await;
}

#[tokio::test]
async fn slow_reader_is_one_success() {
    const CHUNK: usize = 64 * 1_024;
    /// 64 MiB: several times what the buffers of two sockets and the window of a stream take.
    const CHUNKS: usize = 1_024;
    /// The body that the client reads slowly.
    const SLOW: usize = CHUNK * CHUNKS / 64;
    for version in Version::ALL {
        let body = || {
            let chunk = Bytes::from(vec![b'x'; CHUNK]);
            Body::from_stream(stream::iter(vec![Ok::<_, Infallible>(chunk); CHUNKS]))
        };
        let server = Server::start(Router::new().route("/large", get(async move || body()))).await;
        let client = version.client();
        let mut body = client.request(request(&server, "/large")).await.unwrap().into_body();
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            read += frame.unwrap().into_data().unwrap().len();
            // The server waits for the client: it cannot have sent the last chunk yet.
            if read < SLOW {
                assert_eq!(server.endings("GET /large"), [0, 0, 0, 1], "{version:?}, {read}");
                sleep(Duration::from_millis(1)).await;
            }
        }
        assert_eq!(read, CHUNK * CHUNKS);
        server.expect("GET /large", [1, 0, 0, 0]).await;
    }
}
