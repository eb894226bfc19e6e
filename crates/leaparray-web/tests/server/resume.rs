//! A reader that connects again misses nothing and gets nothing twice.

use std::time::Duration;

use crate::client::Stream;
use crate::{FIRST, Server};
use leaparray::MetricEvent::Block;

async fn seconds_until(stream: &mut Stream, last: u64) -> Vec<u64> {
    let mut seconds = Vec::new();
    while seconds.last() != Some(&last) {
        seconds.push(stream.second().await.t);
    }
    seconds
}

/// Ends seconds, one after the other, and waits until each was read.
async fn end_seconds(server: &Server, witness: &mut Stream, count: u64) {
    for _ in 0..count {
        server.resource("orders").block();
        server.end_second();
        witness.second().await;
    }
}

#[tokio::test]
async fn reader_that_connects_again_continues_after_its_last_second() {
    let server = Server::start().await;
    let mut witness = server.lines("").await;
    let mut stream = server.events("", &[]).await;
    let instance = stream.hello().await.instance;
    end_seconds(&server, &mut witness, 3).await;
    let mut seconds = seconds_until(&mut stream, FIRST + 2).await;
    drop(stream);
    end_seconds(&server, &mut witness, 3).await;

    let last = format!("{instance}.{}", FIRST + 2);
    let mut by_header = server.events("", &[("last-event-id", &last)]).await;
    let mut by_query = server.lines(&format!("?since={last}")).await;
    end_seconds(&server, &mut witness, 1).await;
    assert_eq!(
        seconds_until(&mut by_query, FIRST + 6).await,
        [FIRST + 3, FIRST + 4, FIRST + 5, FIRST + 6]
    );
    seconds.extend(seconds_until(&mut by_header, FIRST + 6).await);
    assert_eq!(seconds, (FIRST..=FIRST + 6).collect::<Vec<_>>());
}

#[tokio::test]
async fn later_of_two_positions_counts() {
    let server = Server::start().await;
    let mut witness = server.lines("").await;
    let instance = witness.hello().await.instance;
    end_seconds(&server, &mut witness, 4).await;
    let query = format!("?since={instance}.{FIRST}");
    let last = format!("{instance}.{}", FIRST + 2);
    let mut stream = server.events(&query, &[("last-event-id", &last)]).await;
    assert_eq!(seconds_until(&mut stream, FIRST + 3).await, [FIRST + 3]);
}

#[tokio::test]
async fn position_in_another_instance_is_ignored() {
    let server = Server::start().await;
    let mut witness = server.lines("").await;
    end_seconds(&server, &mut witness, 2).await;
    for id in ["0123456789abcdef.99999", "nonsense", ""] {
        let mut stream = server.lines(&format!("?since={id}")).await;
        assert_eq!(seconds_until(&mut stream, FIRST + 1).await, [FIRST, FIRST + 1]);
    }
}

#[tokio::test]
async fn restarted_server_is_another_instance() {
    let server = Server::start().await;
    let first = server.lines("").await.hello().await;
    server.closer.close();
    server.task.await.unwrap().unwrap();
    let restarted = Server::start().await;
    let second = restarted.lines("").await.hello().await;
    assert_ne!(first.instance, second.instance);
}

#[tokio::test]
async fn details_of_a_context_come_with_each_second() {
    use leaparray_web::format::Message;

    let server = Server::start().await;
    let web = server.resource("GET /a b").in_context("web&co").unwrap();
    let mut stream = server.lines("?resource=GET%20%2Fa+b&context=web%26co").await;
    let mut lifetimes = Vec::new();
    for _ in 0..3 {
        web.block();
        server.end_second();
        stream.second().await;
        loop {
            if let Message::Detail(detail) = stream.message().await.unwrap() {
                lifetimes.push(detail.node.unwrap().lifetime.counts[Block]);
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(lifetimes, [1, 2, 3]);
}
