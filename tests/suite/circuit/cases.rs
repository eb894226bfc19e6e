//! Cases of resilience4j and of Sentinel: the state after each call.

use std::time::Duration;

use leaparray::flow::circuit::CircuitState::{
    Closed, Disabled, ForcedOpen, HalfOpen, MetricsOnly, Open,
};
use leaparray::flow::circuit::{Cause, RatioLimit, Wait};
use leaparray::flow::{CircuitConfig, LimiterExt, Reason};
use leaparray::{Clock, NodeConfig, ResourceNode, WindowConfig};

use crate::circuit::{NOON, SECOND, Scene};

fn base() -> Scene {
    Scene::new(Scene::base())
}

/// The base with the last ten calls.
fn last_ten() -> CircuitConfig {
    Scene::base().last_calls(10).unwrap().min_calls(10)
}

#[test]
fn success_that_reaches_the_minimum_opens() {
    base().calls("FFFS").is(Closed).calls("S").is(Open);
}

#[test]
fn exactly_half_of_the_calls_open() {
    let scene = base();
    for call in ["S", "S", "S", "F", "F"] {
        scene.calls(call).is(Closed).after(SECOND);
    }
    scene.calls("F").is(Open);
}

#[test]
fn slow_calls_open() {
    base().calls("fsFS").is(Closed).calls("s").is(Open);
}

#[test]
fn wait_is_over_with_its_time() {
    let scene = base();
    scene.calls("FFFFF").is(Open);
    assert!(!scene.admits());
    assert!(!scene.after(3 * SECOND).admits());
    assert!(scene.after(3 * SECOND).admits());
    scene.is(HalfOpen);
    assert_eq!(scene.counted(), (0, 0, 0));
}

#[test]
fn wait_of_two_hours_is_kept() {
    let scene = Scene::new(Scene::base().wait(Wait::new(7_200 * SECOND)));
    scene.calls("FFFFF");
    assert!(!scene.after(3_600 * SECOND).admits());
    assert!(scene.after(3_601 * SECOND).admits());
}

#[test]
fn wait_grows_with_each_trip() {
    let wait = Wait::new(5 * SECOND).growing(1.5, 60 * SECOND).unwrap();
    let scene = Scene::new(Scene::base().wait(wait));
    scene.calls("FFFFF").after(6 * SECOND);
    assert!(scene.admits());
    scene.is(HalfOpen).set(Open);
    assert!(!scene.after(6 * SECOND).admits());
    assert!(scene.after(5 * SECOND).admits());
}

#[test]
fn three_of_four_failed_probes_open() {
    let scene = base();
    scene.calls("FFFFF").after(6 * SECOND).calls("FFS").is(HalfOpen).calls("F").is(Open);
}

#[test]
fn one_of_four_failed_probes_closes_with_empty_counts() {
    let scene = base();
    scene.calls("FFFFF").after(6 * SECOND).calls("FSS").is(HalfOpen).calls("S").is(Closed);
    assert_eq!(scene.counted(), (0, 0, 0));
    scene.calls("S");
    assert_eq!(scene.counted(), (1, 0, 0));
}

#[test]
fn cancelled_probe_does_not_count() {
    let scene = base();
    scene.calls("FFFFF").after(6 * SECOND).calls("SSSI").is(HalfOpen);
    assert_eq!(scene.counted(), (3, 0, 0));
    scene.calls("F").is(Closed);
}

#[test]
fn probes_are_limited_and_given_back() {
    let scene = base();
    scene.calls("FFFFF").after(6 * SECOND);
    let mut probes: Vec<_> = (0..4).map(|_| scene.ask().unwrap()).collect();
    assert!(scene.ask().is_none() && scene.ask().is_none());
    probes.pop().unwrap().cancel();
    assert!(scene.ask().is_some());
}

#[test]
fn half_open_is_left_after_its_time() {
    let scene = base();
    scene.calls("FFFFF").after(6 * SECOND).calls("?").is(HalfOpen);
    scene.after(2 * SECOND).is(Open);
    assert!(!scene.admits());
    // It was open from the end of that second.
    assert!(scene.after(4 * SECOND).admits());
}

