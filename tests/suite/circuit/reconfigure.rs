//! Configurations that change while the breaker runs.

use std::time::Duration;

use leaparray::WindowConfig;
use leaparray::flow::circuit::{Cause, CircuitState, RatioLimit, Wait};
use leaparray::flow::{CircuitConfig, LimiterExt};

use crate::circuit::{SECOND, Scene};

fn window(buckets: usize, secs: u32) -> WindowConfig {
    WindowConfig::new(buckets, secs * SECOND).unwrap()
}

#[test]
fn open_breaker_stays_open_for_as_long_as_it_has_said() {
    let scene = Scene::new(Scene::base());
    let mut transitions = scene.breaker.transitions();
    scene.calls("FFFFF").is(CircuitState::Open);
    let until = scene.breaker.snapshot().open_until;
    let config = Scene::base().wait(Wait::new(60 * SECOND)).min_calls(100);
    for config in [config, config.last_calls(10).unwrap(), config.no_exception_ratio()] {
        scene.breaker.reconfigure(config);
        assert_eq!(scene.breaker.config(), config);
        scene.is(CircuitState::Open);
        assert_eq!(scene.breaker.snapshot().open_until, until);
    }
    scene.breaker.reconfigure(Scene::base().wait(Wait::new(60 * SECOND)));
    assert!(!scene.admits());
    // The next wait is a new one. The transitions go on.
    scene.after(5 * SECOND).calls("FFFF").is(CircuitState::Open);
    assert!(!scene.after(59 * SECOND).admits() && scene.after(SECOND).admits());
    let causes: Vec<_> = std::iter::from_fn(|| transitions.next()).map(|it| it.cause).collect();
    let (wait_over, ratio) = (Cause::WaitOver, Cause::ExceptionRatio);
    assert_eq!(causes, [ratio, wait_over, ratio, wait_over]);
}

#[test]
fn new_limits_apply_to_the_calls_so_far_when_the_next_one_ends() {
    let scene = Scene::new(Scene::base().min_calls(100));
    scene.calls("FFFFSS").is(CircuitState::Closed);
    scene.breaker.reconfigure(Scene::base());
    assert_eq!(scene.counted(), (6, 4, 0));
    scene.is(CircuitState::Closed).calls("S").is(CircuitState::Open);

    // Also if the configuration is set again in the bucket in which it had enough calls.
    let config = Scene::base().exception_ratio(RatioLimit::at_least(0.6).unwrap());
    let scene = Scene::new(config);
    scene.calls("FFSSS").is(CircuitState::Closed);
    scene.breaker.reconfigure(config.min_calls(100));
    scene.calls("FFFFF");
    scene.breaker.reconfigure(config);
    scene.calls("S").is(CircuitState::Open);
}

#[test]
fn calls_of_a_window_stay_as_far_as_they_lie_within_the_new_one() {
    let config = |window| Scene::base().window(window).unwrap().min_calls(1_000);
    let scene = Scene::new(config(window(20, 20)));
    for _ in 0..30 {
        scene.calls("Fs").after(SECOND);
    }
    // Of the second that has begun, nothing is counted yet. The first window reaches
    // back for 20 seconds.
    for (buckets, secs, calls) in [(60, 60, 19), (10, 10, 9), (5, 5, 4), (20, 20, 19), (12, 60, 19)]
    {
        scene.breaker.reconfigure(config(window(buckets, secs)));
        assert_eq!(scene.counted(), (2 * calls, calls, calls), "{buckets}, {secs}");
    }
    scene.calls("S");
    scene.breaker.reconfigure(config(window(20, 20)));
    assert_eq!(scene.counted(), (38 + 1, 19, 19), "each is counted once");
    // A closed state begins with empty counts, in each window.
    scene.set(CircuitState::Closed);
    for window in [window(20, 20), window(60, 60), window(10, 10)] {
        scene.breaker.reconfigure(config(window));
        assert_eq!(scene.counted(), (0, 0, 0));
    }
    scene.calls("F");
    scene.breaker.reconfigure(config(window(60, 60)));
    assert_eq!(scene.counted(), (1, 1, 0));
}

