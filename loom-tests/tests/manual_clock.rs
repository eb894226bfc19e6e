//! The manual clock: a thread that sees a time also sees what was done before that time was set,
//! and no advance is lost.
#![cfg(loom)]

use std::time::Duration;

use leaparray::{Clock, ManualClock, Timestamp};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

const NANO: Duration = Duration::from_nanos(1);

fn thread_that_sees_the_time_sees_what_was_done_before(
    move_on: impl Fn(&ManualClock) + Send + Sync + 'static,
) {
    explore(None, move || {
        let clock = ManualClock::new(Timestamp::MIN);
        let done = Arc::new(AtomicBool::new(false));
        let reader = {
            let (clock, done) = (clock.clone(), done.clone());
            thread::spawn(move || clock.now() == Timestamp::MIN || done.load(Ordering::Relaxed))
        };
        done.store(true, Ordering::Relaxed);
        move_on(&clock);
        assert!(reader.join().unwrap(), "the new time was seen, but not what came before");
    });
}

#[test]
fn thread_that_sees_the_time_that_was_set() {
    thread_that_sees_the_time_sees_what_was_done_before(|clock| {
        clock.set(Timestamp::from_nanos(1));
    });
}

#[test]
fn thread_that_sees_the_time_that_was_advanced_to() {
    thread_that_sees_the_time_sees_what_was_done_before(|clock| clock.advance(NANO));
}

#[test]
fn two_advances_at_once() {
    explore(None, || {
        let clock = ManualClock::new(Timestamp::MIN);
        let other = {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(NANO))
        };
        clock.advance(NANO);
        other.join().unwrap();
        assert_eq!(clock.now(), Timestamp::from_nanos(2));
    });
}