#[test]
fn closed_breaker_does_not_become_half_open() {
    let scene = base();
    let error = scene.breaker.set_state_at(scene.breaker.clock().now(), HalfOpen).unwrap_err();
    assert_eq!((error.from, error.to), (Closed, HalfOpen));
    let message = "a breaker becomes half-open from open only, but it is closed";
    assert_eq!(error.to_string(), message);
    scene.is(Closed);
    for state in [ForcedOpen, Disabled, MetricsOnly] {
        assert_eq!(
            scene
                .set(state)
                .breaker
                .set_state_at(scene.set(state).breaker.clock().now(), HalfOpen)
                .unwrap_err()
                .from,
            state
        );
        scene.is(state);
    }
}

/// No request has noted the time-out. The state that is shown can be left as such a state.
#[test]
fn breaker_that_is_shown_open_after_a_time_out_becomes_half_open() {
    let scene = base();
    scene.calls("FFFFF").after(6 * SECOND).calls("?").is(HalfOpen);
    let mut transitions = scene.breaker.transitions();
    let error = scene.breaker.set_state_at(scene.breaker.clock().now(), HalfOpen).unwrap_err();
    assert_eq!((error.from, error.to), (HalfOpen, HalfOpen));
    scene.after(2 * SECOND).is(Open).set(HalfOpen).is(HalfOpen);
    let changes: Vec<_> = std::iter::from_fn(|| transitions.next())
        .map(|it| (it.from, it.to, it.cause, it.at.saturating_since(NOON).as_secs()))
        .collect();
    assert_eq!(changes, [(HalfOpen, Open, Cause::Timeout, 7), (Open, HalfOpen, Cause::Set, 8)]);
    // The probe before the time-out is none of the new ones.
    scene.calls("SSSS").is(Closed);
}

#[test]
fn forced_open_stays_open() {
    let scene = base();
    let node = ResourceNode::with_clock(NodeConfig::default(), scene.clock.clone());
    scene.set(ForcedOpen);
    assert!(scene.breaker.enter(&node).is_refused());
    assert!(scene.after(6 * SECOND).breaker.enter(&node).is_refused());
    scene.is(ForcedOpen);
    assert_eq!(node.refusals()[Reason::Failing], 2);
}

#[test]
fn disabled_breaker_admits_and_counts_nothing() {
    let scene = base();
    scene.set(Disabled).calls("SFFFF").is(Disabled);
    assert_eq!(scene.counted(), (0, 0, 0));
}

#[test]
fn breaker_that_only_counts_stays_closed() {
    let scene = base();
    scene.set(MetricsOnly).calls("SFFFFsI").is(MetricsOnly);
    assert_eq!(scene.counted(), (6, 4, 1));
    scene.set(ForcedOpen).set(Closed);
    assert_eq!(scene.counted(), (0, 0, 0), "a closed state has its own counts");
}

#[test]
fn closing_a_closed_breaker_empties_its_counts() {
    let scene = base();
    for _ in 0..5 {
        scene.calls("SF");
        assert_eq!(scene.counted(), (2, 1, 0));
        scene.set(Closed);
        assert_eq!(scene.counted(), (0, 0, 0));
    }
}

#[test]
fn last_ten_calls_decide() {
    let scene = Scene::new(last_ten());
    scene.calls("SSFF").is(Closed);
    assert_eq!(scene.counted(), (4, 2, 0));
    scene.calls("FFFFS").is(Closed).calls("S").is(Open);

    let scene = Scene::new(last_ten());
    scene.set(MetricsOnly).calls("SSFF");
    assert_eq!(scene.counted(), (4, 2, 0), "fewer calls than the minimum");
    scene.calls("FFFFSSSS");
    assert_eq!(scene.counted(), (10, 6, 0));
    scene.calls("SSS");
    assert_eq!(scene.counted(), (10, 3, 0));
}

/// No call ends between the resets, so no call tells the window of them.
#[test]
fn last_calls_count_after_any_number_of_resets() {
    for resets in [1, 31, 32, 33, 63, 64, 65] {
        let scene = Scene::new(last_ten());
        scene.calls("FFFF");
        for _ in 0..resets {
            scene.set(Closed);
        }
        assert_eq!(scene.counted(), (0, 0, 0), "{resets}");
        scene.calls(&"F".repeat(10)).is(Open);
    }
}