#[test]
fn last_calls_stay_as_far_as_they_are_counted_now() {
    let config = |calls| {
        Scene::base()
            .last_calls(calls)
            .unwrap()
            .min_calls(1_000)
            .slow_ratio(RatioLimit::at_least(1.0).unwrap(), 4 * SECOND)
            .no_exception_ratio()
    };
    let scene = Scene::new(config(6));
    scene.calls("FFFSSSs");
    assert_eq!(scene.counted(), (6, 2, 1));
    // The window is replaced with the next call.
    for (len, call, expected) in [(4, "S", (4, 0, 1)), (10, "F", (5, 1, 1)), (3, "S", (3, 1, 0))] {
        scene.breaker.reconfigure(config(len));
        assert_eq!(scene.calls(call).counted(), expected, "{len}");
    }
}

#[test]
fn window_of_time_goes_on_after_a_window_of_calls() {
    let in_window = Scene::base().min_calls(1_000);
    let scene = Scene::new(in_window);
    scene.calls("FFS");
    scene.breaker.reconfigure(in_window.last_calls(10).unwrap());
    assert_eq!(scene.counted(), (0, 0, 0));
    scene.calls("F");
    assert_eq!(scene.counted(), (1, 1, 0));
    scene.breaker.reconfigure(in_window);
    assert_eq!(scene.counted(), (3, 2, 0));
}

#[test]
fn exceptions_in_a_row_stay_while_they_are_limited() {
    let row = |limit| Scene::base().min_calls(1_000).consecutive_exceptions(limit);
    let scene = Scene::new(row(5));
    scene.calls("FFF");
    scene.breaker.reconfigure(row(4));
    scene.is(CircuitState::Closed).calls("F").is(CircuitState::Open);

    let scene = Scene::new(row(5));
    scene.calls("FFF");
    scene.breaker.reconfigure(Scene::base().min_calls(1_000));
    scene.calls("S");
    scene.breaker.reconfigure(row(2));
    scene.calls("F").is(CircuitState::Closed).calls("F").is(CircuitState::Open);
}

/// As many probes have ended as the new configuration has, and none is in flight: the next request
/// decides, since no probe would.
#[test]
fn half_open_breaker_with_enough_probes_is_left_by_the_next_request() {
    for (calls, decides) in [("SS", CircuitState::Closed), ("FF", CircuitState::Open)] {
        let scene = Scene::new(Scene::base());
        scene.set(CircuitState::Open).after(5 * SECOND).calls(calls).is(CircuitState::HalfOpen);
        scene.breaker.reconfigure(Scene::base().probes(2).unwrap());
        let is_closed = decides == CircuitState::Closed;
        let foretold = scene.breaker.peek_at(scene.clock_now(), 1);
        assert_eq!(foretold.is_some_and(|it| it.is_admitted()), is_closed);
        assert_eq!(scene.ask().is_some(), is_closed);
        scene.is(decides);
    }
    // More probes are admitted, and the time-out is the new one.
    let scene = Scene::new(Scene::base().probes(1).unwrap());
    scene.set(CircuitState::Open).after(5 * SECOND).calls("?");
    assert!(!scene.admits());
    scene.breaker.reconfigure(Scene::base().half_open_timeout(Some(2 * SECOND)).unwrap());
    assert!(scene.admits());
    scene.after(Duration::from_millis(1_999)).is(CircuitState::HalfOpen);
    scene.after(Duration::from_millis(1)).is(CircuitState::Open);
}

/// A permit ends under the configuration that is in force then.
#[test]
fn permit_in_flight_ends_under_the_new_configuration() {
    let scene = Scene::new(Scene::base());
    let permit = scene.ask().unwrap();
    let config: CircuitConfig = Scene::base().on_drop(leaparray::node::OnDrop::Cancelled);
    scene.breaker.reconfigure(config);
    drop(permit);
    assert_eq!(scene.counted(), (0, 0, 0));
}
