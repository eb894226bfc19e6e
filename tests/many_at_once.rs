//! More wraps than a ring has room for at first, made by many threads at once.

use std::cell::Cell;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use leaparray::{Bucket, LeapArray, Timestamp, WindowConfig};

/// A bucket that a thread can be stopped at, when it makes one.
struct Stops;

/// Where to say that one is there, and where to hear that one may go on.
type Stop = (Sender<()>, Receiver<()>);

thread_local! {
    static STOP: Cell<Option<Stop>> = const { Cell::new(None) };
}

impl Default for Stops {
    fn default() -> Self {
        if let Some((reached, go_on)) = STOP.take() {
            reached.send(()).unwrap();
            go_on.recv().unwrap();
        }
        Self
    }
}

impl Bucket for Stops {
    type Total = u64;

    fn total(&self) -> u64 {
        0
    }

    fn reset(&self) {}
}

#[test]
fn the_last_of_a_chunk_is_made_first() {
    let config = WindowConfig::new(1, Duration::from_millis(1)).unwrap();
    let array = LeapArray::<Stops>::new(config);
    let bucket = |number| array.current_bucket(Timestamp::from_millis(number));
    let _held: Vec<_> = (0..5).map(bucket).collect();
    thread::scope(|scope| {
        let stop = |number| {
            let ((reached, has_reached), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
            scope.spawn(move || {
                STOP.set(Some((reached, may_go_on)));
                drop(bucket(number));
            });
            has_reached.recv().unwrap();
            go_on
        };
        let stopped = [5, 6, 7].map(stop);
        drop(bucket(8));
        for go_on in stopped {
            go_on.send(()).unwrap();
        }
    });
}
