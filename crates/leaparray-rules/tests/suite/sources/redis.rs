//! A key of Redis.

use std::sync::Arc;
use std::time::Duration;

use leaparray_rules::{Event, Follow, SourceState};

use super::{DAY, away, changed, follow, next, rule, state};
use crate::server::{Server, free_port};

fn start(test: &str) -> Option<Server> {
    let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
    let path = folder.path().to_str().unwrap().to_owned();
    let arguments = ["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir", &path];
    Server::start(test, "redis-server", port, folder, &arguments)
}

fn address(server: &Server) -> String {
    format!("redis://127.0.0.1:{}/", server.port)
}

fn set(server: &Server, text: &str) {
    let client = redis::Client::open(address(server)).unwrap();
    let mut connection = client.get_connection().unwrap();
    redis::cmd("SET").arg("limits").arg(text).exec(&mut connection).unwrap();
    redis::cmd("PUBLISH").arg("changed").arg("").exec(&mut connection).unwrap();
}

fn source(server: &Server) -> Follow {
    Follow::redis(address(server), "limits", "changed").unwrap()
}

#[test]
#[ignore = "needs redis-server"]
fn message_has_the_key_read_at_once() {
    let Some(server) = start("message_has_the_key_read_at_once") else { return };
    set(&server, &rule("a", 1));
    let (rules, events) = follow(source(&server).every(DAY));
    // The first message may come before the subscription, which then has the key read.
    for burst in 2..5 {
        set(&server, &rule("a", burst));
        assert_eq!(changed(&events), [Arc::from("a")], "{burst}");
    }
    set(&server, "rule = 1");
    let Event::Wrong(problems) = next(&events) else { panic!() };
    assert!(
        problems.to_string().starts_with(&format!(
            "127.0.0.1:{}: key \"limits\":1: rule: is an integer",
            server.port
        ))
    );
    assert_eq!(state(&rules), SourceState::Wrong(problems));
    assert_eq!(rules.rules().len(), 1, "the last good ones");
    set(&server, &rule("a", 4));
    let Event::Applied(changes) = next(&events) else { panic!() };
    assert!(changes.is_empty());
}

#[test]
#[ignore = "needs redis-server"]
fn server_that_is_away_or_slow_keeps_the_last_rules() {
    let Some(mut server) = start("server_that_is_away_or_slow_keeps_the_last_rules") else {
        return;
    };
    let missing = source(&server).may_be_away().every(Duration::from_millis(50));
    let (rules, events) = follow(missing);
    let SourceState::Away { error, .. } = state(&rules) else { panic!() };
    assert_eq!(error, "there is no key \"limits\"");
    set(&server, &rule("a", 1));
    let Event::Applied(changes) = next(&events) else { panic!() };
    assert_eq!(changes.added, [Arc::from("a")]);

    server.signal("STOP");
    assert!(!away(&events).is_empty(), "no answer in five seconds");
    server.signal("CONT");
    assert!(matches!(next(&events), Event::Applied(it) if it.is_empty()));

    server.kill();
    assert!(!away(&events).is_empty());
    assert_eq!(rules.rules().len(), 1, "the last good ones");
    server.start_again();
    set(&server, &rule("a", 2));
    // The key may be read before it is set.
    let event = next(&events);
    assert!(matches!(&event, Event::Applied(it) if it.changed == [Arc::from("a")]), "{event:?}");
    let status = rules.status().source.unwrap();
    assert!(status.failures >= 3 && status.readings > status.failures, "{status:?}");
}
