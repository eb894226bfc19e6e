//! The command centre on a port of its own, by loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::Rules;
use leaparray_sentinel::{Access, CommandCenter, RuleBook, bind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::service::{START, encoded};

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Sends bytes, and returns all that comes until the connection is closed.
async fn exchange(to: SocketAddr, request: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // A connection that is refused may be reset.
        let _ = stream.read_to_string(&mut answer).await;
        answer
    };
    timeout(Duration::from_secs(60), exchange).await.expect("an answer")
}

fn registry() -> Arc<Registry<ManualClock>> {
    let clock = ManualClock::new(Timestamp::from_secs(START));
    Arc::new(Registry::with_clock(RegistryConfig::default(), clock))
}

#[tokio::test]
async fn answers_are_by_http_1_0_and_close_the_connection() {
    let (listener, address) = listen().await;
    let serving = tokio::spawn(CommandCenter::new(registry()).serve(listener));
    for request in
        ["GET /version HTTP/1.1\r\nHost: 127.0.0.1:8719\r\n\r\n", "GET /version HTTP/1.0\r\n\r\n"]
    {
        assert_eq!(
            exchange(address, request).await,
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\
             X-Content-Type-Options: nosniff\r\n\r\n1.8.9"
        );
    }
    let post = "POST /setRules HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
    assert!(exchange(address, post).await.starts_with("HTTP/1.0 411 Length Required\r\n"));
    serving.abort();
}

#[tokio::test]
async fn client_that_ends_its_direction_is_answered() {
    let (listener, address) = listen().await;
    let serving = tokio::spawn(CommandCenter::new(registry()).serve(listener));
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /version HTTP/1.0\r\n\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = timeout(Duration::from_secs(60), exchange).await.unwrap();
    assert!(answer.ends_with("\r\n\r\n1.8.9"), "{answer}");
    serving.abort();
}

#[tokio::test]
async fn connection_of_another_address_is_closed_at_once() {
    let (listener, address) = listen().await;
    let access: Access = Access::default();
    let center = CommandCenter::new(registry()).access(access);
    let serving = tokio::spawn(center.serve(listener));
    let request = "GET /version HTTP/1.0\r\n\r\n";
    assert!(exchange(address, request).await.ends_with("1.8.9"));
    serving.abort();
    // An address of this machine that is not of loopback, if it has one.
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let is_connected = socket.connect("192.0.2.1:9").is_ok();
    let own = socket.local_addr().unwrap().ip();
    if !is_connected || own.is_loopback() {
        return;
    }
    let serving = tokio::spawn(CommandCenter::new(registry()).serve(listener));
    assert_eq!(exchange((own, port).into(), request).await, "");
    serving.abort();
}

#[tokio::test]
async fn next_port_is_taken_if_the_first_is_not_free() {
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let [one, other] = [bind(loopback).await.unwrap(), bind(loopback).await.unwrap()];
    let [one, other] = [one, other].map(|it| it.local_addr().unwrap().port());
    assert!(one >= 8719 && other > one, "{one} {other}");
}

#[tokio::test]
async fn pushed_rule_limits_a_service_of_axum_from_the_next_request_on() {
    let registry = registry();
    let rules = Rules::new(Arc::clone(&registry));
    let book = Arc::new(RuleBook::new(rules.clone()));
    let (commands, center_address) = listen().await;
    let center = CommandCenter::new(Arc::clone(&registry)).rules(book).accept_rules();
    let center = tokio::spawn(center.serve(commands));
    let app = Router::new().route("/orders", get(async || "orders")).layer(rules.layer().unwrap());
    let (listener, address) = listen().await;
    let service = tokio::spawn(async { axum::serve(listener, app).await });

    let request = "GET /orders HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let ask = async || exchange(address, request).await.split(' ').nth(1).unwrap().to_owned();
    for _ in 0..10 {
        assert_eq!(ask().await, "200");
    }
    registry.clock().advance(Duration::from_secs(1));
    let json = r#"[{"resource":"GET /orders","limitApp":"default","grade":1,"count":3.0,"strategy":0,"controlBehavior":0,"clusterMode":false}]"#;
    let form = format!("type=flow&data={}", encoded(json));
    let push = format!(
        "POST /setRules HTTP/1.1\r\nHost: {center_address}\r\n\
         Content-Type: application/x-www-form-urlencoded; charset=UTF-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{form}",
        form.len()
    );
    assert!(exchange(center_address, &push).await.ends_with("\r\n\r\nsuccess"));
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(ask().await);
    }
    assert_eq!(statuses, ["200", "200", "200", "429", "429"]);
    registry.clock().advance(Duration::from_secs(1));
    assert_eq!(ask().await, "200");
    center.abort();
    service.abort();
}
