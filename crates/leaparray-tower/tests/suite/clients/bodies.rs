//! Every kind of body ends its request once, as a success.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::routing::get;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use leaparray_tower::open_streams;

use crate::clients::server::{Server, Version, until};

/// Three chunks, which do not say that the last one is the last.
fn chunks() -> Body {
    Body::from_stream(stream::iter(
        (0..3).map(|_| Ok::<_, Infallible>(Bytes::from_static(b"chunk"))),
    ))
}

fn with_trailers() -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", "7".parse().unwrap());
    let frames = [Frame::data(Bytes::from_static(b"data")), Frame::trailers(trailers)];
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>)));
    Response::builder().header("trailer", "checksum").body(Body::new(body)).unwrap()
}

fn routes() -> Router {
    Router::new()
        .route("/exact", get(async || "exact"))
        .route("/empty", get(async || ()))
        .route("/chunked", get(async || chunks()))
        .route("/announced", get(async || ([(CONTENT_LENGTH, "15")], chunks())))
        .route("/trailers", get(async || with_trailers()))
        .route("/no-content", get(async || (StatusCode::NO_CONTENT, chunks())))
        .route("/not-modified", get(async || (StatusCode::NOT_MODIFIED, chunks())))
}

#[tokio::test]
async fn body_of_each_kind_ends_its_request_once() {
    for version in Version::ALL {
        let server = Server::start(routes()).await;
        let client = version.client();
        let cases = [
            ("/exact", "exact"),
            ("/empty", ""),
            ("/chunked", "chunkchunkchunk"),
            ("/announced", "chunkchunkchunk"),
            ("/trailers", "data"),
            ("/no-content", ""),
            ("/not-modified", ""),
        ];
        for (path, expected) in cases {
            for _ in 0..3 {
                let request = Request::get(server.url(path)).header("te", "trailers");
                let response = client.request(request.body(Body::empty()).unwrap()).await.unwrap();
                let body = response.into_body().collect().await.unwrap();
                if path == "/trailers" {
                    assert_eq!(body.trailers().unwrap()["checksum"], "7", "{version:?}");
                }
                // Over HTTP/2, the server sends even the body of a response that must not have one.
                if version == Version::Http1 || !expected.is_empty() {
                    assert_eq!(body.to_bytes(), expected, "{path}, {version:?}");
                }
            }
            server.expect(&format!("GET {path}"), [3, 0, 0, 0]).await;
        }
    }
}

#[tokio::test]
async fn body_shorter_than_its_length_is_an_error_for_the_client_and_an_exception() {
    for version in Version::ALL {
        let short = async || ([(CONTENT_LENGTH, "16")], chunks());
        let server = Server::start(Router::new().route("/short", get(short))).await;
        let request = Request::get(server.url("/short")).body(Body::empty()).unwrap();
        let result = async {
            let response = version.client().request(request).await.ok()?;
            response.into_body().collect().await.ok()
        };
        assert!(result.await.is_none(), "{version:?}");
        server.expect("GET /short", [0, 1, 0, 0]).await;
    }
}

#[tokio::test]
async fn request_for_the_head_ends_with_the_head() {
    for version in Version::ALL {
        // The layer is around the handler: it sees the body that axum then removes.
        let server = Server::start(routes()).await;
        let client = version.client();
        for path in ["/exact", "/chunked", "/announced"] {
            let request = Request::head(server.url(path)).body(Body::empty()).unwrap();
            let body = client.request(request).await.unwrap().into_body();
            assert_eq!(body.collect().await.unwrap().to_bytes(), "");
            server.expect(&format!("HEAD {path}"), [1, 0, 0, 0]).await;
        }
    }
}

#[tokio::test]
async fn stream_of_events_is_open_until_its_client_leaves() {
    for version in Version::ALL {
        let events = || {
            let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"data: 1\n\n"))]);
            let body = Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()));
            ([(CONTENT_TYPE, "text/event-stream")], body)
        };
        let server =
            Server::start(Router::new().route("/events", get(async move || events()))).await;
        let request = Request::get(server.url("/events")).body(Body::empty()).unwrap();
        let client = version.client();
        let mut body = client.request(request).await.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: 1\n\n");
        let resource = server.registry.get("GET /events").unwrap();
        assert_eq!((server.endings("GET /events"), open_streams(&resource)), ([1, 0, 0, 0], 1));
        drop((body, client));
        until(|| open_streams(&resource) == 0, || "the stream is still open".to_owned()).await;
        assert_eq!(server.endings("GET /events"), [1, 0, 0, 0]);
    }
}
