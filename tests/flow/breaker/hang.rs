//! Backends that hang, and backends that are slow.

use leaparray::Outcome;

use super::simulation::{Answer, Report, simulate};
use super::*;

/// Simulates a backend that answers after 20 ms, and from `start` on hangs for a share of the
/// requests. Times are in seconds.
fn hang(rate: f64, start: f64, length: f64, share: f64, seed: u64) -> Report {
    let rt = MILLI * 20;
    let backend = |secs, draw| {
        if secs >= start && draw < share { Answer::HANGS } else { Answer::accepted(rt) }
    };
    simulate(BreakerConfig::default(), &[(rate, start + length)], backend, seed)
}

fn first_drop(report: &Report) -> f64 {
    report.first_drop.expect("the backend hangs").as_secs_f64()
}

/// Simulates a backend that accepts each request after a time, which depends on the time of the
/// request in seconds and on a random number. Returns the number of dropped requests.
fn dropped(parts: &[(f64, f64)], rt: impl Fn(f64, f64) -> Duration, seed: u64) -> u64 {
    let backend = |secs, draw| Answer::accepted(rt(secs, draw));
    simulate(BreakerConfig::default(), parts, backend, seed).dropped(0.0, f64::MAX)
}

#[test]
fn backend_that_hangs_is_noticed_within_four_seconds() {
    for (rate, seeds) in [(10.0, 5), (100.0, 3), (1_000.0, 1), (10_000.0, 1)] {
        for seed in 0..seeds {
            for start in [0.0, if rate > 1_000.0 { 3.0 } else { 15.0 }] {
                let after = first_drop(&hang(rate, start, 4.0, 1.0, seed)) - start;
                assert!((2.5..=4.0).contains(&after), "{rate}, {start}: {after}");
            }
        }
    }
}

/// The response time before does not matter: the first drop comes 3 to 3.5 seconds after the last
/// answer.
#[test]
fn backend_that_hangs_is_noticed_as_early_if_it_was_slow() {
    for millis in [20, 600, 1_000, 2_000, 3_000] {
        let rt = MILLI * millis;
        for (rate, seeds) in [(10.0, 5), (100.0, 5), (1_000.0, 1)] {
            for seed in 0..seeds {
                let backend =
                    |secs, _| if secs < 15.0 { Answer::accepted(rt) } else { Answer::HANGS };
                let report = simulate(BreakerConfig::default(), &[(rate, 25.0)], backend, seed);
                let last_answer = 15.0 - 1.0 / rate + rt.as_secs_f64();
                let after = first_drop(&report) - last_answer;
                // Few requests more, because the first drop is random.
                let latest = 3.5 + 3.0 / rate;
                assert!((3.0..=latest).contains(&after), "{millis}, {rate}: {after}");
            }
        }
    }
}

/// Clients that give up do not hide the attempts that wait.
#[test]
fn backend_that_hangs_is_noticed_although_most_attempts_are_cancelled() {
    let cancelled = |after| Answer { after, outcome: Outcome::Cancelled };
    for (rate, share, secs) in [
        (100.0, 0.3, 1.0),
        (100.0, 0.5, 1.0),
        (100.0, 0.9, 1.0),
        (100.0, 0.9, 2.0),
        (1_000.0, 0.8, 0.5),
    ] {
        let after = Duration::from_secs_f64(secs);
        for start in [0.0, 15.0] {
            let backend = |secs, draw| match secs {
                _ if secs < start => Answer::accepted(MILLI * 20),
                _ if draw < share => cancelled(after),
                _ => Answer::HANGS,
            };
            let config = BreakerConfig::default();
            let report = simulate(config, &[(rate, start + 10.0)], backend, 1);
            let after = first_drop(&report) - start;
            assert!((3.0..=4.0).contains(&after), "{rate}, {share}, {start}: {after}");
        }
    }
}

/// A few answers do not end a hang.
#[test]
fn few_requests_get_through_to_a_backend_that_hangs_and_answers_a_few() {
    let admitted_after_first_drop = |rate, answers: &mut dyn FnMut(f64, f64) -> bool| {
        let backend = |secs, draw| {
            if secs < 5.0 || answers(secs, draw) {
                Answer::accepted(MILLI * 20)
            } else {
                Answer::HANGS
            }
        };
        let report = simulate(BreakerConfig::default(), &[(rate, 25.0)], backend, 1);
        report.admitted(first_drop(&report) + 0.1, 25.0)
    };
    let mut left = 1;
    let mut once = |secs, _| secs > 9.0 && std::mem::take(&mut left) > 0;
    let after_one = admitted_after_first_drop(10_000.0, &mut once);
    assert!(after_one <= 60, "{after_one}");
    for (rate, share, limit) in
        [(10_000.0, 0.001, 100), (10_000.0, 0.01, 400), (1_000.0, 0.001, 60), (1_000.0, 0.01, 100)]
    {
        let admitted = admitted_after_first_drop(rate, &mut |_, draw| draw < share);
        assert!(admitted <= limit, "{rate}, {share}: {admitted}");
    }
}

#[test]
fn backend_that_answers_one_in_a_hundred_is_noticed_within_five_seconds() {
    for rate in [100.0, 1_000.0] {
        let after = first_drop(&hang(rate, 15.0, 5.0, 0.99, 1)) - 15.0;
        assert!((3.0..=5.0).contains(&after), "{rate}: {after}");
    }
}

#[test]
fn backend_that_hangs_for_every_second_request_is_noticed_within_the_window() {
    for rate in [100.0, 1_000.0] {
        let report = hang(rate, 15.0, 20.0, 0.5, 1);
        let after = first_drop(&report) - 15.0;
        assert!((7.0..=10.0).contains(&after), "{rate}: {after}");
        assert!(report.share(30.0, 35.0) < 0.8, "{rate}: {}", report.share(30.0, 35.0));
    }
}

