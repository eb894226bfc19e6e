//! Several threads that make a chunk of wraps at the same time, when the pool of an array grows.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use leaparray::array::{Bucket, LeapArray};
use leaparray::{Timestamp, WindowConfig};

/// A bucket at which a thread can be stopped while it makes the bucket.
struct Stops(AtomicU64);

/// The channel by which a thread reports that it has stopped, and the channel that resumes it.
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
        Self(AtomicU64::new(0))
    }
}

impl Bucket for Stops {
    type Total = u64;

    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The number of wraps for which an array of one bucket has room before its pool grows: two chunks
/// of four.
const ROOM: u64 = 8;

#[test]
fn stalled_makers_of_a_chunk_delay_no_other_and_lose_no_count() {
    let config = WindowConfig::new(1, Duration::from_millis(1)).unwrap();
    let array = LeapArray::<Stops>::new(config);
    let bucket = |number| {
        let bucket = array.current_bucket(Timestamp::from_millis(number));
        bucket.0.fetch_add(1, Ordering::Relaxed);
        bucket
    };
    let recorded = || array.ledger(Timestamp::MIN).recorded();
    let _held: Vec<_> = (0..ROOM).map(bucket).collect();
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
        // Each of these threads needs a wrap of the next chunk, and makes the whole chunk.
        let stopped = [ROOM, ROOM + 1, ROOM + 2].map(stop);
        drop(bucket(ROOM + 3));
        assert_eq!(recorded(), ROOM + 1);
        for go_on in stopped {
            go_on.send(()).unwrap();
        }
    });
    assert_eq!(recorded(), ROOM + 4);
}
