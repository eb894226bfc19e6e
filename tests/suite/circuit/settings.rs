//! Configurations and their errors.

use std::time::Duration;

use leaparray::count_window::CountWindow;
use leaparray::flow::breaker::SeededRandom;
use leaparray::flow::circuit::{CircuitConfigError, CircuitState, RatioLimit, Wait};
use leaparray::flow::{CircuitBreaker, CircuitConfig, LimiterExt};
use leaparray::{Outcome, Timestamp, WindowConfig};

use crate::circuit::{NOON, SECOND, Scene};

#[test]
fn invalid_values_are_refused_with_the_values_that_would_be_right() {
    let config = CircuitConfig::default();
    let wait = Wait::new(5 * SECOND);
    let errors = [
        (config.last_calls(0).unwrap_err(), "a breaker counts the last 1 to 4000 calls, not 0"),
        (
            config.window(WindowConfig::new(2, 7_200 * SECOND).unwrap()).unwrap_err(),
            "a breaker has a window of at most 3600s, not 7200s",
        ),
        (
            config.half_open_timeout(Some(Duration::ZERO)).unwrap_err(),
            "a half-open breaker has a time-out of more than 0, or none",
        ),
        (config.probes(256).unwrap_err(), "a breaker has 1 to 255 probes, not 256"),
        (config.probes(0).unwrap_err(), "a breaker has 1 to 255 probes, not 0"),
        (
            RatioLimit::at_least(0.0).unwrap_err(),
            "a share of at least 0 is no limit: it must be above 0 and at most 1",
        ),
        (
            RatioLimit::above(1.0).unwrap_err(),
            "a share above 1 is no limit: it must be at least 0 and below 1",
        ),
        (
            wait.growing(0.5, 60 * SECOND).unwrap_err(),
            "a wait grows by a finite factor of at least 1, not 0.5",
        ),
        (wait.growing(2.0, SECOND).unwrap_err(), "the longest wait is 1s, but the first one is 5s"),
        (wait.with_jitter(1.5).unwrap_err(), "a jitter is from 0 to 1, not 1.5"),
    ];
    for (error, message) in errors {
        assert_eq!(error.to_string(), message);
    }
    assert!(config.last_calls(CountWindow::MAX_LEN).is_ok());
    for ratio in [f64::NAN, -0.1, 1.1] {
        assert!(RatioLimit::at_least(ratio).is_err() && RatioLimit::above(ratio).is_err());
    }
    assert!(matches!(
        CircuitConfig::failsafe(0),
        Err(CircuitConfigError::Calls { calls: 0, max: CountWindow::MAX_LEN })
    ));
}

#[test]
fn share_that_is_written_as_a_decimal_is_reached_exactly() {
    for part in 1..1_000 {
        let ratio: f64 = format!("0.{part:03}").parse().unwrap();
        let [limit, above] = [RatioLimit::at_least, RatioLimit::above].map(|it| it(ratio).unwrap());
        for times in 1..=7 {
            let (part, calls) = (part * times, 1_000 * times);
            assert!(limit.is_reached(part, calls) && !above.is_reached(part, calls), "{ratio}");
            assert!(!limit.is_reached(part - 1, calls) && above.is_reached(part + 1, calls));
        }
    }
    assert!(!RatioLimit::above(0.0).unwrap().is_reached(0, 0), "no calls reach no limit");
}

/// Returns the waits of the first `trips` trips.
fn waits(wait: Wait, trips: usize) -> Vec<Duration> {
    let clock = leaparray::ManualClock::new(NOON);
    let config = CircuitConfig::default().consecutive_exceptions(1).probes(1).unwrap().wait(wait);
    let random = SeededRandom::new(7);
    let breaker = CircuitBreaker::with_source(config, clock.clone(), random);
    let open = |_| {
        use leaparray::Clock;
        let opened = clock.now();
        breaker.try_acquire().at_once().unwrap().reject();
        assert_eq!(breaker.state(), CircuitState::Open);
        let until = breaker.snapshot().open_until.unwrap();
        clock.set(until);
        until.saturating_since(opened)
    };
    (0..trips).map(open).collect()
}

#[test]
fn waits_grow_up_to_their_maximum() {
    let wait = Wait::new(SECOND).growing(2.0, 5 * SECOND).unwrap();
    let millis = [1_000, 2_000, 4_000, 5_000, 5_000].map(Duration::from_millis);
    assert_eq!(waits(wait, 5), millis);
}

#[test]
fn wait_of_zero_stays_zero() {
    let wait = Wait::new(Duration::ZERO).growing(2.0, 60 * SECOND).unwrap();
    assert!(waits(wait, 2_000).iter().all(Duration::is_zero));
}

