#!/usr/bin/env bash
# hyper: a body of one frame is at its end before the client has read a byte of it
#
# Guess: a response body lives until the client has read it, up to what the sockets buffer.
# Behaviour: hyper takes one frame whole, whatever its size. A body of one frame of 60 MB, such as a
# `String` or `Json` of axum, is then at its end and is dropped, and 60 MB wait in hyper's own
# buffer for a client that does not read. The same bytes in frames of 10 kB are taken as the client
# reads.
# Version: hyper 1.12.0, HTTP/1.1.
# Here: a request ends with the last frame of its body, so a large frame would end it early, and a
# limit of requests in flight would not bound the bytes that wait for slow clients. The layer passes
# frames of `Bytes` on in parts of 64 KiB.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
bytes = "=1.12.2"
http-body = "=1.1.0"
hyper = { version = "=1.12.0", features = ["http1", "server"] }
hyper-util = { version = "=0.1.21", features = ["tokio"] }
tokio = { version = "=1.54.1", features = ["io-util", "macros", "net", "rt", "sync", "time"] }
END

program() { cargo_program <<'END'; }
use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A body of equal frames, which sends a message when it is dropped.
struct Frames {
    left: usize,
    size: usize,
    dropped: Option<oneshot::Sender<()>>,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        Poll::Ready(Some(Ok(Frame::data(vec![0; self.size].into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let _ = self.dropped.take().unwrap().send(());
    }
}

/// Returns whether the body is dropped while its client reads nothing.
async fn is_dropped(left: usize, size: usize, patience: Duration) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let connection = TokioIo::new(listener.accept().await.unwrap().0);
    let (dropped, drop_of_the_body) = oneshot::channel();
    let body = Arc::new(Mutex::new(Some(Frames { left, size, dropped: Some(dropped) })));
    let answer = service_fn(move |_: Request<Incoming>| {
        let body = body.lock().unwrap().take().unwrap();
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    tokio::spawn(http1::Builder::new().serve_connection(connection, answer));
    client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    tokio::time::timeout(patience, drop_of_the_body).await.is_ok()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("1 frame of 60 MB: dropped {}", is_dropped(1, 60_000_000, Duration::from_secs(30)).await);
    println!("6,000 frames of 10 kB: dropped {}", is_dropped(6_000, 10_000, Duration::from_secs(3)).await);
}
END

expect program <<'END'
1 frame of 60 MB: dropped true
6,000 frames of 10 kB: dropped false
END
