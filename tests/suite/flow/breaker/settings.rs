//! Configurations that change while the breaker runs.

use leaparray::Clock;
use leaparray::flow::LimiterExt;
use leaparray::flow::breaker::AdaptiveBreakerConfigError;

use super::*;

#[test]
fn configuration_changes_in_place_and_counts_stay() {
    let (breaker, clock) = strict();
    for _ in 0..10 {
        ask(&breaker, false);
    }
    let before = counts(&breaker);
    assert!(!ask(&breaker, true));
    // In the same slice, so the cached probability is not that of the former configuration.
    let config = breaker.config();
    breaker.reconfigure(config.min_requests(1_000));
    assert_eq!(breaker.config().min_requests(0), config);
    assert!(ask(&breaker, true) && ask(&breaker, true));
    breaker.reconfigure(config);
    assert!(!ask(&breaker, true));
    assert_eq!(counts(&breaker), [before[0] + 2, before[1], before[2] + 2]);

    breaker.reconfigure(config.k(7.0).unwrap());
    assert!(ask(&breaker, true), "2 of 14 are accepted");
    breaker.reconfigure(config.probe_interval(MILLI * 10).unwrap());
    clock.advance(MILLI * 10);
    assert!(ask(&breaker, false), "a probe is due by now");
    breaker.reconfigure(config.on_drop(OnDrop::Cancelled));
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
    let slow = breaker.drop_probability_at(breaker.clock().now());
    assert!(slow > 0.2, "{slow}");
    breaker.reconfigure(breaker.config().recovery(SECOND).unwrap());
    assert_eq!(breaker.drop_probability_at(breaker.clock().now()).to_bits(), 0.0_f64.to_bits());
    assert!(ask(&breaker, true));
}

/// The counts of a former window stay as far as its buckets lie within the new one.
#[test]
fn counts_stay_if_the_window_changes() {
    let (breaker, clock) = strict();
    let first = breaker.config();
    // 40 buckets of 250 ms.
    for _ in 0..20 {
        ask(&breaker, false);
        clock.advance(SECOND);
    }
    let failing = breaker.drop_probability_at(breaker.clock().now());
    assert!(failing > 0.8, "{failing}");
    let window = |buckets, secs| {
        let window = WindowConfig::new(buckets, SECOND * secs).unwrap();
        breaker.reconfigure(first.window(window));
        breaker.drop_probability_at(breaker.clock().now())
    };
    // Of the second that has begun, nothing is counted yet. The first window reaches back for 10 seconds.
    for (buckets, secs, requests) in [(60, 30, 9), (30, 30, 9), (8, 2, 1), (40, 10, 9), (5, 5, 4)] {
        let expected = f64::from(requests) / f64::from(requests + 1);
        assert_eq!(window(buckets, secs).to_bits(), expected.to_bits(), "{buckets}, {secs}");
    }
    // A request is counted in one window, and each is in the sum once.
    window(60, 30);
    assert!(ask(&breaker, false), "a probe is due");
    assert_eq!(window(40, 10).to_bits(), (10.0_f64 / 11.0).to_bits());
    assert_eq!(window(60, 30).to_bits(), (10.0_f64 / 11.0).to_bits());
    clock.advance(SECOND * 30);
    assert_eq!(window(40, 10).to_bits(), 0.0_f64.to_bits(), "all of them have left");
}

/// The probes go on by the time of the last one.
#[test]
fn last_probe_stays_if_the_configuration_changes() {
    let (breaker, clock) = strict();
    assert!(ask(&breaker, false) && ask(&breaker, false), "the second is a probe");
    for _ in 0..5 {
        let longer = WindowConfig::new(60, SECOND * 60).unwrap();
        breaker.reconfigure(breaker.config().window(longer).k(2.0).unwrap());
        assert!(!ask(&breaker, false));
        breaker.reconfigure(AdaptiveBreakerConfig::default().min_requests(0));
        assert!(!ask(&breaker, false));
    }
    clock.advance(SECOND);
    assert!(ask(&breaker, false));
}

#[test]
fn recovery_takes_some_time() {
    let error = AdaptiveBreakerConfig::default().recovery(Duration::ZERO).unwrap_err();
    assert_eq!(error, AdaptiveBreakerConfigError::ZeroRecovery);
    assert_eq!(error.to_string(), "the recovery takes 0 ns, but must take longer");
}
