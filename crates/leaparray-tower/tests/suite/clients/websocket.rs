//! An upgrade ends its request, and the connection lives on.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::WebSocketUpgrade;
use axum::extract::ws::Message;
use axum::http::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use axum::http::{Method, Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use futures_util::{SinkExt, StreamExt, stream};
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::{WebSocketStream, connect_async};

use crate::clients::server::Server;

/// Answers each text with itself.
async fn echo(upgrade: WebSocketUpgrade) -> impl IntoResponse {
    upgrade.on_upgrade(async |mut socket| {
        while let Some(Ok(message)) = socket.recv().await {
            if let Message::Text(text) = message {
                socket.send(Message::Text(text)).await.unwrap();
            }
        }
    })
}

/// Two upgrades, of which one has a body that never ends. hyper polls no body of an upgrade.
fn routes() -> Router {
    let with_body = async |upgrade: WebSocketUpgrade| {
        let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        echo(upgrade).await.into_response().map(|_| body)
    };
    Router::new().route("/echo", any(echo)).route("/with-body", any(with_body))
}

/// Sends texts, and closes the socket. The request has ended, and no other one begins.
async fn expect_echo<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: WebSocketStream<S>,
    server: &Server,
    name: &str,
) {
    server.expect(name, [1, 0, 0, 0]).await;
    for text in ["one", "two"] {
        socket.send(text.into()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap().into_text().unwrap(), text);
    }
    socket.close(None).await.unwrap();
    assert_eq!(server.endings(name), [1, 0, 0, 0]);
}

#[tokio::test]
async fn upgrade_ends_its_request_with_the_head() {
    let server = Server::start(routes()).await;
    for path in ["/echo", "/with-body"] {
        let (socket, response) =
            connect_async(format!("ws://{}{path}", server.address)).await.unwrap();
        assert_eq!(response.status(), 101);
        expect_echo(socket, &server, &format!("GET {path}")).await;
    }
}

/// Over HTTP/2, the response has the status 200 (RFC 8441).
#[tokio::test]
async fn upgrade_over_http2_ends_its_request_with_the_head() {
    let server = Server::start(routes()).await;
    for path in ["/echo", "/with-body"] {
        let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::CONNECT)
            .uri(server.url(path))
            .version(hyper::Version::HTTP_2)
            .extension(Protocol::from_static("websocket"))
            .header("sec-websocket-version", "13")
            .body(Body::empty());
        let response = client.send_request(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        expect_echo(socket, &server, &format!("CONNECT {path}")).await;
    }
}

/// A change to a protocol of the program's own, whose response has the type of a plain body.
#[tokio::test]
async fn upgrade_with_a_content_type_ends_its_request_with_the_head() {
    let change = async |mut request: Request<Body>| {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async {
            let (mut reader, mut writer) = split(TokioIo::new(upgrade.await.unwrap()));
            copy(&mut reader, &mut writer).await.unwrap();
        });
        let head = [(CONNECTION, "upgrade"), (UPGRADE, "echo"), (CONTENT_TYPE, "text/plain")];
        // hyper polls no body of it.
        let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        (StatusCode::SWITCHING_PROTOCOLS, head, body)
    };
    let server = Server::start(Router::new().route("/change", get(change))).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head =
        "GET /change HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.unwrap());
    }
    assert!(read.starts_with(b"HTTP/1.1 101 "), "{}", read.escape_ascii());
    server.expect("GET /change", [1, 0, 0, 0]).await;
    stream.write_all(b"four").await.unwrap();
    let mut echoed = [0; 4];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"four");
    drop(stream);
    assert_eq!(server.endings("GET /change"), [1, 0, 0, 0]);
}
