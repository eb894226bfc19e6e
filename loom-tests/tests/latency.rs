//! Histograms of windows: each response time is in one bin of one bucket, whichever thread reads or
//! seals it.
#![cfg(loom)]

use leaparray::show_all_words;
use leaparray_loom_tests::{LONG, SHORT, Window, explore, explore_some, histogram_window};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, mpsc};
use loom::thread;

/// The number of executions to run of a model that has too many to explore.
const SOME: usize = 20_000;

/// A window of `samples` buckets whose history exists, with the calling thread's cell bound to
/// bucket 2, and a response time in bucket 0. No interleaving of these steps is explored.
fn warm(samples: u32) -> Window {
    let window = histogram_window(samples);
    window.record(0, SHORT);
    window.add(1, 0);
    window.add(2, 0);
    window
}

/// Starts a thread that loads `progress`, calls `read`, and returns both results.
fn reader<T: 'static>(
    window: &Window,
    progress: &Arc<AtomicU64>,
    read: impl FnOnce(Window) -> T + 'static,
) -> thread::JoinHandle<(u64, T)> {
    let (window, progress) = (window.clone(), progress.clone());
    thread::spawn(move || (progress.load(Ordering::Acquire), read(window)))
}

/// Starts a thread that binds its cell to bucket 2 and then calls `write`. Returns once the cell is
/// bound.
fn writer(window: &Window, write: impl FnOnce(Window) + 'static) -> thread::JoinHandle<()> {
    let window = window.clone();
    let (sender, receiver) = mpsc::channel();
    let writer = thread::spawn(move || {
        window.add(2, 0);
        sender.send(()).unwrap();
        write(window);
    });
    receiver.recv().unwrap();
    writer
}

/// Records a response time in each of the buckets, and stores their number in `progress` after
/// each.
fn record_in(window: &Window, progress: &AtomicU64, numbers: &[u32]) {
    for (number, count) in numbers.iter().zip(1..) {
        window.record(*number, SHORT);
        progress.store(count, Ordering::Release);
    }
}

/// The histogram has each response time whose record returned before the read, and its extremes and
/// its count cover each one in its sum.
#[test]
fn histogram_beside_a_record_has_the_count_and_the_extremes_of_its_sum() {
    show_all_words();
    explore(Some(2), || {
        let window = histogram_window(1);
        window.record(1, SHORT);
        let progress = Arc::new(AtomicU64::new(1));
        let reader = reader(&window, &progress, |window| window.histogram(1));
        window.record(1, LONG);
        progress.store(2, Ordering::Release);
        let (before, histogram) = reader.join().unwrap();
        let in_sum = if histogram.sum() == SHORT { 1 } else { 2 };
        assert!(histogram.sum() == SHORT || histogram.sum() == SHORT + LONG, "{histogram:?}");
        assert!((before.max(in_sum)..=2).contains(&histogram.count()), "{histogram:?}");
        assert_eq!(histogram.min(), Some(SHORT));
        if histogram.count() == 2 {
            assert_eq!(histogram.max(), Some(LONG), "{histogram:?}");
        }
    });
}

/// The first response time of a thread makes its bin. A reader finds the bin empty or with the
/// response time.
#[test]
fn bin_that_a_thread_makes_is_found_by_another() {
    explore(Some(2), || {
        let window = histogram_window(1);
        window.add(1, 0);
        let progress = Arc::new(AtomicU64::new(0));
        let reader = reader(&window, &progress, |window| window.times(1));
        record_in(&window, &progress, &[1]);
        let (before, times) = reader.join().unwrap();
        assert!(times == [before, 0] || times == [1, 0], "{times:?}, {before} before");
        assert_eq!(window.times(1), [1, 0]);
    });
}

/// As above, for a reader of the lifetime.
#[test]
fn bin_that_a_thread_makes_is_found_in_the_lifetime() {
    explore(Some(2), || {
        let window = histogram_window(1);
        window.add(1, 0);
        let progress = Arc::new(AtomicU64::new(0));
        let reader = reader(&window, &progress, |window| window.recorded_times());
        record_in(&window, &progress, &[1]);
        let (before, times) = reader.join().unwrap();
        assert!(times == [before, 0] || times == [1, 0], "{times:?}, {before} before");
    });
}

