//! Rules that follow servers.

mod directory;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "redis")]
mod redis;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
#[cfg(any(feature = "etcd", feature = "redis"))]
use std::time::Duration;

use leaparray::Registry;
#[cfg(any(feature = "etcd", feature = "redis"))]
use leaparray_rules::SourceState;
use leaparray_rules::{Event, Follow, Rules};

use crate::DEADLINE;

/// A day, so that only a wake can be the reason of a reading.
#[cfg(any(feature = "etcd", feature = "redis"))]
const DAY: Duration = Duration::from_secs(86_400);

fn rule(name: &str, burst: u64) -> String {
    format!(
        "[[rule]]\nname = \"{name}\"\nresource = \"{name}\"\n\
         limit = \"1 per day, bursts of {burst}\"\n"
    )
}

/// Follows a source, whose events are in the channel.
fn follow(source: Follow) -> (Rules, Receiver<Event>) {
    let rules = Rules::new(Arc::new(Registry::new()));
    let (sender, events) = channel();
    let source = source.on_event(move |event| drop(sender.send(event.clone())));
    rules.follow(source).unwrap_or_else(|error| panic!("{error}"));
    (rules, events)
}

fn next(events: &Receiver<Event>) -> Event {
    events.recv_timeout(DEADLINE).expect("it happens in time")
}

/// Returns the error of the source, which is away.
fn away(events: &Receiver<Event>) -> String {
    match next(events) {
        Event::Away { error, .. } => error,
        other => panic!("{other:?}"),
    }
}

/// Returns the names of the rules that have changed in their numbers.
fn changed(events: &Receiver<Event>) -> Vec<Arc<str>> {
    match next(events) {
        Event::Applied(changes) => changes.changed,
        other => panic!("{other:?}"),
    }
}

#[cfg(any(feature = "etcd", feature = "redis"))]
fn state(rules: &Rules) -> SourceState {
    rules.status().source.expect("it is followed").state
}
