//! The window of the last calls: beside an oracle, and exact after any interleaving of threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::count_window::{CountTotals, CountWindow, CountWindowError};

const SLOW: Duration = Duration::from_millis(100);
const FAST: Duration = Duration::from_millis(1);
const THREADS: usize = 4;

/// The calls as a list.
struct Oracle {
    len: usize,
    calls: VecDeque<(bool, Duration)>,
}

impl Oracle {
    fn record(&mut self, is_exception: bool, rt: Duration) {
        if self.calls.len() == self.len {
            self.calls.pop_front();
        }
        self.calls.push_back((is_exception, rt));
    }

    fn totals(&self) -> (u64, u64, u64) {
        let count = |is_it: fn(&(bool, Duration)) -> bool| -> u64 {
            self.calls.iter().filter(|&call| is_it(call)).count() as u64
        };
        (count(|_| true), count(|&(is_exception, _)| is_exception), count(|&(_, rt)| rt > SLOW))
    }

    fn median(&self) -> Option<Duration> {
        let mut times: Vec<_> = self.calls.iter().map(|&(_, rt)| rt).collect();
        times.sort_unstable();
        times.get(times.len().saturating_sub(1) / 2).copied()
    }
}

/// Ends the other threads of a test, also if it fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn window(len: u32) -> CountWindow {
    CountWindow::new(len).unwrap().slow_above(SLOW)
}

fn record(window: &CountWindow, is_exception: bool, rt: Duration) {
    if is_exception {
        window.record_exception(rt);
    } else {
        window.record_success(rt);
    }
}

fn parts(totals: CountTotals) -> (u64, u64, u64) {
    (totals.calls, totals.exceptions, totals.slow)
}

#[test]
fn totals_and_quantiles_are_those_of_the_last_calls() {
    for len in [1, 2, 3, 7, 64, 100, 127, 128, 1_000, CountWindow::MAX_LEN] {
        let window = window(len).with_response_times();
        let mut oracle = Oracle { len: len as usize, calls: VecDeque::new() };
        let mut random = fastrand::Rng::with_seed(len.into());
        for number in 0..(len * 4).min(9_000) {
            assert_eq!(parts(window.totals()), oracle.totals(), "{len}, {number}");
            if number % 97 == 0 {
                assert_eq!(window.quantile(0.5), oracle.median(), "{len}, {number}");
            }
            let rt = Duration::from_millis(random.u64(95..=105));
            let is_exception = random.bool();
            record(&window, is_exception, rt);
            oracle.record(is_exception, rt);
        }
    }
}

#[test]
fn lengths_that_a_window_cannot_have_are_refused() {
    for len in [0, CountWindow::MAX_LEN + 1] {
        let error = CountWindow::new(len).unwrap_err();
        assert!(matches!(error, CountWindowError { len: asked, max: 4_000, .. } if asked == len));
    }
    let error = CountWindow::new(0).unwrap_err().to_string();
    assert_eq!(error, "a window of the last 0 calls cannot be made: it can have 1 to 4000 calls");
}

#[test]
fn response_time_at_the_threshold_is_not_slow() {
    let window = window(2);
    window.record_success(SLOW);
    assert_eq!(window.totals().slow, 0);
    window.record_success(SLOW + Duration::from_nanos(1));
    assert_eq!(window.totals().slow, 1);
    assert_eq!(window.totals().slow_ratio(), Some(0.5));
}

/// Each call of a thread is an exception or a slow call in turn, so that a lost or a doubled call
/// shifts a sum. Then calls that are neither fill the window: a sum that had drifted would not
/// return to 0.
#[test]
fn sums_are_exact_after_threads_have_recorded() {
    for len in [1, 2, 3, 10, 100] {
        let window = window(len);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for number in 0..20_000 {
                        record(
                            &window,
                            number % 2 == 0,
                            if number % 3 == 0 { SLOW * 2 } else { FAST },
                        );
                    }
                });
            }
        });
        for left in (0..len).rev() {
            window.record_success(FAST);
            let CountTotals { calls, exceptions, slow, .. } = window.totals();
            assert_eq!(calls, u64::from(len));
            assert!(
                exceptions <= left.into() && slow <= left.into(),
                "{len}: {:?}",
                window.totals()
            );
        }
    }
}

/// Two threads record an exception and a success in turn, so the exceptions differ from half of the
/// window by at most one for each thread. A reading of two moments would show more.
#[test]
fn readings_are_of_one_moment() {
    const LEN: u32 = 20;
    let window = window(LEN);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = SetOnDrop(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    window.record_exception(FAST);
                    window.record_success(FAST);
                }
            });
        }
        for _ in 0..200_000 {
            let totals = window.totals();
            let half = totals.calls / 2;
            assert!(totals.exceptions.abs_diff(half) <= 2, "{totals:?}");
        }
    });
}

#[test]
fn quantiles_beside_records_are_of_recorded_times() {
    let window = window(50).with_response_times();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = SetOnDrop(&done);
        for thread in 1..=2 {
            let (window, done) = (&window, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    window.record_success(FAST * thread);
                }
            });
        }
        for _ in 0..20_000 {
            for quantile in window.quantiles([0.0, 0.5, 1.0]).into_iter().flatten() {
                assert!([FAST, FAST * 2].contains(&quantile), "{quantile:?}");
            }
        }
    });
    assert_eq!(window.quantiles([-0.1, 1.1, f64::NAN]), [None; 3]);
}
