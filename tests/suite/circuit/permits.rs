//! The outcomes that count, and the outcomes that do not.

use std::sync::Arc;
use std::thread;

use leaparray::flow::circuit::CircuitState::{Closed, HalfOpen, Open};
use leaparray::flow::circuit::Wait;
use leaparray::flow::{AllOf, CircuitBreaker, CircuitConfig, Limiter, LimiterExt, Reason};
use leaparray::node::OnDrop;
use leaparray::{Clock, ManualClock, MetricEvent, NodeConfig, ResourceNode};

use crate::circuit::{NOON, SECOND, Scene};

fn growing_wait() -> Wait {
    Wait::new(5 * SECOND).growing(2.0, 600 * SECOND).unwrap()
}

#[test]
fn outcome_of_an_earlier_state_changes_nothing() {
    let scene = Scene::new(Scene::base());
    let [late_success, late_failure, third] = [(); 3].map(|()| scene.ask().unwrap());
    scene.calls("FFFFF").is(Open);
    late_failure.reject();
    scene.is(Open).after(6 * SECOND);
    let probe = scene.ask().unwrap();
    scene.is(HalfOpen);
    late_success.accept();
    assert_eq!(scene.counted(), (0, 0, 0));
    probe.accept();
    scene.calls("SSS").is(Closed);
    third.reject();
    assert_eq!(scene.counted(), (0, 0, 0));
}

#[test]
fn probe_of_an_earlier_half_open_state_changes_nothing() {
    let scene = Scene::new(Scene::base());
    scene.calls("FFFFF").after(6 * SECOND);
    let late = scene.ask().unwrap();
    scene.calls("FFF").is(HalfOpen).after(2 * SECOND).is(Open);
    assert!(!scene.admits());
    scene.after(6 * SECOND).calls("SSS").is(HalfOpen);
    late.reject();
    assert_eq!(scene.counted(), (3, 0, 0));
    scene.calls("S").is(Closed);
}

#[test]
fn probe_that_ends_after_the_time_out_does_not_count() {
    let scene = Scene::new(Scene::base().probes(1).unwrap());
    scene.calls("FFFFF").after(6 * SECOND);
    let probe = scene.ask().unwrap();
    scene.after(SECOND);
    probe.accept();
    scene.is(Open);
}

/// A backend that is asked seldom: each probe ends long before the next request.
#[test]
fn breaker_closes_however_seldom_its_probes_come() {
    for wait in [Wait::new(5 * SECOND), growing_wait()] {
        let scene = Scene::new(CircuitConfig::default().wait(wait));
        scene.calls(&"F".repeat(20)).after(6 * SECOND);
        for _ in 0..3 {
            scene.calls("S").after(3_600 * SECOND);
        }
        scene.is(Closed);
    }
}

/// The time-out begins with the last probe, not with the first.
#[test]
fn each_probe_has_the_time_of_the_time_out() {
    let scene = Scene::new(Scene::base());
    scene.calls("FFFFF").after(6 * SECOND).calls("S").after(SECOND * 3);
    let probe = scene.ask().unwrap();
    scene.after(SECOND / 2).calls("?").after(SECOND * 9 / 10).is(HalfOpen);
    probe.accept();
    scene.is(HalfOpen).after(SECOND / 5).is(Open);
    assert_eq!(scene.counted(), (0, 0, 0));
}

#[test]
fn probe_of_a_generation_with_the_same_number_takes_no_place_away() {
    let scene = Scene::new(Scene::base().probes(1).unwrap());
    scene.calls("FFFFF").after(6 * SECOND);
    let probe = scene.ask().unwrap();
    for _ in 0..(1 << 21) - 2 {
        scene.breaker.set_state_at(scene.breaker.clock().now(), Closed).unwrap();
    }
    scene.set(Open).set(HalfOpen);
    // The generation has wrapped around. The breaker has admitted no probe that could be given
    // back.
    probe.cancel();
    scene.is(HalfOpen).calls("S").is(Closed);
}

