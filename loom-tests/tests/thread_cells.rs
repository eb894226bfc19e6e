//! Cells pass from thread to thread and from window to window, and have one writer at a time.
#![cfg(loom)]

use leaparray_loom_tests::{Window, explore, explore_some, window};
use loom::thread;

/// Starts a thread that adds `count` in a bucket, and ends.
fn add_and_end(window: &Window, number: u32, count: u64) -> thread::JoinHandle<()> {
    let window = window.clone();
    thread::spawn(move || window.add(number, count))
}

#[test]
fn adopted_cell_keeps_the_counts_of_its_last_owner() {
    explore(Some(1), || {
        let window = window(1);
        // The second thread may start after the first has ended, and then adopts its cell.
        let others = [1, 10].map(|count| add_and_end(&window, 0, count));
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(window.sum(0), 11);
    });
}

#[test]
fn abandoned_cell_is_adopted_once() {
    explore(Some(1), || {
        let window = window(1);
        add_and_end(&window, 0, 1).join().unwrap();
        let others = [10, 100].map(|count| {
            let window = window.clone();
            thread::spawn(move || {
                window.add(0, count);
                window.add(0, count);
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(window.sum(0), 221);
    });
}

/// A thread has ended in bucket 0. The main thread records in bucket 1 and retires the abandoned
/// cell, while another thread records in bucket 1 and adopts the cell. No count is lost.
#[test]
fn retired_cell_is_adopted_without_loss() {
    explore(Some(1), || {
        let window = window(1);
        window.add(0, 1);
        add_and_end(&window, 0, 10).join().unwrap();
        let other = add_and_end(&window, 1, 100);
        window.add(1, 1_000);
        other.join().unwrap();
        assert_eq!(window.ledger(1), [1_100, 11, 0]);
        window.add(2, 10_000);
        assert_eq!(window.ledger(2), [10_000, 1_111, 0]);
    });
}

/// The main thread records in buckets 1 and 2, and may find the other thread's cell idle while that
/// thread binds it to bucket 2. The other thread reads its own record, and no read misses the cell
/// afterwards.
#[test]
fn deactivated_cell_is_read_once_it_is_bound_again() {
    explore_some(20_000, Some(1), || {
        let window = window(1);
        let other = {
            let window = window.clone();
            thread::spawn(move || {
                window.add(0, 1);
                window.add(2, 10);
                window.sum(2)
            })
        };
        window.add(1, 100);
        window.add(2, 1_000);
        assert!(other.join().unwrap() % 100 == 10);
        assert_eq!(window.sum(2), 1_010);
    });
}

/// Three windows share a set of the thread cache, which has two entries. The cell of one window is
/// evicted and abandoned, and its own thread or another one adopts it. No count is lost.
#[test]
fn evicted_cell_is_adopted_by_its_own_thread_or_another() {
    explore(Some(1), || {
        // There are two sets: the windows in between are in the other one.
        let windows: Vec<_> = (0..5).map(|_| window(1)).collect();
        let [first, second, third] = [0, 2, 4].map(|index| windows[index].clone());
        first.add(0, 1);
        second.add(0, 1);
        let other = add_and_end(&second, 0, 10);
        // This evicts the second window's cell, which the other thread or this one then adopts.
        third.add(0, 1);
        second.add(0, 100);
        other.join().unwrap();
        assert_eq!([first, second, third].map(|window| window.sum(0)), [1, 111, 1]);
    });
}

/// The slab gives the cell of a dropped window to the next window, while the thread that owned it
/// ends. That thread does not abandon the cell, so it has one owner, and no count of the next
/// window is lost.
#[test]
fn cell_of_a_dropped_window_is_not_abandoned_by_its_former_owner() {
    explore(Some(1), || {
        let [dropped, next] = [window(1), window(1)];
        let other = {
            let (dropped, next) = (dropped.clone(), next.clone());
            thread::spawn(move || {
                dropped.add(0, 1);
                drop(dropped);
                next.add(0, 10);
            })
        };
        drop(dropped);
        next.add(0, 100);
        next.add(0, 1_000);
        other.join().unwrap();
        assert_eq!(next.sum(0), 1_110);
    });
}

/// One thread records in a window, drops it, and records in a second window, which gets the same
/// cell. A reader of the second window finds no counts of the first.
#[test]
fn counts_do_not_cross_windows() {
    explore(Some(1), || {
        let [first, second] = [window(1), window(1)];
        let reader = {
            let second = second.clone();
            thread::spawn(move || second.sum(0))
        };
        first.add(0, 1);
        first.add(1, 10);
        drop(first);
        second.add(0, 100);
        assert!([0, 100].contains(&reader.join().unwrap()));
        assert_eq!(second.ledger(0), [100, 0, 0]);
    });
}
