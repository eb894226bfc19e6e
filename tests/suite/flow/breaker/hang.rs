//! Backends that hang: their attempts end when the callers give up.

use super::simulation::{Answer, Report, simulate};
use super::*;

/// Simulates a backend that answers after 20 ms, and hangs from second 15 to second 45. Callers
/// reject the permit after `timeout`.
fn hang(rate: f64, timeout: Duration) -> Report {
    let backend = |secs, _| match secs {
        15.0..45.0 => Answer::rejected(timeout),
        _ => Answer::accepted(MILLI * 20),
    };
    simulate(AdaptiveBreakerConfig::default(), &[(rate, 90.0)], backend, 1)
}

/// At the first drop, a third of the answers in the window are time-outs.
#[test]
fn time_outs_show_a_backend_that_hangs() {
    for rate in [10.0, 100.0, 1_000.0] {
        for secs in [1, 2, 5] {
            let report = hang(rate, SECOND * secs);
            let first = report.first_drop.expect("the backend hangs").as_secs_f64();
            let after = first - 15.0 - f64::from(secs);
            assert!((1.5..=4.5).contains(&after), "{rate}, {secs}: {after}");
            assert!(report.admitted(30.0, 45.0) <= 40, "{}", report.admitted(30.0, 45.0));
        }
    }
}

/// The recovery begins with the last of the time-outs.
#[test]
fn breaker_recovers_after_a_hang() {
    for rate in [10.0, 100.0, 1_000.0] {
        for secs in [1, 5, 30] {
            let report = hang(rate, SECOND * secs);
            let recovery = report.recovery(45.0);
            assert!(recovery <= f64::from(secs) + 7.0, "{rate}, {secs}: {recovery}");
        }
    }
}

/// A permit that never ends, as one that is forgotten, counts nowhere.
#[test]
fn attempts_that_never_end_count_nowhere() {
    let (breaker, clock) = strict();
    for _ in 0..100 {
        std::mem::forget(breaker.try_acquire());
        clock.advance(MILLI * 50);
    }
    assert!((0..100).all(|_| ask(&breaker, true)));
}
