//! The recovery after an outage.

use super::plain::simulate_plain;
use super::simulation::{Answer, Report, simulate};
use super::*;

#[test]
fn breaker_recovers_by_time_alone() {
    let (breaker, clock) = strict();
    // The clock does not advance, so all of these are in one slice of one bucket.
    for _ in 0..10 {
        ask(&breaker, false);
    }
    assert!(!ask(&breaker, false));
    clock.advance(SECOND * 10);
    // The first request might be a probe. The second one gets through only if the drop probability
    // is zero.
    let permits = [(); 2].map(|()| breaker.try_acquire().at_once());
    assert!(permits.iter().all(Result::is_ok));
}

/// Simulates a backend that rejects every request from second 10 to second 40, and a share of
/// `errors` otherwise.
fn outage(rate: f64, errors: f64, seed: u64) -> Report {
    let backend = |secs: f64, draw| {
        let is_down = (10.0..40.0).contains(&secs);
        if is_down || draw < errors {
            Answer::rejected(MILLI * 20)
        } else {
            Answer::accepted(MILLI * 20)
        }
    };
    simulate(AdaptiveBreakerConfig::default(), &[(rate, 60.0)], backend, seed)
}

#[test]
fn breaker_recovers_within_ten_seconds_at_every_rate() {
    for rate in [2.0, 5.0, 10.0, 100.0, 1_000.0, 10_000.0] {
        for errors in [0.0, 0.001, 0.01, 0.05] {
            // The fewer requests there are, the more depends on chance.
            let seeds = if rate > 100.0 { 1 } else { 5 };
            for seed in 0..if rate > 1_000.0 && errors > 0.0 { 0 } else { seeds } {
                let report = outage(rate, errors, seed);
                let recovery = report.recovery(40.0);
                assert!(recovery <= 10.0, "{rate}, {errors}: {recovery}");
                assert_eq!(report.dropped(0.0, 10.0), 0);
            }
        }
    }
}

#[test]
fn few_requests_are_dropped_after_an_outage() {
    let report = outage(1_000.0, 0.0, 1);
    assert!(report.dropped(40.0, 60.0) < 6_000, "{}", report.dropped(40.0, 60.0));
}

/// The share that gets through grows from second to second, and not all at once.
#[test]
fn recovery_is_gradual() {
    for rate in [100.0, 1_000.0] {
        let report = outage(rate, 0.0, 1);
        let shares: Vec<_> = (0..8)
            .map(|secs| report.share(40.0 + f64::from(secs), 41.0 + f64::from(secs)))
            .collect();
        assert!(shares.is_sorted_by(|one, next| next + 0.05 > *one), "{rate}: {shares:?}");
        assert!(shares[1] < 0.3 && shares[3] < 0.8, "{rate}: {shares:?}");
    }
}

/// The recovery begins a response time after the first probe, and takes no longer after that.
#[test]
fn slow_backend_recovers_a_response_time_later() {
    for (millis, limit) in [(20, 7.0), (500, 7.5), (1_000, 8.0), (2_000, 9.0), (20_000, 27.0)] {
        for rate in [10.0, 100.0, 1_000.0] {
            let backend = |secs, _| match secs {
                10.0..40.0 => Answer::rejected(MILLI * 20),
                _ => Answer::accepted(MILLI * millis),
            };
            let report = simulate(AdaptiveBreakerConfig::default(), &[(rate, 80.0)], backend, 1);
            let recovery = report.recovery(40.0);
            assert!(recovery <= limit, "{millis}, {rate}: {recovery}");
        }
    }
}

/// A recovery takes no longer than half of the window.
#[test]
fn recovery_that_is_longer_than_half_of_the_window_is_cut_to_it() {
    for (secs, limit) in [(1, 3.0), (5, 7.0), (30, 7.0), (3_600, 7.0)] {
        for rate in [10.0, 100.0, 1_000.0] {
            let config = AdaptiveBreakerConfig::default().recovery(SECOND * secs).unwrap();
            let backend = |secs, _| match secs {
                10.0..40.0 => Answer::rejected(MILLI * 20),
                _ => Answer::accepted(MILLI * 20),
            };
            let recovery = simulate(config, &[(rate, 60.0)], backend, 1).recovery(40.0);
            assert!(recovery <= limit, "{secs}, {rate}: {recovery}");
        }
    }
}

