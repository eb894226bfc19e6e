//! A key of etcd.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leaparray_rules::{Event, Follow, SourceState};

use super::{DAY, away, changed, follow, next, rule, state};
use crate::server::{Server, free_port};

fn start(test: &str) -> Option<Server> {
    let (port, peers, folder) = (free_port(), free_port(), tempfile::tempdir().unwrap());
    let [client, peer] = [port, peers].map(|it| format!("http://127.0.0.1:{it}"));
    let path = folder.path().join("data").to_str().unwrap().to_owned();
    let arguments = [
        "--data-dir",
        &path,
        "--listen-client-urls",
        &client,
        "--advertise-client-urls",
        &client,
        "--listen-peer-urls",
        &peer,
        "--initial-advertise-peer-urls",
        &peer,
        "--initial-cluster",
        &format!("default={peer}"),
    ];
    Server::start(test, "etcd", port, folder, &arguments)
}

fn endpoint(server: &Server) -> String {
    format!("http://127.0.0.1:{}", server.port)
}

/// Sends a request to the gateway until the server has a leader.
fn post(server: &Server, path: &str, fields: &[(&str, &str)]) {
    let fields = fields.iter().map(|(name, text)| format!("{name:?}:{:?}", STANDARD.encode(text)));
    let body = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
    for _ in 0..300 {
        if ureq::post(format!("{}/v3/kv/{path}", endpoint(server))).send(&body).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("etcd takes no key");
}

fn put(server: &Server, key: &str, text: &str) {
    post(server, "put", &[("key", key), ("value", text)]);
}

#[test]
#[ignore = "needs etcd"]
fn watch_has_the_key_read_at_once() {
    let Some(server) = start("watch_has_the_key_read_at_once") else { return };
    put(&server, "shop/limits", &rule("a", 1));
    put(&server, "shop/limits2", "of another service");
    // The first endpoint is none.
    let endpoints = [format!("http://127.0.0.1:{}", free_port()), endpoint(&server)];
    let (rules, events) = follow(Follow::etcd(endpoints, "shop/limits").every(DAY));
    for burst in 2..5 {
        put(&server, "shop/limits", &rule("a", burst));
        assert_eq!(changed(&events), [Arc::from("a")], "{burst}");
    }
    put(&server, "shop/limits", "rule = 1");
    let Event::Wrong(problems) = next(&events) else { panic!() };
    assert!(problems.to_string().starts_with("shop/limits:1: rule: is an integer"), "{problems}");
    post(&server, "deleterange", &[("key", "shop/limits")]);
    assert_eq!(away(&events), "there is no key \"shop/limits\"");
    assert!(matches!(state(&rules), SourceState::Away { .. }));
    assert_eq!(rules.rules().len(), 1, "the last good ones");
}

#[test]
#[ignore = "needs etcd"]
fn keys_with_a_prefix_are_one_list_and_a_server_that_is_away_keeps_it() {
    let test = "keys_with_a_prefix_are_one_list_and_a_server_that_is_away_keeps_it";
    let Some(mut server) = start(test) else { return };
    put(&server, "shop/b", &rule("b", 1));
    put(&server, "shop/a", &rule("a", 1));
    put(&server, "shop0", "of another service");
    let source = Follow::etcd_prefix([endpoint(&server)], "shop/");
    let (rules, events) = follow(source.every(Duration::from_millis(100)));
    let names: Vec<_> = rules.rules().iter().map(|it| it.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    put(&server, "shop/c", &rule("c", 1));
    let Event::Applied(changes) = next(&events) else { panic!() };
    assert_eq!(changes.added, [Arc::from("c")]);
    server.kill();
    assert!(!away(&events).is_empty());
    assert_eq!(rules.rules().len(), 3, "the last good ones");
    server.start_again();
    let Event::Applied(changes) = next(&events) else { panic!() };
    assert!(changes.is_empty());
    // The watch has begun anew.
    put(&server, "shop/c", &rule("c", 2));
    assert_eq!(changed(&events), [Arc::from("c")]);
}
