//! The list of watched limiters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::circuit::{Cause, CircuitState};
use leaparray::flow::watch::{Watch, WatchedState};
use leaparray::flow::{
    Account, AdaptiveBreaker, Ask, CircuitBreaker, CircuitConfig, ConcurrencyLimiter, Decision,
    Keyed, Limiter, LimiterExt, Quota, Rate, TokenBucket, WaitQueue,
};
use leaparray::registry::WatchError;
use leaparray::{Clock, ManualClock, Registry, Timestamp};

use crate::registry::registry;

type Tested = Registry<ManualClock>;

fn names(registry: &Tested) -> Vec<String> {
    registry.watched().into_iter().map(|it| it.name.to_string()).collect()
}

fn state(registry: &Tested, name: &str) -> WatchedState {
    registry.watched().into_iter().find(|it| &*it.name == name).unwrap().state
}

#[test]
fn limiters_of_all_kinds_have_their_state() {
    let (registry, clock) = registry();
    let bucket = TokenBucket::with_clock(Rate::per_minute(60).unwrap(), 5, clock.clone());
    assert!(bucket.try_acquire_many(2).is_admitted());
    registry.watch("bucket", bucket.named("requests")).unwrap();
    registry.watch("queue", WaitQueue::new(Arc::new(ConcurrencyLimiter::new(3)))).unwrap();
    let circuit = Arc::new(CircuitBreaker::with_clock(CircuitConfig::default(), clock.clone()));
    registry.watch("circuit", circuit.clone()).unwrap();
    registry.watch("boxed circuit", circuit.clone().boxed()).unwrap();
    let breaker = AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock.clone());
    registry.watch("breaker", Arc::new(breaker)).unwrap();

    let WatchedState::Quota(quota) = state(&registry, "bucket") else { panic!() };
    assert_eq!((quota.limit, quota.remaining, quota.name), (5, 3, Some("requests")));
    let WatchedState::Quota(quota) = state(&registry, "queue") else { panic!() };
    assert_eq!((quota.limit, quota.remaining), (3, 3));
    let WatchedState::Breaker { drop_probability, .. } = state(&registry, "breaker") else {
        panic!()
    };
    assert!(drop_probability.abs() < f64::EPSILON);

    let WatchedState::Circuit { last: None, .. } = state(&registry, "circuit") else { panic!() };
    for to in [CircuitState::Disabled, CircuitState::ForcedOpen] {
        circuit.set_state_at(circuit.clock().now(), to).unwrap();
        for name in ["circuit", "boxed circuit"] {
            let WatchedState::Circuit { snapshot, last, at, .. } = state(&registry, name) else {
                panic!("{name}")
            };
            let last = last.unwrap();
            assert_eq!((snapshot.state, last.to, last.cause, at), (to, to, Cause::Set, last.at));
        }
    }
}

#[test]
fn keys_of_a_watched_limiter_are_those_that_were_refused_most() {
    let (registry, clock) = registry();
    let limit = TokenBucket::with_clock(Rate::per_minute(1).unwrap(), 1, clock);
    let clients = Arc::new(Keyed::<u64, _>::new(limit, 100).unwrap());
    registry.watch("clients", Arc::downgrade(&clients)).unwrap();
    for client in 1..=20 {
        for _ in 0..client {
            let _ = clients.try_acquire(&client);
        }
    }
    let WatchedState::Keyed { counts, top_refused, .. } = state(&registry, "clients") else {
        panic!()
    };
    assert_eq!(counts.keys, 20);
    let top: Vec<_> = top_refused.iter().map(|it| (it.key.clone(), it.refusals)).collect();
    let expected = (11..=20).rev().map(|client: u64| (client.to_string(), client - 1));
    assert_eq!(top, expected.collect::<Vec<_>>());
}