#[test]
fn reader_finds_a_response_time_once_while_its_cell_is_sealed() {
    explore_some(SOME, Some(1), || {
        let (window, progress) = (warm(2), Arc::new(AtomicU64::new(0)));
        let reader = reader(&window, &progress, |window| window.times(3));
        record_in(&window, &progress, &[2, 3]);
        let (before, [found, longer]) = reader.join().unwrap();
        assert!((before..=2).contains(&found) && longer == 0, "{found}, {before} before");
        assert_eq!(window.times(3), [2, 0]);
    });
}

/// The main thread goes on for three buckets, and fills lists of bins again that the reader may
/// still read.
#[test]
fn reader_never_finds_response_times_of_another_bucket() {
    explore_some(SOME, Some(1), || {
        let window = histogram_window(1);
        window.record(2, SHORT);
        let progress = Arc::new(AtomicU64::new(0));
        let reader = reader(&window, &progress, |window| window.times(2));
        for number in 3..6 {
            for _ in 1..number {
                window.record(number, SHORT);
            }
        }
        let (_, times) = reader.join().unwrap();
        assert!([[0, 0], [1, 0]].contains(&times), "{times:?}");
        assert_eq!(window.times(5), [4, 0]);
        assert_eq!(window.recorded_times(), [10, 0]);
    });
}

/// The main thread has read the window twice, so it has merged the row of bucket 1. The other
/// thread seals buckets in the same slot, and fills that row again, while the main thread reads
/// once more.
#[test]
fn repeated_read_follows_the_rows_that_are_sealed_beside_it() {
    explore_some(SOME, Some(1), || {
        let (window, progress) = (histogram_window(2), Arc::new(AtomicU64::new(0)));
        window.record(1, SHORT);
        window.add(2, 0);
        assert_eq!([window.times(2), window.times(2)], [[1, 0]; 2]);
        let writer = {
            let (window, progress) = (window.clone(), progress.clone());
            thread::spawn(move || record_in(&window, &progress, &[3, 4]))
        };
        let before = progress.load(Ordering::Acquire);
        let [found, longer] = window.times(3);
        assert!((before.min(1)..=1).contains(&found) && longer == 0, "{found}, {before} before");
        writer.join().unwrap();
        assert_eq!([window.times(3), window.times(4)], [[1, 0], [2, 0]]);
        record_in(&window, &progress, &[5]);
        assert_eq!(window.times(5), [2, 0]);
    });
}

/// Another thread records late in bucket 1, which the main thread has sealed, and seals it again
/// while the main thread copies its row.
#[test]
fn repeated_read_follows_a_row_that_is_filled_again_for_its_bucket() {
    explore_some(SOME, Some(1), || {
        let window = histogram_window(2);
        window.record(1, SHORT);
        window.add(2, 0);
        assert_eq!(window.times(2), [1, 0]);
        let late = window.clone();
        let writer = thread::spawn(move || {
            late.record(1, SHORT);
            late.add(2, 0);
        });
        // This read makes the merge.
        let [found, longer] = window.times(2);
        assert!((1..=2).contains(&found) && longer == 0, "{found}");
        writer.join().unwrap();
        assert_eq!(window.times(2), [2, 0]);
    });
}

/// The reader may find the cell sealed, and its bins after it was bound again. The extremes include
/// what is in the bins.
#[test]
fn lifetime_beside_a_rotation_only_grows() {
    explore_some(SOME, Some(1), || {
        let (window, progress) = (warm(1), Arc::new(AtomicU64::new(1)));
        let reader = reader(&window, &progress, |window| {
            let histogram = window.lifetime_histogram().expect("the window has one");
            (histogram, window.recorded_times())
        });
        window.record(2, SHORT);
        progress.store(2, Ordering::Release);
        window.record(3, LONG);
        let (before, (histogram, [short, longer])) = reader.join().unwrap();
        let (first, second) = (histogram.count(), short + longer);
        assert!(before <= first && first <= second && second <= 3, "{before}, {first}, {second}");
        assert_eq!(histogram.max(), Some(if first == 3 { LONG } else { SHORT }), "{histogram:?}");
        assert_eq!(window.recorded_times(), [2, 1]);
    });
}

#[test]
fn two_threads_seal_their_bins_into_one_row() {
    explore(Some(1), || {
        let window = warm(2);
        let other = writer(&window, |window| {
            window.record(2, SHORT);
            window.record(2, LONG);
            window.record(3, SHORT);
        });
        window.record(2, SHORT);
        window.record(3, LONG);
        other.join().unwrap();
        assert_eq!(window.times(2), [2, 1]);
        assert_eq!(window.times(3), [3, 2]);
        assert_eq!(window.recorded_times(), [4, 2]);
    });
}
