//! Threads that end, and threads that record while they end: each response time stays in the
//! histogram.

use std::cell::RefCell;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::{LatencyHistogram, Timestamp};

use crate::latency_window::{Window, scale, window};

fn rt(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Records response times of 1 to `micros` microseconds on each of `threads` threads, which are
/// alive at the same time.
fn record_on(window: &Window, now: Timestamp, threads: usize, micros: u64) {
    let all_have_a_cell = Barrier::new(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                (1..=micros).for_each(|it| window.record_rt_at(now, rt(it)));
                all_have_a_cell.wait();
            });
        }
    });
}

fn times(each: u64, micros: u64) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new(scale(5));
    (1..=micros).for_each(|it| histogram.record_many(rt(it), each));
    histogram
}

#[test]
fn response_times_of_ended_threads_stay_in_the_histogram() {
    let window = window(2, scale(5));
    for round in 1..=40 {
        let now = Timestamp::from_secs(round);
        record_on(&window, now, 40, 50);
        let in_window = times(40 * round.min(2), 50);
        assert_eq!(window.at(now).histogram(), Some(in_window), "round {round}");
        assert_eq!(window.lifetime_histogram(), Some(times(40 * round, 50)), "round {round}");
    }
}

/// Cells of ended threads are retired, and their recorders pass to other windows, which do not see
/// their counts.
#[test]
fn recorders_pass_from_window_to_window_without_their_counts() {
    let windows: Vec<_> = (0..10).map(|_| window(1, scale(5))).collect();
    for round in 1..=20 {
        for window in &windows {
            record_on(window, Timestamp::from_secs(round), 3, 5);
        }
        for window in &windows {
            assert_eq!(window.lifetime_histogram(), Some(times(3 * round, 5)), "round {round}");
        }
    }
}

#[test]
fn dropped_window_leaves_no_response_time_to_the_next_one() {
    for round in 1..=500 {
        let window = window(1, scale(5));
        (0..round).for_each(|_| window.record_rt_at(Timestamp::MIN, rt(1)));
        assert_eq!(window.at(Timestamp::MIN).histogram(), Some(times(round, 1)));
        assert_eq!(window.lifetime_histogram(), Some(times(round, 1)));
    }
}

#[test]
fn response_times_in_more_windows_than_the_thread_cache_holds_are_counted() {
    let windows: Vec<_> = (0..3_000).map(|_| window(1, scale(0))).collect();
    for round in 1..=3_u32 {
        for window in &windows {
            window.record_rt_at(Timestamp::from_secs(7), rt(2));
            let histogram = window.at(Timestamp::from_secs(7)).histogram().unwrap();
            assert_eq!((histogram.count(), histogram.sum()), (round.into(), rt(2) * round));
        }
    }
}

/// Records when it is dropped, at the end of its thread: a response time alone, and one with a
/// success.
struct RecordsAtTheEnd(Window);

impl Drop for RecordsAtTheEnd {
    fn drop(&mut self) {
        self.0.record_rt_at(Timestamp::MIN, rt(3));
        self.0.record_success_at(Timestamp::MIN, rt(4));
    }
}

#[test]
fn response_times_of_a_thread_that_is_ending_are_in_the_histogram() {
    thread_local! {
        static AT_THE_END: RefCell<Option<RecordsAtTheEnd>> = const { RefCell::new(None) };
    }
    let keep = |window: &Window| {
        AT_THE_END.set(Some(RecordsAtTheEnd(window.clone())));
    };
    // Thread-locals are dropped in the order of their initialization or in reverse, so both orders
    // are tested.
    for cache_first in [false, true] {
        let window = window(1, scale(5));
        let recorder = window.clone();
        let ending = thread::spawn(move || {
            if !cache_first {
                keep(&recorder);
            }
            (1..=2).for_each(|micros| recorder.record_rt_at(Timestamp::MIN, rt(micros)));
            if cache_first {
                keep(&recorder);
            }
        });
        ending.join().unwrap();
        assert_eq!(window.at(Timestamp::MIN).histogram(), Some(times(1, 4)), "{cache_first}");
        assert_eq!(window.lifetime_histogram(), Some(times(1, 4)), "{cache_first}");
    }
}
