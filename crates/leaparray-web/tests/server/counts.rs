//! The counts of the stream equal the counts of the recorded requests.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Success};
use leaparray::{Clock, MetricTotals};
use leaparray_web::format::{Counts, Message};

use crate::client::Stream;
use crate::{SECOND, Server};

/// The sums of all rows by the name and the context.
type Sums = HashMap<(String, Option<String>), [u64; 5]>;

fn events(counts: &Counts) -> [u64; 5] {
    [Pass, Success, Exception, Cancelled, Block].map(|event| counts.events[event])
}

fn add(sum: &mut [u64; 5], other: [u64; 5]) {
    sum.iter_mut().zip(other).for_each(|(sum, it)| *sum += it);
}

/// Reads until the second `last`, and returns the sums and the number of events in the newest
/// ledger.
async fn sums(stream: &mut Stream, last: u64) -> (Sums, [u64; 5], u64) {
    let (mut names, mut sums, mut total) = (HashMap::new(), Sums::new(), [0; 5]);
    loop {
        match stream.message().await.expect("the stream goes on") {
            Message::Resources(resources) => {
                names.extend(resources.resources.into_iter().map(|it| (it.id, it)));
            }
            Message::Second(second) => {
                names.extend(second.new.into_iter().map(|it| (it.id, it)));
                add(&mut total, events(&second.total));
                for row in &second.rows {
                    let node = &names[&row.id];
                    let sum = sums.entry((node.name.clone(), node.context.clone())).or_default();
                    add(sum, events(&row.counts));
                }
                if second.t == last {
                    return (sums, total, second.ledger.unwrap().recorded);
                }
            }
            _ => {}
        }
    }
}

fn lifetime(totals: &MetricTotals) -> [u64; 5] {
    [Pass, Success, Exception, Cancelled, Block].map(|event| totals.sum(event))
}

