//! A server on loopback whose paths say how it fails.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use std::{io, mem};

use axum::Router;
use axum::body::{Body, Bytes};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::sleep;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;

/// The time after which a body breaks, so that its first frame is sent before.
const FRAME_IS_SENT: Duration = Duration::from_millis(20);

/// A message of gRPC with the text `x`.
const MESSAGE: &[u8] = b"\0\0\0\0\x01x";

type Frames = BoxStream<'static, Result<Frame<Bytes>, io::Error>>;

/// Answers by HTTP/1.1 and HTTP/2.
pub(crate) async fn start() -> SocketAddr {
    let (listener, address) = listen().await;
    let serving = axum::serve(listener, Router::new().fallback(answer));
    tokio::spawn(async { serving.await.unwrap() });
    address
}

/// Answers by gRPC, with a deadline of the server.
pub(crate) async fn start_with_deadline(deadline: Duration) -> SocketAddr {
    let (listener, address) = listen().await;
    let routes = Routes::from(Router::new().fallback(answer));
    let server = Server::builder().timeout(deadline).add_routes(routes);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

/// Closes each connection at the first byte of a request, without having read the rest: the client
/// gets a reset.
pub(crate) async fn start_resetting() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.read_u8().await;
        }
    });
    address
}

/// Returns an address at which nothing listens.
pub(crate) fn refusing() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    // Kept, so that no other test gets its port.
    mem::forget(socket);
    address
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn answer(request: Request<Body>) -> Response<Body> {
    let path: Vec<_> = request.uri().path().split('/').skip(1).collect();
    match path[..] {
        ["hangs"] => pending().await,
        [kind, status] => {
            let status = StatusCode::from_bytes(status.as_bytes()).unwrap();
            let body = match kind {
                "ends" => frames(b"chunk", 2).boxed(),
                "breaks" => frames(b"chunk", 1).chain(break_off()).boxed(),
                "body-hangs" => frames(b"chunk", 1).chain(stream::pending()).boxed(),
                _ => unreachable!("{kind}"),
            };
            response(status, body)
        }
        ["grpc", kind, code] => {
            let code = HeaderValue::from_str(code).unwrap();
            let mut response = match kind {
                "head" => response(StatusCode::OK, stream::empty().boxed()),
                "trailers" => {
                    let trailers = HeaderMap::from_iter([(GRPC_STATUS, code.clone())]);
                    let trailers = stream::iter([Ok(Frame::trailers(trailers))]);
                    response(StatusCode::OK, frames(MESSAGE, 2).chain(trailers).boxed())
                }
                "breaks" => response(StatusCode::OK, frames(MESSAGE, 1).chain(break_off()).boxed()),
                _ => unreachable!("{kind}"),
            };
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            if kind == "head" {
                headers.insert(GRPC_STATUS, code);
            }
            response
        }
        _ => unreachable!("{path:?}"),
    }
}

const GRPC_STATUS: http::HeaderName = http::HeaderName::from_static("grpc-status");

fn response(status: StatusCode, body: Frames) -> Response<Body> {
    let mut response = Response::new(Body::new(StreamBody::new(body)));
    *response.status_mut() = status;
    response
}

fn frames(data: &'static [u8], count: usize) -> Frames {
    stream::iter(vec![data; count]).map(|data| Ok(Frame::data(Bytes::from_static(data)))).boxed()
}

fn break_off() -> Frames {
    let broken = async {
        sleep(FRAME_IS_SENT).await;
        Err(io::Error::other("a broken disk"))
    };
    stream::once(broken).boxed()
}