/// A failing backend accepts a few requests by chance, and each begins a recovery.
#[test]
fn hardly_more_requests_get_through_than_with_the_plain_formula() {
    for failing in [1.0, 0.99, 0.9, 0.7] {
        for rate in [10.0, 100.0, 500.0] {
            for rt in [Duration::ZERO, MILLI * 50] {
                let backend = |secs, draw| {
                    if secs >= 10.0 && draw < failing {
                        Answer::rejected(rt)
                    } else {
                        Answer::accepted(rt)
                    }
                };
                let admitted =
                    simulate(AdaptiveBreakerConfig::default(), &[(rate, 60.0)], backend, 1)
                        .admitted(10.0, 60.0);
                let plain = simulate_plain(rate, 60.0, backend, 1).admitted(10.0, 60.0);
                assert!(
                    admitted <= plain + plain / 16,
                    "{failing}, {rate}: {admitted}, not {plain}"
                );
            }
        }
    }
}

/// In an outage, about one probe a second gets through, and as many by chance, also if the backend
/// accepts a few. In the second 10 seconds, acceptances from before the outage are over, and in the
/// third those of the first.
#[test]
fn few_requests_get_through_while_the_backend_is_down() {
    for (failing, limit) in [(1.0, 2.0), (0.99, 3.0), (0.9, 4.0)] {
        for rate in [100.0, 2_000.0] {
            for rt in [Duration::ZERO, MILLI * 50] {
                let backend = |secs, draw| {
                    if secs >= 10.0 && draw < failing {
                        Answer::rejected(rt)
                    } else {
                        Answer::accepted(rt)
                    }
                };
                let report =
                    simulate(AdaptiveBreakerConfig::default(), &[(rate, 60.0)], backend, 1);
                let admitted = report.share(40.0, 60.0) * rate;
                assert!(admitted < limit, "{failing}, {rate}: {admitted} a second");
                let first = report.share(10.0, 20.0);
                assert!(first < 0.8, "{failing}, {rate}: {first}");
            }
        }
    }
}

/// The backend works for three seconds after an outage, and then fails again.
#[test]
fn relapse_stops_the_recovery() {
    for rate in [100.0, 1_000.0] {
        let backend = |secs, _| match secs {
            10.0..40.0 | 43.0.. => Answer::rejected(MILLI * 50),
            _ => Answer::accepted(MILLI * 50),
        };
        let report = simulate(AdaptiveBreakerConfig::default(), &[(rate, 65.0)], backend, 1);
        let [during, after, later] =
            [(40.0, 43.0), (43.0, 53.0), (53.0, 63.0)].map(|(from, to)| report.admitted(from, to));
        assert!(after < 2 * during + 60, "{rate}: {after} after {during}");
        assert!(later < 30, "{rate}: {later}");
    }
}

/// The guide has these shares.
#[test]
fn steady_failure_below_a_third_drops_nothing() {
    let share = |failing| {
        let backend = |_, draw| {
            if draw < failing { Answer::rejected(MILLI * 20) } else { Answer::accepted(MILLI * 20) }
        };
        simulate(AdaptiveBreakerConfig::default(), &[(1_000.0, 120.0)], backend, 1)
            .share(60.0, 120.0)
    };
    assert!([0.1, 0.2, 0.3].iter().all(|failing| share(*failing) >= 1.0));
    assert!((0.05..0.6).contains(&share(0.4)), "{}", share(0.4));
    assert!(share(0.6) < 0.1 && share(0.9) < 0.01);
}

/// At one request a second, too few are in the window to be dropped for long.
#[test]
fn recovery_at_one_request_a_second() {
    assert_eq!(outage(1.0, 0.0, 1).dropped(45.0, 60.0), 0);
}