/// Four threads record in each second, and resources are evicted and removed while the stream is
/// read.
#[tokio::test]
async fn sum_of_the_seconds_equals_what_was_counted() {
    let server = Server::start().await;
    let mut stream = server.lines("").await;
    for second in 0..8_u64 {
        thread::scope(|scope| {
            for number in 0..4_u64 {
                let server = &server;
                scope.spawn(move || record(server, second, number));
            }
        });
        if second == 3 {
            assert!(server.registry.remove("orders 1"));
            assert!(
                server.registry.evict_idle_at(server.registry.clock().now(), Duration::ZERO) > 0
            );
        }
        server.end_second();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.clock.advance(SECOND);
    let (sums, total, recorded) = sums(&mut stream, crate::FIRST + 8).await;

    let expected = lifetime(&server.registry.lifetime());
    assert!(expected.iter().all(|it| *it > 0), "{expected:?}");
    assert_eq!(total, expected);
    assert_eq!(recorded, expected.iter().sum::<u64>());
    let mut of_rows = [0; 5];
    for sum in sums.values() {
        add(&mut of_rows, *sum);
    }
    assert_eq!(of_rows, expected);
    // Not evicted since: each row by itself.
    for (name, context) in [("orders 0", None), ("orders 0", Some("web"))] {
        let node = server.resource(name);
        let node = context.map_or(Ok(node.clone()), |it| node.in_context(it)).unwrap();
        let of_node = sums[&(name.to_owned(), context.map(Into::into))];
        let (after, of_node): (u64, u64) =
            (lifetime(&node.lifetime()).iter().sum(), of_node.iter().sum());
        assert!(after > 0 && after <= of_node, "{after} of {of_node}");
    }
}

fn record(server: &Server, second: u64, number: u64) {
    for request in 0..50 + second {
        let resource = server.resource(&format!("orders {}", request % 3));
        let resource =
            if request % 4 == 0 { resource.in_context("web").unwrap() } else { resource };
        match (request + number) % 5 {
            0 => resource.block(),
            1 => resource.enter().exception(),
            2 => resource.enter().cancel(),
            _ => resource.enter().success(),
        }
    }
}

#[tokio::test]
async fn two_readers_get_the_same_bytes_in_both_encodings() {
    let server = Server::start().await;
    let (mut one, mut other) = (server.lines("").await, server.lines("").await);
    let mut events = server.events("", &[]).await;
    let instance = one.hello().await.instance;
    other.hello().await;
    events.hello().await;
    for _ in 0..3 {
        server.resource("orders").enter().success();
        server.end_second();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let (mut lines, mut seconds) = (0, 0);
    while seconds < 3 {
        let (line, same) = (one.line().await.unwrap(), other.line().await.unwrap());
        assert_eq!(line, same);
        loop {
            let event = events.line().await.unwrap();
            if let Some(id) = event.strip_prefix("id: ") {
                assert_eq!(id, format!("{instance}.{}", crate::FIRST + seconds));
                seconds += 1;
            }
            if let Some(data) = event.strip_prefix("data: ") {
                assert_eq!(data, line);
                break;
            }
        }
        lines += 1;
    }
    assert!(lines >= 4);
}

#[tokio::test]
async fn names_are_text_whatever_they_contain() {
    let server = Server::start().await;
    let names = [
        r#"<script>alert("1")</script>"#,
        r#"a"b\c'd"#,
        "</style><img src=x onerror=alert(1)>",
        "data: id: event:",
        "naïve – 価格 🦀",
    ];
    for name in names {
        server.resource(name).in_context(name).unwrap().block();
    }
    let mut stream = server.events("", &[]).await;
    server.end_second();
    stream.hello().await;
    let mut found = Vec::new();
    while found.len() < 2 * names.len() {
        match stream.message().await.unwrap() {
            Message::Resources(it) => found.extend(it.resources),
            Message::Second(it) => found.extend(it.new),
            _ => {}
        }
    }
    for name in names {
        assert!(found.iter().any(|it| it.name == name && it.context.is_none()));
        assert!(found.iter().any(|it| it.name == name && it.context.as_deref() == Some(name)));
    }
}

#[tokio::test]
async fn controllers_are_shown_with_their_states() {
    use leaparray::flow::breaker::AdaptiveBreakerConfig;
    use leaparray::flow::shadow::{Mode, Shadow};
    use leaparray::flow::{
        self, AdaptiveBreaker, CircuitBreaker, CircuitConfig, FixedWindowLimiter, LimiterExt, Rate,
        TokenBucket,
    };
    use leaparray_web::format::ControllerState::{Circuit, Drop, Keyed, Limit};
    use std::sync::Arc;

    let circuit = Arc::new(CircuitBreaker::new(CircuitConfig::default().consecutive_exceptions(1)));
    let limiter = FixedWindowLimiter::new(SECOND * 3_600, 10).unwrap();
    assert!(limiter.try_acquire_many(3).is_admitted());
    let breaker = Arc::new(AdaptiveBreaker::new(AdaptiveBreakerConfig::default()));
    let limit = TokenBucket::new(Rate::per_minute(1).unwrap(), 1);
    let clients = flow::Keyed::<u64, _>::new(limit, 10).unwrap();
    for client in [7, 8, 8, 8] {
        let _ = clients.try_acquire(&client);
    }
    let server = Server::start().await;
    let registry = &server.registry;
    registry.watch("POST /pay", Arc::clone(&circuit)).unwrap();
    registry.watch("GET /orders", limiter).unwrap();
    registry.watch("GET /x", breaker).unwrap();
    registry.watch_at("GET /x", "clients", Arc::new(clients)).unwrap();
    let shadow = Shadow::new(FixedWindowLimiter::new(SECOND * 3_600, 0).unwrap(), Mode::Shadow);
    assert!(shadow.try_acquire().is_admitted());
    registry.watch_at("GET /x", "tried", shadow).unwrap();
    let mut stream = server.lines("").await;
    server.end_second();
    stream.second().await;
    circuit.try_acquire().at_once().unwrap().reject();
    server.end_second();
    let controllers = stream.second().await.controllers.unwrap();
    let names: Vec<_> = controllers.iter().map(|it| it.resource.as_str()).collect();
    assert_eq!(names, ["GET /orders", "GET /x", "POST /pay", "GET /x", "GET /x"]);
    assert_eq!(controllers[3].name.as_deref(), Some("clients"));
    assert!(controllers[..4].iter().all(|it| it.shadow.is_none()));
    let tried = controllers[4].shadow.as_ref().unwrap();
    assert_eq!((tried.mode.as_str(), tried.would_refuse, tried.would_delay), ("shadow", 1, 0));
    assert!(tried.enforced_share.abs() < f64::EPSILON);
    let states: Vec<_> = controllers.into_iter().map(|it| it.state).collect();
    let [
        Limit { limit, remaining, .. },
        Drop { probability, .. },
        Circuit { state, probe_in, cause, .. },
        Keyed { keys, top_refused, .. },
        Limit { limit: 0, .. },
    ] = &states[..]
    else {
        panic!("{states:?}")
    };
    assert_eq!((state.as_str(), cause.as_deref()), ("open", Some("consecutive exceptions")));
    assert!(probe_in.is_some_and(|it| it > 0.0));
    assert_eq!((*limit, *remaining), (10, 7));
    assert!(probability.abs() < f64::EPSILON);
    assert_eq!((*keys, top_refused.len()), (2, 1));
    assert_eq!((top_refused[0].key.as_str(), top_refused[0].refusals), ("8", 2));
}