#[test]
fn last_calls_of_a_closed_breaker_are_those_since_it_has_closed() {
    for calls in [1, 2, 5, 10] {
        let scene = Scene::new(Scene::base().last_calls(calls).unwrap().min_calls(1));
        for _ in 0..70 {
            scene.calls("F").is(Open).after(6 * SECOND).calls("SSSS").is(Closed);
            assert_eq!(scene.counted(), (0, 0, 0));
        }
    }
}

#[test]
fn rule_of_sentinel_for_slow_calls_opens_at_all_of_them() {
    let config = CircuitConfig::sentinel_slow_ratio(1.0, Duration::from_millis(10), 5 * SECOND);
    let mut scene = Scene::new(config.unwrap().min_calls(3));
    scene.slow = Duration::from_millis(20);
    scene.calls("ss").is(Closed).calls("s").is(Open);
    assert!(!scene.after(SECOND).admits());
    assert!(scene.after(4 * SECOND).admits());
}

#[test]
fn rule_of_sentinel_for_exceptions_opens_above_its_ratio() {
    let config = CircuitConfig::sentinel_exception_ratio(0.2, 10 * SECOND).unwrap().min_calls(1);
    let scene = Scene::new(config);
    scene.calls("SF").is(Open);
    assert!(!scene.after(5 * SECOND).admits());
    scene.after(5 * SECOND).calls("F").is(Open);
    assert!(!scene.after(5 * SECOND).admits());
    scene.after(5 * SECOND).calls("S").is(Closed);
    scene.calls("SSSSSS").is(Closed).calls("F").is(Closed);
}

#[test]
fn rule_of_sentinel_for_slow_calls_opens_above_its_ratio() {
    let config = CircuitConfig::sentinel_slow_ratio(0.8, Duration::from_millis(10), 5 * SECOND);
    let mut scene = Scene::new(config.unwrap().min_calls(10));
    scene.slow = Duration::from_millis(20);
    scene.calls("SSSsssssss").is(Closed).calls("sssss").is(Closed).calls("s").is(Open);
    scene.after(5 * SECOND);
    let probe = scene.ask().unwrap();
    scene.after(scene.slow);
    probe.accept();
    scene.is(Open).after(5 * SECOND).calls("S").is(Closed);
}

#[test]
fn rule_of_sentinel_needs_its_minimum() {
    let config = CircuitConfig::sentinel_exception_ratio(0.5, 5 * SECOND).unwrap();
    let scene = Scene::new(config.min_calls(10));
    scene.calls("FFFFFFSSS").is(Closed).calls("F").is(Open);
    assert!(!scene.after(2 * SECOND).admits());
    scene.after(5 * SECOND).calls("F").is(Open);
    scene.after(6 * SECOND).calls("S").is(Closed);
}

#[test]
fn rule_of_sentinel_for_a_number_opens_above_it() {
    let scene = Scene::new(CircuitConfig::sentinel_exception_count(3, 5 * SECOND));
    scene.calls("FFF").is(Closed).calls("F").is(Open);
    scene.after(5 * SECOND).calls("F").is(Open).after(5 * SECOND).calls("S").is(Closed);
}

