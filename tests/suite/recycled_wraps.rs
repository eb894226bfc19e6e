//! Wraps that are recycled while a thread adds one of them up.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leaparray::array::{Bucket, LeapArray};
use leaparray::{Timestamp, WindowConfig};

const BUCKET: Duration = Duration::from_millis(1);

/// The number of [`Stops`] that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A bucket at which a thread can be stopped while it adds the bucket up.
struct Stops(AtomicU64);

impl Default for Stops {
    fn default() -> Self {
        MADE.fetch_add(1, Ordering::Relaxed);
        Self(AtomicU64::new(0))
    }
}

impl Bucket for Stops {
    type Total = u64;

    fn total(&self) -> u64 {
        PLAN.with_borrow_mut(|plan| plan.as_mut().map(Plan::step));
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// Whether a thread stops at each bucket that it adds up, from the first one on.
struct Plan {
    stops: &'static [bool],
    reached: Sender<()>,
    go_on: Receiver<()>,
}

impl Plan {
    fn step(&mut self) {
        let Some((&stops, later)) = self.stops.split_first() else { return };
        self.stops = later;
        if stops {
            self.reached.send(()).unwrap();
            self.go_on.recv().unwrap();
        }
    }
}

/// A thread that has stopped.
struct Stopped<T> {
    thread: JoinHandle<T>,
    reached: Receiver<()>,
    go_on: Sender<()>,
}

impl<T: Send + 'static> Stopped<T> {
    /// Runs `act` on another thread, up to its first stop.
    fn at(stops: &'static [bool], act: impl FnOnce() -> T + Send + 'static) -> Self {
        let ((reached, has_reached), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
        let thread = thread::spawn(move || {
            PLAN.set(Some(Plan { stops, reached, go_on: may_go_on }));
            act()
        });
        has_reached.recv().unwrap();
        Self { thread, reached: has_reached, go_on }
    }

    /// Resumes the thread, up to its next stop.
    fn go_on(&self) {
        self.go_on.send(()).unwrap();
        self.reached.recv().unwrap();
    }

    fn end(self) -> T {
        self.go_on.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

/// An array of one bucket.
type Array = &'static LeapArray<Stops>;

fn array() -> Array {
    Box::leak(Box::new(LeapArray::new(WindowConfig::new(1, BUCKET).unwrap())))
}

fn add(array: Array, number: u64, count: u64) {
    array.current_bucket(Timestamp::from_millis(number)).0.fetch_add(count, Ordering::Relaxed);
}

fn recorded(array: Array) -> u64 {
    array.ledger(Timestamp::MIN).recorded()
}

#[test]
fn wrap_recycled_for_the_same_bucket_is_counted_once() {
    let array = array();
    add(array, 0, 1);
    add(array, 1, 10);
    // Before the rotator replaces bucket 1 by bucket 2, it reclaims bucket 0, and stops while it
    // adds that bucket up.
    let rotator = Stopped::at(&[true], move || add(array, 2, 0));
    // The wrap of bucket 0 is recycled for bucket 2, and retired.
    add(array, 2, 100);
    add(array, 3, 1_000);
    // After the wrap in the slot, the reader adds up the pending buckets 1 and 2, and stops at the
    // first of them.
    let reader = Stopped::at(&[false, true], move || recorded(array));
    // The rotator reclaims bucket 2, takes its wrap in order to prepare bucket 2 once more, and
    // finds that it has lost the race.
    rotator.end();
    assert_eq!(reader.end(), 1_111);
    assert_eq!(recorded(array), 1_111);
}

#[test]
fn stalled_readers_and_rotators_do_not_make_the_pool_grow() {
    let array = array();
    for number in (0..400).step_by(4) {
        let t = Timestamp::from_millis;
        let held = [array.current_bucket(t(number)), array.current_bucket(t(number + 1))];
        add(array, number + 2, 1);
        // After the wrap in the slot, the reader adds up the two pinned wraps, and stops at each of
        // them.
        let reader = Stopped::at(&[false, true, true], move || recorded(array));
        drop(held);
        // The rotator reclaims the second of the two, in order to recycle it, and stops while it
        // adds it up.
        let rotator = Stopped::at(&[true], move || add(array, number + 3, 1));
        reader.go_on();
        rotator.end();
        reader.end();
    }
    let made = MADE.load(Ordering::Relaxed);
    assert!(made < 50, "{made} wraps made, with five in use at once");
}