#[test]
fn name_is_watched_once() {
    let (registry, _) = registry();
    let limiter = |permits| Arc::new(ConcurrencyLimiter::new(permits));
    registry.watch("a", limiter(1)).unwrap();
    let error = registry.watch("a", limiter(2)).unwrap_err();
    assert_eq!(error, WatchError::Duplicate { name: "a".into() });
    assert!(error.to_string().contains("another limiter is watched under the name \"a\""));
    let WatchedState::Quota(quota) = state(&registry, "a") else { panic!() };
    assert_eq!(quota.limit, 1, "the first one stays");
    assert!(registry.unwatch("a") && !registry.unwatch("a"));
    registry.watch("a", limiter(2)).unwrap();
    for (resource, name) in [("a", ""), ("a\n", "b")] {
        let invalid = registry.watch_at(resource, name, limiter(1)).unwrap_err();
        assert!(matches!(invalid, WatchError::InvalidName { .. }), "{invalid}");
    }
    assert_eq!(names(&registry), ["a"]);
}

#[test]
fn list_keeps_a_limiter_unless_it_was_given_a_weak_reference() {
    let (registry, _) = registry();
    let limiter = || Arc::new(ConcurrencyLimiter::new(1));
    let [strong, weak] = [limiter(), limiter()];
    let watched = Arc::downgrade(&strong);
    registry.watch("strong", strong).unwrap();
    registry.watch("weak", Arc::downgrade(&weak)).unwrap();
    assert_eq!(names(&registry), ["strong", "weak"]);
    drop(weak);
    assert_eq!(names(&registry), ["strong"]);
    let weak = limiter();
    registry.watch("weak", Arc::downgrade(&weak)).unwrap();
    drop(weak);
    // Its name is free, although no reading has found that it is gone.
    registry.watch("weak", limiter()).unwrap();
    registry.unwatch("strong");
    assert!(watched.upgrade().is_none());
}

/// A limiter whose code panics if it is told to.
#[derive(Default)]
struct Panics(AtomicBool);

impl Limiter for Panics {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Admitted(())
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Panics {
    fn quota(&self, _: Timestamp) -> Option<Quota> {
        assert!(!self.0.load(Ordering::Relaxed), "a limiter of the user");
        None
    }
}

#[test]
fn limiter_that_panics_is_told_apart_and_the_others_are_read() {
    let (registry, _) = registry();
    let broken = Arc::new(Panics::default());
    registry.watch("a", Arc::clone(&broken)).unwrap();
    registry.watch("b", Arc::new(ConcurrencyLimiter::new(7))).unwrap();
    assert_eq!(state(&registry, "a"), WatchedState::Nothing);
    broken.0.store(true, Ordering::Relaxed);
    assert_eq!(state(&registry, "a"), WatchedState::Panicked);
    assert!(matches!(state(&registry, "b"), WatchedState::Quota(_)));
    // It has its name nevertheless.
    assert!(registry.watch("a", Arc::new(ConcurrencyLimiter::new(7))).is_err());
    broken.0.store(false, Ordering::Relaxed);
    assert_eq!(state(&registry, "a"), WatchedState::Nothing);
}

/// A limiter that changes the list while it is read.
struct Changes(std::sync::Weak<Tested>);

impl Watch for Changes {
    fn watched(&self) -> Option<WatchedState> {
        let registry = self.0.upgrade()?;
        registry.unwatch("other");
        registry.watch("new", Arc::new(ConcurrencyLimiter::new(1))).unwrap();
        Some(WatchedState::Nothing)
    }
}

#[test]
fn limiter_that_is_read_can_change_the_list() {
    let registry = Arc::new(registry().0);
    registry.watch("changes", Changes(Arc::downgrade(&registry))).unwrap();
    registry.watch("other", Arc::new(ConcurrencyLimiter::new(1))).unwrap();
    assert_eq!(registry.watched().len(), 2);
    registry.unwatch("changes");
    assert_eq!(names(&registry), ["new"]);
}
