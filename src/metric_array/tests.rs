use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use super::cells::seats::SEATS;
use super::*;
use crate::metric::MetricEvent;

fn add(array: &SharedArray, number: u64) {
    array.record(array.config().start_of(number), |cell, _| {
        cell.writer().add(MetricEvent::Pass, 1);
    });
}

fn unretired_cells(array: &SharedArray) -> u32 {
    let mut left = 0;
    array.cells.for_each_cell(|cell| left += u32::from(cell.state().is_unretired()));
    left
}

#[test]
fn each_sweep_retires_four_cells_of_ended_threads() {
    let config = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    let array = Arc::new(SharedArray::new(config, None));
    // All at once: a thread that begins later would adopt the cell of a thread that has ended.
    let all = Arc::new(Barrier::new(9));
    let work = || {
        let (array, all) = (Arc::clone(&array), Arc::clone(&all));
        move || {
            add(&array, 0);
            all.wait();
        }
    };
    let threads: Vec<_> = (0..9).map(|_| thread::spawn(work())).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(unretired_cells(&array), 9);
    // This thread adopts one of the cells, and retires four in its sweep.
    add(&array, 10);
    assert_eq!(unretired_cells(&array), 4);
    add(&array, 11);
    assert_eq!(unretired_cells(&array), 0);
    assert_eq!(array.ledger(&(0..=11)).recorded().sum(MetricEvent::Pass), 11);
}

/// Threads record once and idle, more of them than there are seats. A thread that comes later than
/// all of them, and records on, has a seat once their buckets have left the window, so a read
/// visits no group.
#[test]
fn thread_that_records_beside_idle_ones_has_a_seat() {
    const IDLE: usize = 3 * SEATS;
    let config = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    let array = Arc::new(SharedArray::new(config, None));
    let all = Arc::new(Barrier::new(IDLE + 1));
    let threads: Vec<_> = (0..IDLE)
        .map(|_| {
            let (array, all) = (Arc::clone(&array), Arc::clone(&all));
            thread::spawn(move || {
                add(&array, 0);
                all.wait();
                all.wait();
            })
        })
        .collect();
    all.wait();
    add(&array, 1);
    assert!(!array.cells.are_active_in_seats());
    assert_eq!(array.sum(0..=1, MetricEvent::Pass), IDLE as u128 + 1);
    // The sweeps come to one group after the other.
    (2..8).for_each(|number| add(&array, number));
    assert!(array.cells.are_active_in_seats());
    let mut visited = 0;
    array.cells.for_each_active(|_| visited += 1);
    assert_eq!((visited, array.sum(6..=7, MetricEvent::Pass)), (1, 2));
    all.wait();
    for thread in threads {
        thread.join().unwrap();
    }
}