#[test]
fn few_requests_wait_for_a_backend_that_hangs() {
    for rate in [100.0, 1_000.0] {
        let report = hang(rate, 15.0, 20.0, 1.0, 1);
        assert!(report.admitted(20.0, 35.0) <= 25, "{rate}: {}", report.admitted(20.0, 35.0));
    }
}

/// The attempts are accepted when the hang ends, or are rejected after 30 seconds each. The last of
/// these rejections comes three and a half seconds after the end of the hang.
#[test]
fn breaker_recovers_after_a_hang() {
    for accepts in [true, false] {
        for rate in [100.0, 1_000.0] {
            let backend = |secs, _| match secs {
                15.0..45.0 if accepts => Answer::accepted(Duration::from_secs_f64(45.0 - secs)),
                15.0..45.0 => Answer::rejected(SECOND * 30),
                _ => Answer::accepted(MILLI * 20),
            };
            let report = simulate(BreakerConfig::default(), &[(rate, 70.0)], backend, 1);
            let end = if accepts { 45.0 } else { 48.5 };
            assert!(report.recovery(end) <= 10.0, "{accepts}, {rate}: {}", report.recovery(end));
        }
    }
}

#[test]
fn slow_backend_that_accepts_is_not_dropped() {
    for seed in 0..2 {
        for rate in [3.0, 10.0, 100.0] {
            for millis in [10, 500, 1_000, 2_000, 3_000] {
                let rt = MILLI * millis;
                let cold = dropped(&[(rate, 30.0)], |_, _| rt, seed);
                let step = dropped(&[(rate, 20.0), (rate * 10.0, 20.0)], |_, _| rt, seed);
                let slower = |secs, _| if secs < 15.0 { MILLI * 20 } else { rt };
                let jump = dropped(&[(rate, 40.0)], slower, seed);
                assert_eq!([cold, step, jump], [0; 3], "{rate}, {millis}");
            }
        }
    }
}

/// The load grows when the backend becomes slower, so most attempts are of the slow backend before
/// it first answers.
#[test]
fn backend_that_becomes_slower_as_the_load_grows_is_not_dropped() {
    for millis in [600, 1_000, 1_400, 2_000, 2_500, 2_900] {
        let rt = |secs, _| MILLI * if secs < 15.0 { 20 } else { millis };
        for load in [100.0, 1_000.0] {
            for before in [1.0, 10.0] {
                for seed in 0..if load > 100.0 { 2 } else { 14 } {
                    let dropped = dropped(&[(before, 15.0), (load, 10.0)], rt, seed);
                    assert_eq!(dropped, 0, "{millis}, {before}, {load}, {seed}");
                }
            }
        }
    }
}

/// Response times of every length, with a mean of up to two seconds.
#[test]
fn backend_with_scattered_response_times_is_not_dropped() {
    for mean in [0.1, 0.5, 1.0, 2.0] {
        let rt = |_, draw: f64| Duration::from_secs_f64(-mean * (1.0 - draw).max(1e-9).ln());
        for rate in [3.0, 100.0, 1_000.0] {
            assert_eq!(dropped(&[(rate, 30.0)], rt, 1), 0, "{mean}, {rate}");
        }
    }
}

/// A third of the requests takes three seconds and the others 20 ms, from the first request on.
#[test]
fn backend_with_two_response_times_is_not_dropped_for_the_longer_one() {
    let rt = |_, draw| if draw < 1.0 / 3.0 { SECOND * 3 } else { MILLI * 20 };
    for rate in [3.0, 100.0, 1_000.0] {
        assert_eq!(dropped(&[(rate, 30.0)], rt, 1), 0, "{rate}");
    }
}

/// The bound: a backend whose first answer takes more than three tenths of the window looks as if
/// it hangs.
#[test]
fn backend_that_takes_longer_than_the_bound_is_dropped_until_it_answers() {
    let report = simulate(
        BreakerConfig::default(),
        &[(100.0, 60.0)],
        |_, _| Answer::accepted(SECOND * 4),
        1,
    );
    assert!((3.0..4.0).contains(&first_drop(&report)));
    assert!(report.dropped(20.0, 60.0) == 0, "the response time is known by then");
}

/// The times follow the window.
#[test]
fn shorter_window_notices_a_hang_earlier() {
    for (buckets, secs) in [(40_u16, 1), (10, 1), (60, 30)] {
        let window = WindowConfig::new(buckets.into(), SECOND * secs).unwrap();
        let config = BreakerConfig::default().window(window);
        let interval = f64::from(secs);
        let start = 2.0 * interval;
        let backend = |secs, _| {
            if secs >= start { Answer::HANGS } else { Answer::accepted(MILLI * 20) }
        };
        let report = simulate(config, &[(500.0, 3.0 * interval)], backend, 1);
        let after = (first_drop(&report) - start) / interval;
        let latest = 0.4 + 1.5 / f64::from(buckets);
        assert!((0.3..=latest).contains(&after), "{buckets}, {secs}: {after}");
    }
}

/// A permit that is never reported leaves with its bucket.
#[test]
fn attempts_that_never_end_leave_the_window() {
    let (breaker, clock) = strict();
    for _ in 0..100 {
        std::mem::forget(breaker.try_acquire());
        clock.advance(MILLI);
    }
    assert_eq!(breaker.drop_probability().to_bits(), 0.0_f64.to_bits());
    clock.advance(SECOND * 5);
    assert!(breaker.drop_probability() > 0.9);
    clock.advance(SECOND * 5);
    assert_eq!(breaker.drop_probability().to_bits(), 0.0_f64.to_bits());
}
