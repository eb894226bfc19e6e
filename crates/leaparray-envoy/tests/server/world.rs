//! A server for the tests, and an exchange over HTTP.

use std::future::pending;
use std::net::SocketAddr;

use leaparray::MonotonicClock;
use leaparray_envoy::config::Config;
use leaparray_envoy::server::{Bounds, Server};
use leaparray_envoy::service::{Service, Settings, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts a server. Returns its addresses of gRPC and HTTP.
pub(crate) async fn serve(
    store: &Store,
    settings: Settings,
    bounds: Bounds,
) -> (SocketAddr, SocketAddr) {
    let config = Config::from_yaml(
        "domain: shop\ndescriptors:\n\
         - key: user\n  rate_limit: { unit: hour, requests_per_unit: 2 }\n",
    );
    let service = Service::with_settings(&config.unwrap(), store, settings, MonotonicClock::new());
    let grpc = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = (grpc.local_addr().unwrap(), http.local_addr().unwrap());
    tokio::spawn(Server::new(service).with_bounds(bounds).serve(grpc, http, pending()));
    addresses
}

/// Sends a request over HTTP/1.1, and returns the response once the connection is closed.
pub(crate) async fn exchange(address: SocketAddr, request: String) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}
