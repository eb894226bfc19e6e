//! A client that reads lines.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use leaparray_web::format::{Hello, Message, Second};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time within which everything must arrive.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// Sends a request over a connection of its own.
pub(crate) async fn get(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<Incoming> {
    let connection = TcpStream::connect(address).await.unwrap();
    send(connection, "GET", address, path, headers).await
}

pub(crate) async fn send(
    connection: TcpStream,
    method: &str,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", address.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    timeout(SOON, sender.send_request(request)).await.expect("an answer in time").unwrap()
}

pub(crate) async fn text(response: Response<Incoming>) -> String {
    let body = timeout(SOON, response.into_body().collect()).await.expect("a body in time");
    String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap()
}

/// The lines of a response that goes on.
pub(crate) struct Stream {
    pub(crate) response: Response<Incoming>,
    buffer: Vec<u8>,
}

impl Stream {
    pub(crate) async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let response = get(address, path, headers).await;
        assert_eq!(response.status(), 200);
        Self { response, buffer: Vec::new() }
    }

    /// Returns the next line, without its end; `None` at the end of the body.
    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.buffer.drain(..=end).collect();
                return Some(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            let frame = timeout(SOON, self.response.body_mut().frame());
            let frame = frame.await.expect("a line in time")?.unwrap();
            self.buffer.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    /// Returns the next message; `None` at the end of the body.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        // Empty lines keep the connection alive, and do not count.
        timeout(SOON, self.next_message()).await.expect("a message in time")
    }

    async fn next_message(&mut self) -> Option<Message> {
        loop {
            let line = self.line().await?;
            // The data of an event, or a line of JSON.
            let json = line.strip_prefix("data: ").unwrap_or(&line);
            if json.starts_with('{') {
                return Some(Message::parse(json).unwrap().expect("its type is known"));
            }
        }
    }

    pub(crate) async fn hello(&mut self) -> Hello {
        match self.message().await {
            Some(Message::Hello(hello)) => hello,
            other => panic!("{other:?} is no hello"),
        }
    }

    /// Returns the next second, and skips other messages.
    pub(crate) async fn second(&mut self) -> Second {
        loop {
            if let Message::Second(second) = self.message().await.expect("a second") {
                return second;
            }
        }
    }
}
