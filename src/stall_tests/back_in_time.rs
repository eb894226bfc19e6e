//! A read that goes back in time is stopped between two slots, while buckets go.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::Window;
use super::threads::Led;
use crate::clock::ManualClock;
use crate::event::MetricEvent::Pass;
use crate::geometry::WindowConfig;
use crate::sync::stall::Point;
use crate::timestamp::Timestamp;

fn add(window: &Window, second: u64, count: u64) {
    window.add_at(Timestamp::from_secs(second), Pass, count);
}

/// Adds on a new thread, which then lives for as long as the sender does: no other thread adopts its cell.
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

/// A window of three buckets: 3 and 4, in slots 0 and 1, are there, and 8 is the newest one.
fn window() -> Window {
    let config = WindowConfig::new(3, Duration::from_secs(3)).unwrap();
    let window = Window::with_clock(config, ManualClock::new(Timestamp::MIN));
    for (second, count) in [(3, 1), (4, 10), (8, 1_000)] {
        add(&window, second, count);
    }
    window
}

/// A thread that is stopped in `read` once it has visited so many slots.
fn reader<R: Send + 'static>(
    window: &Window,
    slots: usize,
    read: impl FnOnce(&Window) -> R + Send + 'static,
) -> Led<R> {
    let window = window.clone();
    let mut reader = Led::start(move |leash| {
        leash.put_on();
        read(&window)
    });
    for _ in 0..slots {
        assert!(reader.lead(0));
        reader.lead_to(Point::SlotVisited);
    }
    reader
}

/// In the window at second 4, expired, and late.
fn account(window: &Window) -> [u64; 3] {
    let account = window.account_at(Timestamp::from_secs(4)).map(|it| it.sum(Pass));
    [account.in_window, account.expired, account.late]
}

/// Buckets 3 and 4 go one after the other, between the reader's looks at their slots.
#[test]
fn account_beside_records_in_two_slots_is_of_one_moment() {
    let window = window();
    let reader = reader(&window, 1, account);
    let first = add_elsewhere(&window, 6, 100);
    let second = add_elsewhere(&window, 7, 10_000);
    assert_eq!(reader.finish().0, [0, 11_111, 0]);
    drop((first, second));
}

/// Bucket 3 goes after the reader has visited all slots, and before it visits late cells.
#[test]
fn account_beside_a_late_record_is_of_one_moment() {
    let window = window();
    let reader = reader(&window, 3, account);
    let first = add_elsewhere(&window, 6, 100);
    let second = add_elsewhere(&window, 3, 10_000);
    assert_eq!(reader.finish().0, [10, 1_101, 10_000]);
    drop((first, second));
}

/// Bucket 4 goes after the reader has visited its slot, and before it visits the cells of bucket 6, which
/// cannot be gone.
#[test]
fn sum_beside_a_record_in_a_bucket_that_is_there_is_of_one_moment() {
    let window = window();
    let reader = reader(&window, 2, |window| window.sum_at(Timestamp::from_secs(6), Pass));
    let first = add_elsewhere(&window, 7, 100);
    let second = add_elsewhere(&window, 6, 10_000);
    assert_eq!(reader.finish().0, 10_000);
    drop((first, second));
}
