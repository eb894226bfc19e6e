#!/usr/bin/env bash
# axum with tower: `Router::layer(ConcurrencyLimitLayer::new(1))` limits each connection by itself
#
# Guess: one request at a time for the whole router.
# Behaviour: the layer makes a semaphore for each service that it wraps. `Router::layer` wraps each
# method of each route, and a handler is wrapped when the router becomes a service. For
# `axum::serve(listener, router)` that is at each connection, so clients with connections of their
# own do not limit each other. With `into_make_service` it happens once, and GET and POST of one
# route still have a limit each. `GlobalConcurrencyLimitLayer` has one semaphore.
# Versions: axum 0.8.9, tower 0.5.3.
# Here: the limiter of a `ResourceLayer` is made before the layer, and all services share it. No
# state of a layer may be made in `Layer::layer`.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
axum = { version = "=0.8.9", default-features = false, features = ["http1", "tokio"] }
tokio = { version = "=1.54.1", features = ["io-util", "macros", "net", "rt", "sync", "time"] }
tower = { version = "=0.5.3", features = ["limit"] }
END

program() { cargo_program <<'END'; }
use axum::{Router, routing::get};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::{sync::watch, time::timeout};
use tower::limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer};

/// A router whose handler waits until two requests are in flight, for at most three seconds.
fn router() -> Router {
    // The requests in flight, and the most so far.
    let in_flight = Arc::new(watch::Sender::new((0, 0)));
    let handler = async move || {
        in_flight.send_modify(|(now, most)| (*now, *most) = (*now + 1, (*now + 1).max(*most)));
        let mut changes = in_flight.subscribe();
        let meeting = changes.wait_for(|(_now, most)| *most == 2);
        let is_met = timeout(Duration::from_secs(3), meeting).await.is_ok();
        in_flight.send_modify(|(now, _most)| *now -= 1);
        if is_met { "together" } else { "alone" }
    };
    Router::new().route("/", get(handler.clone()).post(handler))
}

/// Sends two requests by two connections.
async fn two_requests(to: SocketAddr, methods: [&'static str; 2]) -> String {
    let clients = methods.map(|method| {
        tokio::spawn(async move {
            let mut connection = TcpStream::connect(to).await.unwrap();
            let head = format!("{method} / HTTP/1.1\r\nhost: here\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            connection.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.unwrap();
            answer.rsplit("\r\n\r\n").next().unwrap().to_owned()
        })
    });
    let [first, second] = clients;
    format!("{}, {}", first.await.unwrap(), second.await.unwrap())
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let limited = || router().layer(ConcurrencyLimitLayer::new(1));

    let (app, (listener, address)) = (limited(), listen().await);
    tokio::spawn(async move { axum::serve(listener, app).await });
    println!("served as it is, GET and GET: {}", two_requests(address, ["GET", "GET"]).await);

    let (app, (listener, address)) = (limited(), listen().await);
    tokio::spawn(async move { axum::serve(listener, app.into_make_service()).await });
    println!("into_make_service, GET and GET: {}", two_requests(address, ["GET", "GET"]).await);
    println!("into_make_service, GET and POST: {}", two_requests(address, ["GET", "POST"]).await);

    let (listener, address) = listen().await;
    let global = router().layer(GlobalConcurrencyLimitLayer::new(1));
    tokio::spawn(async move { axum::serve(listener, global).await });
    println!("global layer, GET and GET: {}", two_requests(address, ["GET", "GET"]).await);
}
END

expect program <<'END'
served as it is, GET and GET: together, together
into_make_service, GET and GET: alone, alone
into_make_service, GET and POST: together, together
global layer, GET and GET: alone, alone
END
