//! The number of recorders of response times that are in use.
//!
//! This is one test in a separate file because all windows of the process share the recorders.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::node::CellMemory;
use leaparray::{HistogramConfig, ManualClock, SlidingWindow, Timestamp, WindowConfig};

const THREADS: usize = 40;

fn window() -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(1, Duration::from_secs(1)).unwrap();
    let clock = ManualClock::new(Timestamp::MIN);
    SlidingWindow::with_histogram(config, HistogramConfig::default(), clock)
}

fn record(window: &SlidingWindow<ManualClock>, second: u64) {
    window.record_rt_at(Timestamp::from_secs(second), Duration::from_millis(1));
}

#[test]
fn recorders_are_given_back_by_retired_cells_and_dropped_windows() {
    let memory = || (CellMemory::current().recorders_in_use, CellMemory::current().recorders_free);
    assert_eq!(memory(), (0, 0));
    let all_have_one = Barrier::new(THREADS);
    let first = window();
    record(&first, 0);
    for _ in 0..3 {
        thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| {
                scope.spawn(|| {
                    record(&first, 0);
                    all_have_one.wait();
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
        });
        let (in_use, free) = memory();
        assert!(in_use > THREADS && free == 0, "abandoned cells keep their recorders: {in_use}");
    }
    let made = memory().0;
    // Each new bucket retires a few of them.
    (1..200).for_each(|second| record(&first, second));
    assert_eq!(memory(), (1, made - 1), "the recorder of the thread that lives");
    for _ in 0..3 {
        let second = window();
        record(&second, 0);
        assert_eq!(memory(), (2, made - 2));
    }
    assert_eq!(memory(), (1, made - 1), "a dropped window gives its recorder back");
    drop(first);
    assert_eq!(memory(), (0, made));
    cells_bring_no_recorders();
}

/// The cells of dropped windows pass to other windows, which have recorders of their own.
fn cells_bring_no_recorders() {
    for times in [5, 1] {
        let windows: Vec<_> = (0..10).map(|_| window()).collect();
        for _ in 0..times {
            for window in &windows {
                record(window, 0);
            }
        }
        for window in &windows {
            let histograms = [window.lifetime_histogram(), window.at(Timestamp::MIN).histogram()];
            assert!(histograms.iter().flatten().all(|histogram| histogram.count() == times));
        }
    }
}
