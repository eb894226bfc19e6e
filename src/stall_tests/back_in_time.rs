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

/// Buckets 3 and 4 go one after the other, between the reader's looks at their slots.
#[test]
fn account_beside_records_in_two_slots_is_of_one_moment() {
    let config = WindowConfig::new(3, Duration::from_secs(3)).unwrap();
    let window = Window::with_clock(config, ManualClock::new(Timestamp::MIN));
    add(&window, 3, 1);
    add(&window, 4, 10);
    add(&window, 8, 1_000);
    let mut reader = Led::start({
        let window = window.clone();
        move |leash| {
            leash.put_on();
            window.account_at(Timestamp::from_secs(4)).map(|it| it.sum(Pass))
        }
    });
    reader.lead_to(Point::SlotVisited);
    let first = add_elsewhere(&window, 6, 100);
    let second = add_elsewhere(&window, 7, 10_000);
    let (account, _) = reader.finish();
    assert_eq!([account.in_window, account.expired, account.late], [0, 11_111, 0]);
    drop((first, second));
}
