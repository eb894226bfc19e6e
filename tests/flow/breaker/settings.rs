//! Settings that change while the breaker runs.

use leaparray::flow::LimiterExt;
use leaparray::flow::breaker::BreakerConfigError;

use super::*;

#[test]
fn settings_change_in_place_and_counts_stay() {
    let (breaker, clock) = strict();
    for _ in 0..10 {
        ask(&breaker, false);
    }
    let before = counts(&breaker);
    assert!(!ask(&breaker, true));
    // In the same slice, so the cached probability is replaced by the change.
    let config = breaker.config();
    breaker.set_config(config.min_requests(1_000)).unwrap();
    assert_eq!(breaker.config().min_requests(0), config);
    assert!(ask(&breaker, true) && ask(&breaker, true));
    breaker.set_config(config).unwrap();
    assert!(!ask(&breaker, true));
    assert_eq!(counts(&breaker), [before[0] + 2, before[1], before[2] + 2]);

    breaker.set_config(config.k(7.0).unwrap()).unwrap();
    assert!(ask(&breaker, true), "2 of 14 are accepted");
    breaker.set_config(config.probe_interval(MILLI * 10).unwrap()).unwrap();
    clock.advance(MILLI * 10);
    assert!(ask(&breaker, false), "a probe is due by now");
    breaker.set_config(config.on_drop(OnDrop::Cancelled)).unwrap();
    let cancelled = breaker.window().now().sum(Cancelled);
    clock.advance(SECOND);
    drop(breaker.try_acquire().at_once().expect("a probe is due"));
    assert_eq!(breaker.window().now().sum(Cancelled), cancelled + 1);
}

/// The time of recovery applies to a recovery that has begun.
#[test]
fn recovery_can_be_cut_short() {
    let (breaker, clock) = strict();
    for _ in 0..100 {
        ask(&breaker, false);
    }
    for _ in 0..10 {
        clock.advance(MILLI * 250);
        breaker.window().add(Success, 2);
    }
    let slow = breaker.drop_probability();
    assert!(slow > 0.2, "{slow}");
    breaker.set_config(breaker.config().recovery(SECOND).unwrap()).unwrap();
    assert_eq!(breaker.drop_probability().to_bits(), 0.0_f64.to_bits());
    assert!(ask(&breaker, true));
}

#[test]
fn window_stays_as_it_is() {
    let (breaker, _) = strict();
    let before = breaker.config();
    let asked = WindowConfig::new(60, SECOND * 30).unwrap();
    let error = breaker.set_config(before.window(asked).min_requests(9)).unwrap_err();
    let BreakerConfigError::OtherWindow { window, asked: named } = error else { panic!("{error}") };
    assert_eq!((window.to_string(), named), ("40 × 250ms".to_owned(), asked));
    assert_eq!(
        error.to_string(),
        "a breaker keeps its window of 40 × 250ms: it cannot change to 60 × 500ms"
    );
    assert_eq!(breaker.config(), before, "nothing has changed");
}

#[test]
fn recovery_takes_some_time() {
    let error = BreakerConfig::default().recovery(Duration::ZERO).unwrap_err();
    assert_eq!(error, BreakerConfigError::ZeroRecovery);
    assert_eq!(error.to_string(), "the recovery takes 0 ns, but must take longer");
}
