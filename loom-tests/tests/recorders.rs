//! The bins of a thread's cell pass from thread to thread and from window to window, and no
//! response time is lost or counted twice.
#![cfg(loom)]

use leaparray_loom_tests::{SHORT, Window, explore, explore_some, histogram_window};
use loom::thread;

/// The number of executions to run of a model that has too many to explore.
const SOME: usize = 20_000;

/// The same, for a retirement beside a read: loom comes to its last steps only after that many.
const MORE: usize = 80_000;

/// Starts a thread that records `times` response times in a bucket, and ends.
fn record_and_end(window: &Window, number: u32, times: u32) -> thread::JoinHandle<()> {
    let window = window.clone();
    thread::spawn(move || {
        for _ in 0..times {
            window.record(number, SHORT);
        }
    })
}

/// A window of one bucket in which the main thread has recorded once in bucket 0, and a thread that
/// has ended twice.
fn with_abandoned_cell() -> Window {
    let window = histogram_window(1);
    window.record(0, SHORT);
    record_and_end(&window, 0, 2).join().unwrap();
    window
}

#[test]
fn adopted_cell_keeps_the_response_times_of_its_last_owner() {
    explore_some(SOME, Some(1), || {
        let window = histogram_window(1);
        // The second thread may start after the first has ended, and then adopts its cell.
        let others = [1, 2].map(|times| record_and_end(&window, 0, times));
        for other in others {
            other.join().unwrap();
        }
        assert_eq!([window.times(0), window.recorded_times()], [[3, 0]; 2]);
    });
}

/// A thread has ended in bucket 0. The main thread records in bucket 1 and retires the abandoned
/// cell, while another thread records in bucket 1 and adopts the cell.
#[test]
fn retired_cell_is_adopted_without_loss_of_response_times() {
    explore_some(SOME, Some(1), || {
        let window = with_abandoned_cell();
        let other = record_and_end(&window, 1, 4);
        window.record(1, SHORT);
        other.join().unwrap();
        assert_eq!([window.times(1), window.recorded_times()], [[5, 0], [8, 0]]);
        window.record(2, SHORT);
        assert_eq!([window.times(2), window.recorded_times()], [[1, 0], [9, 0]]);
    });
}

/// The main thread retires an abandoned cell, by two publications, while another thread reads the
/// lifetime.
#[test]
fn lifetime_beside_a_retirement_has_each_response_time_once() {
    explore_some(MORE, Some(1), || {
        let window = with_abandoned_cell();
        let reader = {
            let window = window.clone();
            thread::spawn(move || window.recorded_times())
        };
        window.record(1, SHORT);
        let times = reader.join().unwrap();
        assert!([[3, 0], [4, 0]].contains(&times), "{times:?}");
        assert_eq!(window.recorded_times(), [4, 0]);
    });
}

/// The recorder of a retired cell passes to another window while a thread reads the first window.
#[test]
fn reader_finds_no_response_times_of_the_recorders_next_window() {
    explore_some(MORE, Some(1), || {
        let [window, next] = [with_abandoned_cell(), histogram_window(1)];
        let reader = {
            let window = window.clone();
            thread::spawn(move || window.recorded_times())
        };
        window.record(1, SHORT);
        next.record(0, SHORT);
        let times = reader.join().unwrap();
        assert!([[3, 0], [4, 0]].contains(&times), "{times:?}");
        assert_eq!([next.times(0), window.recorded_times()], [[1, 0], [4, 0]]);
    });
}

/// One thread retires a cell while another begins to record in another window, and may get the
/// cell's recorder.
#[test]
fn recorder_has_one_owner_beside_its_retirement() {
    explore(Some(3), || {
        let [window, next] = [with_abandoned_cell(), histogram_window(1)];
        let other = record_and_end(&next, 0, 8);
        window.record(1, SHORT);
        other.join().unwrap();
        assert_eq!([next.times(0), next.recorded_times()], [[8, 0]; 2]);
        assert_eq!([window.times(1), window.recorded_times()], [[1, 0], [4, 0]]);
    });
}

/// The slab gives the recorder of a dropped window to the next window, whose reader finds no
/// response times of the first.
#[test]
fn response_times_do_not_cross_windows() {
    explore(Some(2), || {
        let [first, second] = [histogram_window(1), histogram_window(1)];
        let reader = {
            let second = second.clone();
            thread::spawn(move || [second.times(0), second.recorded_times()])
        };
        for _ in 0..2 {
            first.record(0, SHORT);
        }
        first.record(1, SHORT);
        drop(first);
        second.record(0, SHORT);
        let found = reader.join().unwrap();
        assert!(found.iter().all(|times| [[0, 0], [1, 0]].contains(times)), "{found:?}");
        assert_eq!([second.times(0), second.recorded_times()], [[1, 0]; 2]);
    });
}
