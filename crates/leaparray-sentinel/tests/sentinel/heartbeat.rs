//! The heartbeat, with a server of the dashboard on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use leaparray_sentinel::{Heartbeat, HeartbeatState};
use tokio::net::TcpSocket;

const PATIENCE: Duration = Duration::from_secs(60);

/// Answers heartbeats with a text, and passes the requests on.
fn server(answer: &'static str) -> (SocketAddr, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length, mut header) = (String::new(), 0, String::new());
            stream.read_line(&mut line).unwrap();
            while stream.read_line(&mut header).unwrap() > 2 {
                if let Some(it) = header.to_lowercase().strip_prefix("content-length: ") {
                    length = it.trim().parse().unwrap();
                }
                header.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let head = "HTTP/1.1 200 \r\nContent-Type: application/json;charset=UTF-8\r\n";
            let length = answer.len();
            let answer = format!("{head}Content-Length: {length}\r\n\r\n{answer}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if requests.send((line, String::from_utf8(body).unwrap())).is_err() {
                return;
            }
        }
    });
    (address, received)
}

const ACCEPTED: &str = r#"{"success":true,"code":0,"msg":"success","data":null}"#;
const REFUSED: &str = r#"{"success":false,"code":-1,"msg":"invalid app","data":null}"#;

/// Returns an address at which nothing listens. No other test gets its port while the socket lives.
fn away() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn next_server_is_told_if_the_first_is_away_or_refuses() {
    let (_reserved, gone) = away();
    let (refusing, _refused) = server(REFUSED);
    let (accepting, accepted) = server(ACCEPTED);
    let (changes, states) = channel();
    let heartbeat = Heartbeat::new("shop & co", 8719)
        .host_name("web-1")
        .server(gone.to_string())
        .server(refusing.to_string())
        .server(format!("{accepting}/sentinel/"))
        .on_change(move |it| changes.send(it.to_string()).unwrap())
        .every(Duration::from_secs(1))
        .start()
        .unwrap();
    let (line, form) = accepted.recv_timeout(PATIENCE).unwrap();
    assert_eq!(line, "POST /sentinel/registry/machine HTTP/1.1\r\n");
    let (form, version) = form.rsplit_once("&version=").unwrap();
    let form = form.replace("%20", "+");
    assert_eq!(form, "app=shop+%26+co&app_type=0&hostname=web-1&ip=127.0.0.1&port=8719&v=1.8.9");
    assert!(version.parse::<u64>().unwrap() > 1_700_000_000_000, "{version}");
    let registered = format!("registered with {accepting}/sentinel/");
    assert_eq!(states.recv_timeout(PATIENCE).unwrap(), registered);
    assert_eq!(heartbeat.state().to_string(), registered);
    accepted.recv_timeout(PATIENCE).expect("again and again");
    drop(heartbeat);
    // The channel of changes ends with the thread.
    while states.recv_timeout(PATIENCE).is_ok() {}
}

#[test]
fn server_is_written_as_an_address_of_the_web_as_well() {
    let (accepting, accepted) = server(ACCEPTED);
    let heartbeat = Heartbeat::new("shop", 8719).server(format!("http://{accepting}/")).start();
    let (line, _) = accepted.recv_timeout(PATIENCE).unwrap();
    assert_eq!(line, "POST /registry/machine HTTP/1.1\r\n");
    drop(heartbeat.unwrap());
}

/// The environment of a test is that of all tests, so another process has it.
#[test]
fn proxy_of_the_environment_is_not_used() {
    const NAME: &str = "heartbeat::server_is_written_as_an_address_of_the_web_as_well";
    let (_reserved, gone) = away();
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", NAME]).env("ALL_PROXY", format!("http://{gone}"));
    let output = program.env("NO_PROXY", "").env("no_proxy", "").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn state_tells_what_each_server_has_said() {
    let (refusing, _refused) = server(REFUSED);
    let (changes, states) = channel();
    let heartbeat = Heartbeat::new("", 1)
        .server(refusing.to_string())
        .on_change(move |it| changes.send(it.clone()).unwrap())
        .start()
        .unwrap();
    let state = states.recv_timeout(PATIENCE).unwrap();
    assert_eq!(heartbeat.state(), state);
    assert!(matches!(&state, HeartbeatState::Away { failures: 1, .. }), "{state}");
    assert_eq!(
        state.to_string(),
        format!("not registered; {refusing}: it refuses: invalid app (code -1)")
    );
}
