//! The window of the last calls: each record replaces the oldest call, and no call is counted
//! twice.
#![cfg(loom)]

use std::time::Duration;

use leaparray::count_window::{CountTotals, CountWindow};
use leaparray::shadow_all_words;
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::thread;

const FAST: Duration = Duration::ZERO;

fn window(len: u32) -> Arc<CountWindow> {
    Arc::new(CountWindow::new(len).unwrap())
}

fn exceptions(window: &CountWindow) -> (u64, u64) {
    let CountTotals { calls, exceptions, .. } = window.totals();
    (calls, exceptions)
}

/// Fills a window with calls that are no exceptions, and checks that each exception leaves it.
fn check_that_exceptions_leave(window: &CountWindow) {
    for _ in 0..window.len() {
        window.record_success(FAST);
    }
    assert_eq!(exceptions(window), (window.len().into(), 0));
}

#[test]
fn records_beside_each_other_are_all_counted() {
    for len in [1, 2, 3] {
        explore(Some(3), move || {
            shadow_all_words();
            let window = window(len);
            window.record_exception(FAST);
            let other = window.clone();
            let other = thread::spawn(move || {
                other.record_success(FAST);
                other.record_exception(FAST);
            });
            window.record_exception(FAST);
            window.record_success(FAST);
            other.join().unwrap();
            let (calls, counted) = exceptions(&window);
            assert_eq!(calls, u64::from(len));
            assert!(counted <= calls);
            check_that_exceptions_leave(&window);
        });
    }
}

/// While a thread records a call, another thread records enough calls to use all slots again.
#[test]
fn record_that_stalls_for_a_lap_writes_nothing_earlier() {
    explore(Some(3), || {
        shadow_all_words();
        let window = window(2);
        window.record_exception(FAST);
        let other = window.clone();
        let other = thread::spawn(move || {
            for _ in 0..3 {
                other.record_success(FAST);
            }
        });
        window.record_exception(FAST);
        other.join().unwrap();
        assert!(exceptions(&window).1 <= 1);
        check_that_exceptions_leave(&window);
    });
}

#[test]
fn three_records_are_all_counted() {
    explore(Some(2), || {
        shadow_all_words();
        let window = window(2);
        let others = [(); 2].map(|()| {
            let window = window.clone();
            thread::spawn(move || window.record_exception(FAST))
        });
        window.record_success(FAST);
        for other in others {
            other.join().unwrap();
        }
        let (calls, counted) = exceptions(&window);
        assert_eq!(calls, 2);
        assert!(counted >= 1);
        check_that_exceptions_leave(&window);
    });
}

/// All calls are exceptions, so their numbers differ only in a reading of two moments.
#[test]
fn readings_are_of_one_moment() {
    explore(Some(3), || {
        shadow_all_words();
        let window = window(2);
        let other = window.clone();
        let other = thread::spawn(move || {
            other.record_exception(FAST);
            other.record_exception(FAST);
        });
        let (calls, counted) = exceptions(&window);
        assert_eq!(calls, counted, "each call is an exception");
        other.join().unwrap();
    });
}