#[test]
fn wait_grows_after_half_open_only() {
    let wait = Wait::new(SECOND).growing(2.0, 60 * SECOND).unwrap();
    let scene = Scene::new(CircuitConfig::default().wait(wait));
    let wait_of = |scene: &Scene| {
        let until = scene.breaker.snapshot().open_until.unwrap();
        until.saturating_since(scene.clock_now())
    };
    for _ in 0..4 {
        scene.set(CircuitState::Open);
        assert_eq!(wait_of(&scene), SECOND);
        scene.set(CircuitState::ForcedOpen).set(CircuitState::Disabled);
    }
    scene.set(CircuitState::Open).set(CircuitState::HalfOpen).set(CircuitState::Open);
    assert_eq!(wait_of(&scene), 2 * SECOND);
    scene.set(CircuitState::Open);
    assert_eq!(wait_of(&scene), SECOND);
}

/// Limits that the number of calls that are kept cannot reach.
#[test]
fn limits_above_the_numbers_that_are_kept_are_reached_at_these() {
    let only_numbers = CircuitConfig::default().no_exception_ratio();
    let last_ten = only_numbers.last_calls(10).unwrap().exceptions(11);
    let scene = Scene::new(last_ten);
    scene.calls("FFFFFFFFF").is(CircuitState::Closed).calls("F").is(CircuitState::Open);
}

#[test]
fn jitter_spreads_the_waits() {
    let wait = Wait::new(SECOND).with_jitter(0.1).unwrap();
    let seconds: Vec<_> = waits(wait, 1_000).iter().map(Duration::as_secs_f64).collect();
    let mean = seconds.iter().sum::<f64>() / 1_000.0;
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    assert!(seconds.iter().all(|wait| (0.9..=1.101).contains(wait)));
    let [low, high] =
        [seconds.iter().any(|&wait| wait < 0.91), seconds.iter().any(|&wait| wait > 1.09)];
    assert!(low && high);

    assert_eq!(waits(wait, 10), waits(wait, 10), "the same seed makes the same waits");
}

/// Breakers that stay open for the longest wait still send their probes at different times.
#[test]
fn longest_waits_are_spread_up_to_the_maximum() {
    let growing = Wait::new(SECOND).growing(2.0, 3 * SECOND).unwrap().with_jitter(0.5).unwrap();
    let waits = waits(growing, 1_000);
    let [shortest, longest] =
        [waits[2..].iter().min(), waits[2..].iter().max()].map(|wait| *wait.unwrap());
    let millis = Duration::from_millis;
    assert!((millis(1_000)..millis(1_010)).contains(&shortest), "{shortest:?}");
    assert!((millis(2_990)..=millis(3_000)).contains(&longest), "{longest:?}");
    assert!(waits.iter().filter(|&&wait| wait == longest).count() < 10);
}

#[test]
fn longest_wait_ends_within_the_range_of_times() {
    let scene = Scene::new(CircuitConfig::default().wait(Wait::new(Duration::MAX)));
    let mut transitions = scene.breaker.transitions();
    scene.set(CircuitState::Open);
    let until = scene.breaker.snapshot().open_until.unwrap();
    let days = until.saturating_since(NOON).as_secs() / 86_400;
    assert!((12_000..13_000).contains(&days), "34 years: {days} days");
    assert_eq!(transitions.next().map(|it| it.to), Some(CircuitState::Open));
}

#[test]
fn one_wrong_time_keeps_the_breaker_for_no_longer_than_the_lead() {
    let config = CircuitConfig::default().consecutive_exceptions(1).probes(1).unwrap();
    let scene = Scene::new(config.wait(Wait::new(5 * SECOND)));
    let far = Timestamp::MAX;
    scene.ask().unwrap().end_at(far, Outcome::Exception);
    assert_eq!(scene.breaker.snapshot().open_until, Some(NOON.saturating_add(6 * SECOND)));
    assert!(!scene.after(5 * SECOND).admits());
    // A probe far ahead makes the breaker half-open before its wait is over, until 10 s after the
    // lead.
    std::mem::forget(scene.breaker.try_acquire_at(far, 1).at_once().unwrap());
    scene.is(CircuitState::HalfOpen);
    scene.after(Duration::from_millis(10_999)).is(CircuitState::HalfOpen);
    scene.after(Duration::from_millis(1)).is(CircuitState::Open);
    let unbounded = Scene::new(config);
    let breaker = unbounded.breaker.with_max_lead(Duration::MAX);
    let hour = NOON.saturating_add(3_600 * SECOND);
    breaker.try_acquire().at_once().unwrap().end_at(hour, Outcome::Exception);
    assert_eq!(breaker.snapshot().open_until, Some(hour.saturating_add(5 * SECOND)));
}

#[test]
fn wait_is_rounded_up_to_milliseconds() {
    let wait = Wait::new(Duration::from_nanos(1_000_001));
    assert_eq!(waits(wait, 2), [Duration::from_millis(2); 2]);
}
