//! Sealing: counts move from a thread's cell into the history at one moment. Each count is read
//! once, in the bucket of its time, whichever thread stalls.
#![cfg(loom)]

use leaparray_loom_tests::{Window, explore, explore_some, window};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, mpsc};
use loom::thread;

/// The number of executions to run of a model that has too many to explore.
const SOME: usize = 20_000;

/// A window of `samples` buckets whose history exists, with the calling thread's cell bound to
/// bucket 2. No interleaving of these steps is explored.
fn warm(samples: u32) -> Window {
    let window = window(samples);
    for number in 0..3 {
        window.add(number, 0);
    }
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

/// Adds 10⁰, 10¹, … in the buckets, and stores the sum in `progress` after each add.
fn add_in(window: &Window, progress: &AtomicU64, numbers: &[u32]) {
    let mut sum = 0;
    for (number, exponent) in numbers.iter().zip(0..) {
        let count = 10_u64.pow(exponent);
        window.add(*number, count);
        sum += count;
        progress.store(sum, Ordering::Release);
    }
}

/// Asserts that `found` is the sum of the first adds of [`add_in`], and no less than `before`.
fn assert_prefix(before: u64, found: u64) {
    let is_prefix = found.to_string().bytes().all(|digit| digit == b'1') || found == 0;
    assert!(is_prefix && found >= before, "found {found}, but {before} had been recorded before");
}

#[test]
fn reader_finds_a_count_once_while_its_cell_is_sealed() {
    explore(Some(1), || {
        let (window, progress) = (warm(2), Arc::new(AtomicU64::new(0)));
        let reader = reader(&window, &progress, |window| window.sum(3));
        add_in(&window, &progress, &[2, 3]);
        let (before, sum) = reader.join().unwrap();
        assert_prefix(before, sum);
        assert_eq!(window.sum(3), 11);
    });
}

#[test]
fn reader_finds_the_counts_of_a_cell_that_is_bound_to_an_earlier_bucket_again() {
    explore_some(SOME, Some(1), || {
        let (window, progress) = (warm(2), Arc::new(AtomicU64::new(0)));
        let reader = reader(&window, &progress, |window| window.sum(3));
        add_in(&window, &progress, &[2, 3, 2]);
        let (before, sum) = reader.join().unwrap();
        assert_prefix(before, sum);
        assert_eq!(window.sum(3), 111);
    });
}

/// One thread reads the whole window in its newest bucket, while the owner of a cell seals it and
/// binds it to the bucket before. The reader finds each count once.
#[test]
fn steady_reader_finds_a_sealed_count_or_the_cell_that_had_it() {
    explore(Some(1), || {
        let (window, progress) = (warm(2), Arc::new(AtomicU64::new(0)));
        let reader = reader(&window, &progress, |window| window.sum(2));
        add_in(&window, &progress, &[2, 1]);
        let (before, sum) = reader.join().unwrap();
        assert_prefix(before, sum);
        assert_eq!(window.sum(2), 11);
    });
}

#[test]
fn ledger_finds_each_count_once() {
    explore(Some(1), || {
        let (window, progress) = (warm(1), Arc::new(AtomicU64::new(0)));
        let reader = reader(&window, &progress, |window| window.recorded());
        add_in(&window, &progress, &[2, 3]);
        let (before, recorded) = reader.join().unwrap();
        assert_prefix(before, recorded);
        assert_eq!(window.ledger(3), [10, 1, 0]);
    });
}

#[test]
fn ledger_only_grows() {
    explore(Some(1), || {
        let window = warm(1);
        window.add(2, 1);
        let reader = {
            let window = window.clone();
            thread::spawn(move || [window.recorded(), window.recorded()])
        };
        window.add(3, 10);
        let found = reader.join().unwrap();
        assert!([[1, 1], [1, 11], [11, 11]].contains(&found), "{found:?}");
    });
}

/// One thread takes a ledger while another begins to record in a later bucket of bucket 3's slot,
/// and then adds. The ledger is of one moment: bucket 3 is there, or it is gone, and then the add
/// is counted or not.
fn ledger_is_of_one_moment_beside_a_record_in(later: u32) {
    explore(Some(1), move || {
        let window = window(2);
        window.add(3, 1);
        window.add(6, 10);
        let other = thread::spawn({
            let window = window.clone();
            move || window.add(later, 100)
        });
        let ledger = window.ledger(3);
        assert!([[1, 10, 0], [0, 11, 0], [0, 111, 0]].contains(&ledger), "{ledger:?}");
        other.join().unwrap();
        assert_eq!(window.ledger(3), [0, 111, 0]);
    });
}

#[test]
fn ledger_beside_a_record_behind_the_newest_bucket_is_of_one_moment() {
    ledger_is_of_one_moment_beside_a_record_in(5);
}

#[test]
fn ledger_beside_a_record_in_a_new_bucket_is_of_one_moment() {
    ledger_is_of_one_moment_beside_a_record_in(7);
}

/// The main thread goes on for three buckets, and fills rows and descriptors again that the reader
/// may still read. The reader of bucket 2 finds that bucket or nothing.
#[test]
fn reader_never_finds_counts_of_another_bucket() {
    explore_some(SOME, Some(1), || {
        let (window, progress) = (warm(1), Arc::new(AtomicU64::new(0)));
        window.add(2, 5);
        let reader = reader(&window, &progress, |window| window.sum(2));
        for (number, count) in (3..6).zip([60, 700, 8_000]) {
            window.add(number, count);
        }
        let (_, sum) = reader.join().unwrap();
        assert!([0, 5].contains(&sum), "{sum}");
        assert_eq!(window.ledger(5), [8_000, 765, 0]);
    });
}

#[test]
fn two_threads_seal_into_one_row() {
    explore(Some(1), || {
        let window = warm(2);
        let other = writer(&window, |window| {
            window.add(2, 1);
            window.add(3, 10);
        });
        window.add(2, 100);
        window.add(3, 1_000);
        other.join().unwrap();
        assert_eq!(window.ledger(3), [1_111, 0, 0]);
        assert_eq!(window.ledger(2), [101, 1_010, 0]);
    });
}

#[test]
fn sealer_that_is_lapped_leaks_into_no_other_bucket() {
    explore_some(SOME, Some(1), || {
        let window = warm(1);
        let other = writer(&window, |window| {
            window.add(2, 1);
            window.add(3, 10);
        });
        window.add(4, 100);
        window.add(5, 1_000);
        other.join().unwrap();
        let ledger = window.ledger(5);
        assert_eq!((ledger[0], ledger.iter().sum::<u64>()), (1_000, 1_111), "{ledger:?}");
    });
}

#[test]
fn reader_completes_a_publication_beside_two_publishers() {
    explore_some(SOME, Some(1), || {
        let (window, progress) = (warm(2), Arc::new(AtomicU64::new(0)));
        let other = writer(&window, |window| window.add(3, 1));
        let reader = reader(&window, &progress, |window| window.sum(3));
        window.add(2, 10);
        window.add(3, 100);
        other.join().unwrap();
        let (_, sum) = reader.join().unwrap();
        assert!([0, 1].contains(&(sum % 10)) && [0, 1, 11].contains(&(sum / 10)), "{sum}");
        assert_eq!(window.ledger(3), [111, 0, 0]);
    });
}
