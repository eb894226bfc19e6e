#!/usr/bin/env bash
# tonic: a deadline ends a call with CANCELLED, on both sides, and not with DEADLINE_EXCEEDED
#
# Guess: status 4, DEADLINE_EXCEEDED, which gRPC defines for this.
# Behaviour: `Server::timeout` answers with status 1, CANCELLED, and `Endpoint::timeout` of a client
# makes the same status. It is that of a caller who gives up, and only the message tells them apart.
# Version: tonic 0.14.9.
# Here: leaparray-tower tells a deadline by this message, or by the time since the request entered,
# if it knows the deadline: from the header `grpc-timeout`, or by `ResourceLayer::timeout_around`. The
# deadline of a server drops the future of a layer, and shows it no status.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
axum = { version = "=0.8.9", default-features = false }
http = "=1.5.0"
tokio = { version = "=1.54.1", features = ["macros", "net", "rt", "time"] }
tonic = { version = "=0.14.9", default-features = false, features = ["channel", "router", "server"] }
tower = { version = "=0.5.3", default-features = false, features = ["util"] }
END

program() { cargo_program <<'END'; }
use std::{future::pending, time::Duration};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Status};
use tower::ServiceExt;

/// Calls a method that never ends, with a deadline of the server or of the client.
async fn call(of_server: Option<Duration>, of_client: Option<Duration>) -> Status {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}", incoming.local_addr().unwrap());
    let never = async || pending::<http::Response<Body>>().await;
    let routes = Routes::from(axum::Router::new().fallback(never));
    let mut server = Server::builder();
    if let Some(deadline) = of_server {
        server = server.timeout(deadline);
    }
    tokio::spawn(server.add_routes(routes).serve_with_incoming(incoming));

    let mut endpoint = Channel::from_shared(address).unwrap();
    if let Some(deadline) = of_client {
        endpoint = endpoint.timeout(deadline);
    }
    let request = http::Request::post("/orders.Orders/Place").header("content-type", "application/grpc");
    let request = request.header("te", "trailers").body(Body::empty()).unwrap();
    match endpoint.connect().await.unwrap().oneshot(request).await {
        Ok(answer) => Status::from_header_map(answer.headers()).unwrap(),
        Err(error) => Status::from_error(error.into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let deadline = Some(Duration::from_millis(100));
    for (side, of_server, of_client) in [("server", deadline, None), ("client", None, deadline)] {
        let status = call(of_server, of_client).await;
        println!("deadline of the {side}: {:?}, {:?}", status.code(), status.message());
        assert_ne!(status.code(), Code::DeadlineExceeded);
    }
}
END

expect program <<'END'
deadline of the server: Cancelled, "Timeout expired"
deadline of the client: Cancelled, "Timeout expired"
END
