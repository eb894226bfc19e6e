//! The permit: each ends once, and a cancelled request leaves no trace.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leaparray::{Clock, Outcome};

use super::simulation::{Answer, simulate};
use super::*;

#[test]
fn permit_counts_once_however_it_ends() {
    let (breaker, _) = breaker(AdaptiveBreakerConfig::default(), Strict);
    let acquire = || breaker.try_acquire().at_once().expect("too few requests to drop one");
    acquire().accept();
    acquire().reject();
    acquire().cancel();
    assert_eq!(counts(&breaker), [1, 1, 0]);
    drop(acquire());
    assert_eq!(counts(&breaker), [1, 2, 0]);
    let early_return = || -> Option<()> {
        let permit = acquire();
        None::<()>?;
        permit.accept();
        Some(())
    };
    assert_eq!(early_return(), None);
    assert_eq!(counts(&breaker), [1, 3, 0]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _promise = acquire();
        panic!("in the middle of a request");
    }));
    assert!(panicked.is_err());
    assert_eq!(counts(&breaker), [1, 4, 0]);
    let later = NOON.saturating_add(SECOND);
    acquire().end_at(later, Outcome::Success);
    acquire().end_at(later, Outcome::Exception);
    assert_eq!(counts(&breaker), [2, 5, 0]);
    let later = breaker.window().at(later).buckets().last().expect("the last bucket").totals;
    assert_eq!((later.sum(Success), later.sum(Exception)), (1, 1));
}

#[tokio::test]
async fn owned_permit_is_accepted_on_another_task() {
    let clock = ManualClock::new(NOON);
    let breaker = Arc::new(AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock));
    let acquire = || breaker.try_acquire().at_once().expect("too few requests to drop one");
    let permit = acquire();
    tokio::spawn(async move { permit.accept() }).await.expect("the task does not panic");
    let permit = acquire();
    let cancelled = tokio::spawn(async move {
        std::future::pending::<()>().await;
        permit.accept();
    });
    cancelled.abort();
    assert!(cancelled.await.is_err());
    assert_eq!([Success, Exception].map(|event| breaker.window().now().sum(event)), [1, 1]);
}

#[test]
fn clients_that_go_away_do_not_make_the_breaker_drop_requests() {
    let refused_of = |policy| {
        let config = AdaptiveBreakerConfig::default().on_drop(policy);
        let (breaker, clock) = breaker(config, SeededRandom::new(1));
        let refused = (0..1_000).filter(|_| {
            clock.advance(MILLI);
            !breaker.try_acquire().is_admitted()
        });
        (refused.count(), breaker)
    };
    let (refused, breaker) = refused_of(OnDrop::Cancelled);
    assert_eq!((refused, counts(&breaker)), (0, [0, 0, 0]));
    assert_eq!(breaker.window().lifetime().sum(Cancelled), 1_000);
    assert!(refused_of(OnDrop::Exception).0 > 500, "by default, a drop rejects");
}

#[test]
fn permit_that_is_dropped_follows_its_own_policy_and_a_panic_rejects() {
    let (breaker, _) = breaker(AdaptiveBreakerConfig::default(), ThreadRandom);
    let cancelled = |breaker: &Breaker<_>| breaker.window().lifetime().sum(Cancelled);
    drop(breaker.try_acquire().map(|permit| permit.on_drop(OnDrop::Cancelled)));
    assert_eq!((counts(&breaker), cancelled(&breaker)), ([0, 0, 0], 1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = breaker.try_acquire().map(|permit| permit.on_drop(OnDrop::Cancelled));
        panic!("in the middle of a request");
    }));
    assert!(panicked.is_err());
    assert_eq!((counts(&breaker), cancelled(&breaker)), ([0, 1, 0], 1));
}

#[test]
fn cancelled_request_does_not_change_the_drop_probability() {
    let (breaker, _) = strict();
    let permits: Vec<_> = (0..5).map(|_| breaker.try_acquire().at_once().unwrap()).collect();
    for _ in 0..3 {
        breaker.window().add(Exception, 1);
    }
    let before = breaker.drop_probability_at(breaker.clock().now());
    assert!(before > 0.5);
    for permit in permits {
        permit.end_at(NOON, Outcome::Cancelled);
    }
    assert_eq!(breaker.drop_probability_at(breaker.clock().now()).to_bits(), before.to_bits());
}

