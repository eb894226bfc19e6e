//! Streams of HTTP/2 that are reset, while their connection stays open. The responses are plain, so
//! the layer judges them by the head alone.

use std::future::pending;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::clients::server::{Server, until};

/// Responses whose bodies never end after their first chunk, of known and of unknown length.
fn routes() -> Router {
    let chunk = || stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"chunk"))]);
    let waits = move || Body::from_stream(chunk().chain(stream::pending()));
    let broken = || stream::once(async { Err(io::Error::other("a broken disk")) });
    let breaks = move || Body::from_stream(chunk().chain(broken()));
    Router::new()
        .route("/no-head", get(async || pending::<()>().await))
        .route("/text", get(async move || ([(CONTENT_TYPE, "text/plain")], waits())))
        .route("/untyped", get(async move || Response::new(waits())))
        .route("/announced", get(async move || ([(CONTENT_LENGTH, "10")], waits())))
        .route("/fails", get(async move || (StatusCode::BAD_GATEWAY, waits())))
        .route("/breaks", get(async move || breaks()))
        .route("/done", get(async || "done"))
}

/// One connection of HTTP/2.
async fn connect(server: &Server) -> SendRequest<Body> {
    let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
    let (client, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    client
}

fn get_of(
    client: &mut SendRequest<Body>,
    server: &Server,
    path: &str,
) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<> {
    client.send_request(Request::get(server.url(path)).body(Body::empty()).unwrap())
}

/// Shows that the connection is open.
async fn expect_answer(client: &mut SendRequest<Body>, server: &Server) {
    let answer = get_of(client, server, "/done").await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
}

#[tokio::test]
async fn reset_before_the_head_cancels_its_request() {
    let server = Server::start(routes()).await;
    let mut client = connect(&server).await;
    let waiting = tokio::spawn(get_of(&mut client, &server, "/no-head"));
    server.expect("GET /no-head", [0, 0, 0, 1]).await;
    waiting.abort();
    server.expect("GET /no-head", [0, 0, 1, 0]).await;
    expect_answer(&mut client, &server).await;
}

#[tokio::test]
async fn reset_in_the_body_ends_its_request_once() {
    let server = Server::start(routes()).await;
    let mut client = connect(&server).await;
    let cases = [
        ("/text", [0, 0, 1, 0]),
        ("/untyped", [0, 0, 1, 0]),
        ("/announced", [0, 0, 1, 0]),
        // Known with the head.
        ("/fails", [0, 1, 0, 0]),
    ];
    for (path, ending) in cases {
        let name = format!("GET {path}");
        let mut body = get_of(&mut client, &server, path).await.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "chunk");
        assert_eq!(server.endings(&name), [0, 0, 0, 1]);
        drop(body);
        server.expect(&name, ending).await;
    }
    expect_answer(&mut client, &server).await;
}

#[tokio::test]
async fn reset_by_the_server_is_an_exception() {
    let server = Server::start(routes()).await;
    let mut client = connect(&server).await;
    // The reset may reach the client with the head, which is then lost.
    if let Ok(response) = get_of(&mut client, &server, "/breaks").await {
        assert!(response.into_body().collect().await.is_err());
    }
    server.expect("GET /breaks", [0, 1, 0, 0]).await;
    expect_answer(&mut client, &server).await;
}

/// A response is whole if its body says so, or if it has the announced length: that of a body that
/// has not ended is open until the reset.
#[tokio::test]
async fn reset_after_the_last_frame_changes_nothing() {
    let bodies = Arc::new(Semaphore::new(1));
    let of_route = Arc::clone(&bodies);
    let whole = async move || {
        let held = Arc::clone(&of_route).try_acquire_owned().unwrap();
        let chunk = stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"chunk"))]);
        let chunks = chunk.chain(stream::pending()).inspect(move |_| _ = &held);
        ([(CONTENT_LENGTH, "5")], Body::from_stream(chunks))
    };
    let server = Server::start(routes().route("/whole", get(whole))).await;
    let mut client = connect(&server).await;
    for path in ["/done", "/whole"] {
        let response = get_of(&mut client, &server, path).await.unwrap();
        let name = format!("GET {path}");
        server.expect(&name, [1, 0, 0, 0]).await;
        // Unread.
        drop(response);
        until(|| bodies.available_permits() == 1, || format!("{path}: the body is held")).await;
        assert_eq!(server.endings(&name), [1, 0, 0, 0]);
    }
    expect_answer(&mut client, &server).await;
    server.expect("GET /done", [2, 0, 0, 0]).await;
}
