//! Refusals by the name of the limiter.

use std::sync::Arc;
use std::thread;

use leaparray::flow::{AllOf, Limiter, LimiterExt, Rate, Reason, TokenBucket, WaitQueue};
use leaparray::node::RefusedBy;
use leaparray::{ManualClock, Registry, RegistryConfig};

use crate::resource_node::{NOON, minute, node};

/// A limiter that refuses each request, with that name.
fn refusing(name: &str) -> impl Limiter + use<> {
    TokenBucket::new(Rate::per_minute(1).unwrap(), 0).named(name)
}

fn counts(refused: &RefusedBy) -> Vec<(&str, u64)> {
    refused.iter().collect()
}

#[test]
fn refusal_counts_once_under_the_innermost_name() {
    let (node, _) = node();
    let admitting = TokenBucket::new(Rate::per_minute(1).unwrap(), 100).named("all");
    let both = AllOf::new((&admitting, refusing("client"))).named("both");
    assert!(both.try_enter(&*node).is_err());
    // By each way to enter.
    drop(both.try_acquire_at(NOON, 1).enter_many_at(&*node, NOON, 1));
    let queue = WaitQueue::new(Arc::new(refusing("client")));
    assert!(queue.enter_blocking(&*node, 1, std::time::Duration::ZERO).is_err());
    // A limiter without a name.
    let nameless = TokenBucket::new(Rate::per_minute(1).unwrap(), 0);
    assert!(nameless.try_enter(&*node).is_err());
    node.refuse(Reason::Failing);
    assert_eq!(counts(&node.refused_by()), [("client", 3)]);
    assert_eq!((minute(&node)[1], node.refusals().sum()), (5, 5));
}

/// So the series of a monitor are bounded, whatever names there are, and no refusal is lost.
#[test]
fn seventeenth_name_and_those_after_it_are_counted_together() {
    let (node, _) = node();
    let names: Vec<_> = (0..100).map(|number| format!("limiter {number:02}")).collect();
    for _ in 0..2 {
        for name in &names {
            assert!(refusing(name).try_enter(&*node).is_err());
        }
    }
    let refused = node.refused_by();
    assert_eq!(refused.iter().count(), 17);
    assert!(names[..16].iter().all(|name| refused.get(name) == 2));
    assert_eq!((refused.get(RefusedBy::OTHER), refused.get("limiter 16")), (2 * 84, 0));
}

#[test]
fn threads_that_refuse_by_new_names_at_once_lose_no_refusal() {
    let names: Vec<_> = (0..20).map(|number| format!("raced {number:02}")).collect();
    for _ in 0..50 {
        let (node, _) = node();
        thread::scope(|scope| {
            for first in 0..4 {
                let (node, names) = (&node, &names);
                scope.spawn(move || {
                    for name in names.iter().cycle().skip(5 * first).take(names.len()) {
                        assert!(refusing(name).try_enter(&**node).is_err());
                    }
                });
            }
        });
        let refused = node.refused_by();
        assert_eq!(refused.iter().map(|(_, count)| count).sum::<u64>(), 80);
        // Each name has one counter: it has all refusals of the name, or is among the others.
        let known = refused.iter().filter(|(name, _)| *name != RefusedBy::OTHER);
        assert!(known.map(|(_, count)| count).eq([4; 16]));
    }
}

#[test]
fn snapshots_and_series_add_up_the_names() {
    let clock = ManualClock::new(NOON);
    let registry = Registry::with_clock(RegistryConfig::default(), clock);
    let mut series = registry.series();
    let orders = registry.resource("orders").unwrap();
    assert!(refusing("all").try_enter(&*orders).is_err());
    let web = orders.in_context("web").unwrap();
    for name in ["all", "clients"] {
        assert!(refusing(name).try_enter(&*web).is_err());
    }
    let total = orders.total_snapshot(NOON);
    assert_eq!(counts(&total.refused_by), [("all", 2), ("clients", 1)]);
    // A series goes on over a removal.
    drop((orders, web));
    assert!(registry.remove("orders"));
    assert!(refusing("all").try_enter(&*registry.resource("orders").unwrap()).is_err());
    let reading = series.read(&registry);
    let orders = reading.iter().find(|it| it.key().context.is_none()).unwrap();
    assert_eq!(counts(&orders.counts().refused_by), [("all", 2)]);
}