/// A probe that is cancelled makes the next request a probe, which would be dropped otherwise.
#[test]
fn cancelled_probe_leaves_its_turn_to_the_next_request() {
    let (breaker, clock) = strict();
    assert!(ask(&breaker, false));
    for _ in 0..10 {
        clock.advance(MILLI);
        let probe = breaker.try_acquire().at_once().expect("a probe is due");
        assert!(!ask(&breaker, false), "there is one probe");
        probe.cancel();
    }
    let before = counts(&breaker);
    drop(breaker.try_acquire().at_once().expect("a probe is due").on_drop(OnDrop::Cancelled));
    assert!(ask(&breaker, false), "a drop that cancels leaves its turn as well");
    assert!(!ask(&breaker, false), "a probe that was rejected does not");
    assert_eq!(counts(&breaker), [before[0], before[1] + 1, before[2] + 1]);
}

/// A request gets through by chance after a probe, and the probe is cancelled. The next probe
/// follows from the request.
#[test]
fn cancelled_probe_leaves_no_turn_if_another_request_got_through_since() {
    let config = AdaptiveBreakerConfig::default().min_requests(0).k(1.0).unwrap();
    let (breaker, clock) = breaker(config, Draws::from([0, u32::MAX, 0]));
    assert!(ask(&breaker, true) && ask(&breaker, false));
    let probe = breaker.try_acquire().at_once().expect("a probe is due");
    clock.advance(MILLI * 500);
    let lucky = breaker.try_acquire().at_once().expect("a high draw");
    probe.cancel();
    clock.advance(MILLI * 999);
    assert!(!ask(&breaker, false), "the request by chance got through 999 ms ago");
    clock.advance(MILLI);
    assert!(ask(&breaker, false));
    lucky.cancel();
}

/// A probe is cancelled after another request got through, and so leaves its time to that request.
/// If that one is cancelled as well, the next probe follows from the time of the first.
#[test]
fn cancelled_probe_postpones_the_next_one_if_the_request_after_it_is_cancelled_later() {
    for in_order in [true, false] {
        let config = AdaptiveBreakerConfig::default().min_requests(0).k(1.0).unwrap();
        let (breaker, clock) = breaker(config, Draws::from([0, u32::MAX, 0]));
        assert!(ask(&breaker, true) && ask(&breaker, false));
        let probe = breaker.try_acquire().at_once().expect("a probe is due");
        clock.advance(MILLI * 500);
        let lucky = breaker.try_acquire().at_once().expect("a high draw");
        let (first, second) = if in_order { (probe, lucky) } else { (lucky, probe) };
        first.cancel();
        second.cancel();
        assert_eq!(ask(&breaker, false), !in_order);
        clock.advance(MILLI * 500);
        assert_eq!(ask(&breaker, false), in_order, "a second after the probe");
    }
}

/// A request that got through by chance and was cancelled does not postpone the next probe.
#[test]
fn cancelled_request_does_not_postpone_the_next_probe() {
    let config = AdaptiveBreakerConfig::default().min_requests(0).k(1.0).unwrap();
    let (breaker, clock) = breaker(config, Draws::from([0, u32::MAX, 0]));
    assert!(ask(&breaker, true) && ask(&breaker, false));
    assert!(ask(&breaker, false), "a probe");
    clock.advance(MILLI * 500);
    breaker.try_acquire().at_once().expect("a high draw").cancel();
    clock.advance(MILLI * 499);
    assert!(!ask(&breaker, false));
    clock.advance(MILLI);
    assert!(ask(&breaker, false), "a second after the last probe");
}

/// Clients give up after two seconds, whatever the backend does. The breaker learns nothing from
/// them.
#[test]
fn attempts_that_are_cancelled_drop_nothing() {
    let answer = |secs: f64| Answer { after: MILLI * 2_000, outcome: outcome_until(secs, 20.0) };
    for rate in [3.0, 100.0, 2_000.0] {
        let report =
            simulate(AdaptiveBreakerConfig::default(), &[(rate, 60.0)], |secs, _| answer(secs), 1);
        assert_eq!(report.dropped(0.0, 60.0), 0, "{rate}");
    }
}

fn outcome_until(secs: f64, end: f64) -> Outcome {
    if secs < end { Outcome::Success } else { Outcome::Cancelled }
}
