//! Random configurations and histories: the bound of the recovery, and healthy backends of any
//! response time.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of buckets and of milliseconds"
)]

use super::simulation::{Answer, simulate};
use super::*;

/// Draws of one history.
struct Dice(SeededRandom);

impl Dice {
    fn part(&self) -> f64 {
        f64::from(self.0.next_u32()) / f64::from(u32::MAX)
    }

    fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.0.next_u32() as usize % choices.len()]
    }
}

/// Returns the time after the last rejection from which on no request is dropped, if the backend
/// accepts each request within `rt`: the bound of the documentation.
fn bound(window: WindowConfig, probe: f64, recovery: f64, rt: f64, rate: f64) -> f64 {
    let interval = window.interval().as_secs_f64();
    let bucket = window.bucket_len().as_secs_f64();
    probe + 1.0 / rate + rt + recovery.min(interval / 2.0) + 3.0 * bucket
}

/// Any share of rejections at any rates for any time, with rejections that come late; then a
/// backend that accepts every request.
#[test]
fn no_request_is_dropped_once_the_bound_of_the_recovery_is_over() {
    for seed in 0..120 {
        let dice = Dice(SeededRandom::new(seed));
        let buckets = dice.one_of(&[1, 2, 3, 4, 10, 40, 100]);
        let millis = dice.one_of(&[100, 250, 1_000, 10_000, 30_000]).min(60_000 / buckets as u32);
        let window = WindowConfig::new(buckets, MILLI * millis * buckets as u32).unwrap();
        let interval = window.interval().as_secs_f64();
        let k = dice.one_of(&[1.0, 1.1, 1.5, 2.0, 4.0]);
        let probe = dice.one_of(&[0.1, 1.0, 5.0]);
        let recovery = dice.one_of(&[0.5, 5.0, 60.0]);
        let config = AdaptiveBreakerConfig::default().window(window).k(k).unwrap();
        let config = config.min_requests(dice.one_of(&[0, 5, 20]));
        let config = config.probe_interval(Duration::from_secs_f64(probe)).unwrap();
        let config = config.recovery(Duration::from_secs_f64(recovery)).unwrap();

        let rate = dice.one_of(&[2.0, 10.0, 100.0]);
        let rt = dice.one_of(&[0.0, 0.02, 0.5, 3.0, 20.0]);
        let rejects_after = dice.one_of(&[0.0, 0.02, 1.0, 8.0]);
        let parts: Vec<_> = (0..3)
            .map(|_| (dice.one_of(&[1.0, 10.0, rate]), 1.0 + dice.part() * 20.0, dice.part()))
            .collect();
        let ends: Vec<_> = parts
            .iter()
            .scan(0.0, |end, part| {
                *end += part.1;
                Some(*end)
            })
            .collect();
        let well_from = ends[2];
        let bound = bound(window, probe, recovery, rt, rate);
        let quiet = bound + interval + 2.0 * rt + 1.0;
        let mut last_rejection = well_from;
        let backend = |secs: f64, draw: f64| {
            let part = ends.iter().position(|end| secs < *end);
            if part.is_some_and(|part| draw < parts[part].2) {
                last_rejection = last_rejection.max(secs + rejects_after);
                Answer::rejected(Duration::from_secs_f64(rejects_after))
            } else {
                Answer::accepted(Duration::from_secs_f64(rt))
            }
        };
        let mut loads: Vec<_> = parts.iter().map(|part| (part.0, part.1)).collect();
        loads.push((rate, rejects_after + quiet));
        let report = simulate(config, &loads, backend, seed);
        let healthy = last_rejection + bound + 0.1;
        let end = well_from + rejects_after + quiet;
        let dropped = report.dropped(healthy, end);
        assert_eq!(
            dropped,
            0,
            "{seed}: {buckets} buckets of {interval} s, k {k}, probe {probe}, recovery {recovery}, \
             {rate}/s, {rt} s: dropped after {bound} s, up to {} s",
            report.recovery(last_rejection)
        );
    }
}

/// With k = 1, each dropped request in the window keeps the probability by the counts above zero.
#[test]
fn coarse_window_with_the_strictest_k_recovers_within_the_bound() {
    let window = WindowConfig::new(2, SECOND * 60).unwrap();
    let config = AdaptiveBreakerConfig::default().window(window).k(1.0).unwrap();
    for rate in [10.0, 100.0, 1_000.0] {
        let backend = |secs, _| match secs {
            10.0..40.0 => Answer::rejected(MILLI * 20),
            _ => Answer::accepted(MILLI * 20),
        };
        let report = simulate(config, &[(rate, 300.0)], backend, 1);
        let recovery = report.recovery(40.0);
        assert!(recovery <= bound(window, 1.0, 5.0, 0.02, rate), "{rate}: {recovery}");
    }
}

/// Constant, exponential and mixed response times, from the start on, with a jump of the load, and
/// in bursts.
#[test]
fn backend_that_accepts_every_request_loses_none_however_long_it_takes() {
    for mean in [0.02, 3.5, 20.0, 90.0] {
        for form in 0..3 {
            let rt = |draw: f64| match form {
                0 => mean,
                1 => -mean * (1.0 - draw).max(1e-9).ln(),
                _ if draw < 0.1 => mean * 10.0,
                _ => 0.01,
            };
            for parts in [
                &[(100.0, 120.0)][..],
                &[(1.0, 60.0), (100.0, 60.0)],
                &[(100.0, 5.0), (0.1, 60.0), (100.0, 5.0), (0.1, 60.0), (100.0, 5.0)],
            ] {
                let backend = |_, draw| Answer::accepted(Duration::from_secs_f64(rt(draw)));
                let report = simulate(AdaptiveBreakerConfig::default(), parts, backend, 1);
                assert_eq!(report.dropped(0.0, f64::MAX), 0, "{mean} s, {form}, {parts:?}");
            }
        }
    }
}
