//! Tests of a read that goes back in time, and is stopped between two slots while buckets become
//! gone.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::Window;
use super::threads::Led;
use crate::metric::MetricEvent::Pass;
use crate::sync::stall::Point;
use crate::time::{ManualClock, Timestamp, WindowConfig};

fn add(window: &Window, second: u64, count: u64) {
    window.add_at(Timestamp::from_secs(second), Pass, count);
}

/// Adds on a new thread, which then lives for as long as the returned sender: no other thread
/// adopts its cell.
fn add_elsewhere(window: &Window, second: u64, count: u64) -> Sender<()> {
    let window = window.clone();
    let (added, is_added) = channel();
    let (end, ended) = channel();
    thread::spawn(move || {
        add(&window, second, count);
        added.send(()).unwrap();
        let _ = ended.recv();
    });
    is_added.recv().unwrap();
    end
}

/// Creates a window of three buckets: buckets 3 and 4, in slots 0 and 1, are there, and bucket 8 is
/// the newest.
fn window() -> Window {
    let config = WindowConfig::new(3, Duration::from_secs(3)).unwrap();
    let window = Window::with_clock(config, ManualClock::new(Timestamp::MIN));
    for (second, count) in [(3, 1), (4, 10), (8, 1_000)] {
        add(&window, second, count);
    }
    window
}

/// Returns the result of `read`. The reader is stopped after it has visited `slots` slots, until
/// two new threads have recorded these counts in these seconds, one thread after the other.
fn read_beside<R: Send + 'static>(
    records: [(u64, u64); 2],
    slots: usize,
    read: impl FnOnce(&Window) -> R + Send + 'static,
) -> R {
    let window = window();
    let mut reader = Led::start({
        let window = window.clone();
        move |leash| {
            leash.put_on();
            read(&window)
        }
    });
    for _ in 0..slots {
        assert!(reader.lead(0));
        reader.lead_to(Point::SlotVisited);
    }
    let _alive = records.map(|(second, count)| add_elsewhere(&window, second, count));
    reader.finish().0
}

/// Returns the counts in the window at second 4, the expired counts, and the late counts.
fn ledger(window: &Window) -> [u64; 3] {
    let ledger = window.at(Timestamp::from_secs(4)).ledger().map(|it| it.sum(Pass));
    [ledger.in_window, ledger.expired, ledger.late]
}

/// Buckets 3 and 4 become gone one after the other, between the reader's visits to their slots.
#[test]
fn ledger_beside_records_in_two_slots_is_of_one_moment() {
    let ledger = read_beside([(6, 100), (7, 10_000)], 1, ledger);
    assert_eq!(ledger, [0, 11_111, 0]);
}

/// Bucket 3 becomes gone after the reader has visited all slots, and before it visits late cells.
#[test]
fn ledger_beside_a_late_record_is_of_one_moment() {
    let ledger = read_beside([(6, 100), (3, 10_000)], 3, ledger);
    assert_eq!(ledger, [10, 1_101, 10_000]);
}

/// Bucket 4 becomes gone after the reader has visited its slot, and before it visits the cells of
/// bucket 6, which cannot be gone.
#[test]
fn sum_beside_a_record_in_a_bucket_that_is_there_is_of_one_moment() {
    let sum = |window: &Window| window.at(Timestamp::from_secs(6)).sum(Pass);
    assert_eq!(read_beside([(7, 100), (6, 10_000)], 2, sum), 10_000);
}