/// The settings in the documentation of each breaker.
#[test]
fn presets_have_the_settings_of_their_breakers() {
    let ratio = |ratio| RatioLimit::at_least(ratio).unwrap();
    let (half, millis) = (ratio(0.5), Duration::from_millis);
    let one_probe = CircuitConfig::default().probes(1).unwrap().half_open_timeout(None).unwrap();
    let in_window = |buckets, secs: u32, min_calls| {
        let window = WindowConfig::new(buckets, secs * SECOND).unwrap();
        one_probe.window(window).unwrap().min_calls(min_calls)
    };
    let open_for = |wait| move |config: CircuitConfig| config.wait(Wait::new(wait));
    let slow = ratio(1.0);
    let resilience4j = one_probe.probes(10).unwrap().last_calls(100).unwrap().min_calls(100);
    let resilience4j = resilience4j.exception_ratio(half).slow_ratio(slow, 60 * SECOND);
    assert_eq!(CircuitConfig::resilience4j(), open_for(millis(60_001))(resilience4j));
    let hystrix = in_window(10, 10, 20).exception_ratio(half);
    assert_eq!(CircuitConfig::hystrix(), open_for(millis(5_001))(hystrix));
    let polly = in_window(10, 30, 100).exception_ratio(ratio(0.1));
    assert_eq!(CircuitConfig::polly(), open_for(5 * SECOND)(polly));
    let in_a_row = in_window(1, 1, 1).no_exception_ratio().consecutive_exceptions(6);
    assert_eq!(CircuitConfig::gobreaker(), open_for(millis(60_001))(in_a_row));
    let failsafe = in_window(1, 1, 1).no_exception_ratio().last_calls(7).unwrap().exceptions(7);
    assert_eq!(CircuitConfig::failsafe(7).unwrap(), open_for(60 * SECOND)(failsafe));

    let sentinel = open_for(7 * SECOND)(in_window(1, 1, 5).no_exception_ratio());
    let above = RatioLimit::above(0.2).unwrap();
    let rule = CircuitConfig::sentinel_exception_ratio(0.2, 7 * SECOND).unwrap();
    assert_eq!(rule, sentinel.exception_ratio(above));
    let rule = CircuitConfig::sentinel_slow_ratio(0.2, SECOND, 7 * SECOND).unwrap();
    assert_eq!(rule, sentinel.slow_ratio(above, SECOND));
    let rule = CircuitConfig::sentinel_slow_ratio(1.0, SECOND, 7 * SECOND).unwrap();
    assert_eq!(rule, sentinel.slow_ratio(slow, SECOND));
    let rule = CircuitConfig::sentinel_exception_count(3, 7 * SECOND);
    assert_eq!(rule, sentinel.exceptions(4));
}

#[test]
fn presets_open_at_the_limits_of_their_breakers() {
    let scene = Scene::new(CircuitConfig::resilience4j());
    scene.calls(&"SF".repeat(49)).calls("S").is(Closed).calls("F").is(Open);
    assert!(!scene.after(60 * SECOND).admits(), "open until after the minute");
    assert!(scene.after(Duration::from_millis(1)).admits());

    let scene = Scene::new(CircuitConfig::hystrix());
    scene.calls(&"SF".repeat(9)).calls("S").is(Closed).calls("F").is(Open);

    let scene = Scene::new(CircuitConfig::polly());
    scene.calls(&"S".repeat(90)).calls(&"F".repeat(9)).is(Closed).calls("F").is(Open);

    let scene = Scene::new(CircuitConfig::gobreaker());
    scene.calls("FFFFFSFFFFF").is(Closed).calls("F").is(Open);

    let scene = Scene::new(CircuitConfig::failsafe(3).unwrap());
    scene.calls("FFSFF").is(Closed).calls("F").is(Open);
}

#[test]
fn one_failed_probe_opens_if_no_ratio_is_set() {
    let number = CircuitConfig::default().no_exception_ratio();
    for config in [number.consecutive_exceptions(2), number.exceptions(2)] {
        let scene = Scene::new(config);
        scene.calls("FF").is(Open).after(6 * SECOND).calls("?").is(HalfOpen).calls("F").is(Open);
    }
}

#[test]
fn number_of_zero_counts_as_one() {
    let number = CircuitConfig::default().no_exception_ratio();
    for config in [number.consecutive_exceptions(0), number.exceptions(0)] {
        Scene::new(config).calls("SSS").is(Closed).calls("F").is(Open);
    }
}

#[test]
fn exceptions_that_have_left_the_window_do_not_open() {
    let config = CircuitConfig::default()
        .window(WindowConfig::new(2, 2 * SECOND).unwrap())
        .unwrap()
        .no_exception_ratio()
        .exceptions(3);
    let scene = Scene::new(config);
    scene.calls("FF").after(2 * SECOND).calls("FF").is(Closed);
    assert_eq!(scene.counted(), (2, 2, 0));
    scene.calls("F").is(Open);
}