#[test]
fn half_open_has_a_time_after_many_transitions() {
    let scene = Scene::new(Scene::base().probes(1).unwrap());
    for _ in 0..1 << 20 {
        scene.breaker.set_state_at(scene.breaker.clock().now(), Closed).unwrap();
    }
    scene.calls("FFFFF").after(6 * SECOND).calls("?").is(HalfOpen).after(SECOND).is(Open);
}

#[test]
fn dropped_permit_follows_the_policy() {
    for (policy, exceptions) in [(OnDrop::Exception, 1), (OnDrop::Cancelled, 0)] {
        let scene = Scene::new(Scene::base().on_drop(policy));
        drop(scene.ask());
        assert_eq!(scene.counted(), (exceptions, exceptions, 0));
        drop(scene.ask().map(|permit| permit.on_drop(OnDrop::Cancelled)));
        assert_eq!(scene.counted(), (exceptions, exceptions, 0));
    }
}

#[test]
fn dropped_probe_gives_its_place_back() {
    let scene = Scene::new(Scene::base().on_drop(OnDrop::Cancelled).probes(1).unwrap());
    scene.calls("FFFFF").after(6 * SECOND);
    for _ in 0..1_100 {
        drop(scene.ask().unwrap());
    }
    scene.is(HalfOpen).calls("S").is(Closed);
}

#[test]
fn entry_reports_its_outcome() {
    let clock = ManualClock::new(NOON);
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let config = CircuitConfig::default().consecutive_exceptions(2);
    let breaker = Arc::new(CircuitBreaker::with_clock(config, clock));
    breaker.try_enter(&node).unwrap().exception();
    breaker.try_enter(&node).unwrap().success();
    breaker.try_enter(&node).unwrap().exception();
    breaker.try_enter(&node).unwrap().cancel();
    let owned = LimiterExt::try_enter(&breaker, Arc::new(node)).unwrap();
    thread::spawn(move || owned.exception()).join().unwrap();
    assert_eq!(breaker.state(), Open);
}

#[test]
fn refused_request_is_blocked_in_its_node() {
    let clock = ManualClock::new(NOON);
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let config = CircuitConfig::default().consecutive_exceptions(1);
    let breaker = CircuitBreaker::with_clock(config, clock);
    breaker.try_enter(&node).unwrap().exception();
    let refusal = breaker.try_enter(&node).unwrap_err();
    assert_eq!(refusal.reason, Reason::Failing);
    assert_eq!(refusal.retry_at(), Some(NOON.saturating_add(5 * SECOND)));
    assert_eq!(node.now().long().sum(MetricEvent::Block), 1);
}

#[test]
fn decision_can_be_peeked() {
    let scene = Scene::new(Scene::base().probes(1).unwrap());
    let breaker = &scene.breaker;
    let admits = || breaker.peek_at(breaker.account().now(), 1).unwrap().is_admitted();
    assert!(admits());
    scene.calls("FFFFF");
    assert!(!admits());
    scene.after(5 * SECOND);
    assert!(admits());
    scene.is(Open);
    let probe = scene.ask().unwrap();
    assert!(!admits());
    assert_eq!(scene.breaker.try_acquire().refusal().unwrap().retry_at(), None);
    probe.accept();
    assert!(admits());

    scene.calls("FFFFF").after(5 * SECOND).calls("?").after(SECOND);
    assert!(
        breaker.peek_at(breaker.account().now(), 1).is_none(),
        "the next wait is not drawn yet"
    );
}

#[test]
fn breaker_is_a_limiter_among_others() {
    let scene = Scene::new(CircuitConfig::default().consecutive_exceptions(1));
    let all = AllOf::new((&scene.breaker, &scene.breaker));
    let (one, other) = all.try_acquire().at_once().unwrap();
    one.accept();
    scene.is(Closed);
    other.reject();
    scene.is(Open);
    assert!(all.try_acquire().is_refused());
}
