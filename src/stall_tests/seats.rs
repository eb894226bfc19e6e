//! A test of readers beside a cell that loses its seat.

use std::sync::Arc;

use super::Window;
use super::subject::{config, time};
use super::threads::{Led, watched};
use crate::metric::MetricEvent::Pass;
use crate::sync::stall::Point;
use crate::time::{ManualClock, Timestamp};
use crate::window::SlidingWindow;

/// The newest bucket. The window also has the bucket before it.
const NEWEST: u64 = 12;

/// The time of the readings, 1.5 s after the start of the window.
const NOW: Timestamp = Timestamp::from_millis(1_000 * NEWEST + 500);

/// What the moved cell counts in the newest bucket.
const COUNT: u64 = 5;

/// Starts a thread that adds 1 in each of those seconds.
fn adder(window: &Arc<Window>, seconds: &'static [u64]) -> Led<()> {
    let window = Arc::clone(window);
    Led::start(move |leash| {
        leash.put_on();
        for second in seconds {
            window.add_at(time(*second), Pass, 1);
        }
    })
}

/// Stops a reader after it has loaded which of the two seats are taken, and returns its result.
///
/// The cell of the first seat was retired. A sweeper frees the seat, and another thread claims it
/// and stalls. A third thread adopts the retired cell, binds it without a publication, and counts
/// in it. So the reader finds this cell in its former seat, and again in its group.
fn read_beside_a_move<R: Send + 'static>(read: impl Fn(&Window) -> R + Send + 'static) -> R {
    let clock = ManualClock::new(time(NEWEST - 2));
    let window = Arc::new(SlidingWindow::with_clock(config(2), clock));
    let mut retired = adder(&window, &[NEWEST - 2]);
    retired.lead_to(Point::Bound);
    let mut sweeper = adder(&window, &[NEWEST - 2, NEWEST - 1, NEWEST]);
    sweeper.lead_to(Point::Bound);
    // The cell of this thread has no seat.
    let mut mover = adder(&window, &[NEWEST - 2, NEWEST]);
    mover.lead_to(Point::Bound);
    retired.finish();
    assert!(sweeper.lead(0));
    sweeper.lead_to(Point::Bound);
    assert!(mover.lead(0));
    mover.lead_to(Point::Unbound);
    sweeper.lead_to(Point::IdleSeen);
    let mut reader = Led::start({
        let window = Arc::clone(&window);
        move |leash| {
            leash.put_on();
            read(&window)
        }
    });
    reader.lead_to(Point::SeatsRead);
    sweeper.finish();
    mover.lead_to(Point::SeatClaimed);
    watched("the thread that adopts the retired cell", {
        let window = Arc::clone(&window);
        move || window.add_at(time(NEWEST), Pass, COUNT)
    })
    .result();
    let (found, _) = reader.finish();
    mover.finish();
    assert_eq!(window.at(NOW).sum(Pass), 3 + COUNT);
    found
}

/// The sweeper has counted 1 in each bucket of the window, and the mover counts later.
#[test]
fn reader_counts_a_cell_once_that_leaves_its_seat() {
    assert_eq!(read_beside_a_move(|window| window.at(NOW).sum(Pass)), 2 + COUNT);
    assert_eq!(read_beside_a_move(|window| window.at(NOW).totals().sum(Pass)), 2 + COUNT);
    let rate = read_beside_a_move(|window| window.at(NOW).qps(Pass));
    assert!((rate * 1.5 - 7.0).abs() < 1e-9, "{rate}");
}
