//! Cases of resilience4j and of Sentinel: the state after each call.

use std::time::Duration;

use leaparray::WindowConfig;
use leaparray::flow::CircuitState::{Closed, Disabled, ForcedOpen, HalfOpen, MetricsOnly, Open};
use leaparray::flow::{CircuitConfig, RatioLimit, Wait};

use crate::{SECOND, Scene};

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
    let error = scene.breaker.set_state(HalfOpen).unwrap_err();
    assert_eq!((error.from, error.to), (Closed, HalfOpen));
    let message = "a breaker becomes half-open from open only, but it is closed";
    assert_eq!(error.to_string(), message);
    scene.is(Closed);
}

#[test]
fn forced_open_stays_open() {
    let scene = base();
    scene.set(ForcedOpen);
    assert!(!scene.admits());
    assert!(!scene.after(6 * SECOND).admits());
    scene.is(ForcedOpen);
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

    let scene = Scene::new(last_ten().exception_ratio(RatioLimit::at_least(0.7).unwrap()));
    scene.calls("SSFFFFFFSS").is(Closed);
    assert_eq!(scene.counted(), (10, 6, 0));
    scene.calls("SSS");
    assert_eq!(scene.counted(), (10, 5, 0));
    scene.calls("SSS");
    assert_eq!(scene.counted(), (10, 2, 0));
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
