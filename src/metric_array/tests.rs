use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

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
