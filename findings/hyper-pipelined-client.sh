#!/usr/bin/env bash
# hyper: a client that has sent its next request and leaves does not cancel the first one
#
# Guess: when the client closes its connection, the future of its request is dropped, whatever the
# client had sent before.
# Behaviour: hyper drops the future at once if nothing is left to read. With a second, pipelined
# request in its buffer it does not read on, and so does not see the end: the handler runs to its
# end, and the second request may start as well. A client that closes its sending half only, and
# waits for the answer, counts as gone.
# Version: hyper 1.12.0, HTTP/1.1.
# Here: a layer of leaparray-tower sees a cancellation in the first case, and a request that ends in
# the second one. Until then, a permit of a `ConcurrencyLimiter` is held for a client that is gone.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
hyper = { version = "=1.12.0", features = ["http1", "server"] }
hyper-util = { version = "=0.1.21", features = ["tokio"] }
tokio = { version = "=1.54.1", features = ["io-util", "macros", "net", "rt", "sync", "time"] }
END

program() { cargo_program <<'END'; }
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::{sync::mpsc, time::timeout};

/// Reports the end of a handler.
struct Handler(mpsc::UnboundedSender<&'static str>, &'static str);

impl Drop for Handler {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// Returns the end of the first handler, and of the client, if that sends requests and leaves.
async fn ends(requests: usize, only_stops_sending: bool) -> (&'static str, &'static str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let connection = TokioIo::new(listener.accept().await.unwrap().0);
    let (reporter, mut reports) = mpsc::unbounded_channel();
    let answer = service_fn(move |_: Request<Incoming>| {
        let _ = reporter.send("started");
        let handler = Handler(reporter.clone(), "dropped");
        async move {
            let mut handler = handler;
            tokio::time::sleep(Duration::from_secs(2)).await;
            handler.1 = "completed";
            Ok::<_, Infallible>(Response::new(String::from("done")))
        }
    });
    let server = tokio::spawn(http1::Builder::new().serve_connection(connection, answer));

    client.write_all("GET / HTTP/1.1\r\nhost: here\r\n\r\n".repeat(requests).as_bytes()).await.unwrap();
    assert_eq!(reports.recv().await, Some("started"));
    let mut of_client = "closed";
    if only_stops_sending {
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(Duration::from_secs(30), client.read_to_end(&mut answer)).await.unwrap();
        of_client = if answer.is_empty() { "read no answer" } else { "read an answer" };
    } else {
        drop(client);
    }
    let _ = timeout(Duration::from_secs(30), server).await.unwrap();
    (reports.recv().await.unwrap(), of_client)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for (name, requests, only_stops_sending) in
        [("one request", 1, false), ("two requests", 2, false), ("one request, half-closed", 1, true)]
    {
        let (of_handler, of_client) = ends(requests, only_stops_sending).await;
        println!("{name}: the client {of_client}, the first handler is {of_handler}");
    }
}
END

expect program <<'END'
one request: the client closed, the first handler is dropped
two requests: the client closed, the first handler is completed
one request, half-closed: the client read no answer, the first handler is dropped
END
