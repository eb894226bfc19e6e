//! Threads that write and threads that read.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// One look, to be taken again and again.
pub type Reader<'a> = Box<dyn FnMut() + Send + 'a>;

/// Has so many threads do `write`, each with its number, and others read until all have done so.
///
/// # Panics
///
/// If one of them does, when all have ended.
pub fn work(writers: usize, write: impl Fn(usize) + Sync, readers: Vec<Reader<'_>>) {
    let (write, over) = (&write, &AtomicBool::new(false));
    thread::scope(|scope| {
        let read = |mut look: Reader<'_>| {
            while !over.load(Ordering::Relaxed) {
                look();
            }
        };
        let reading: Vec<_> = readers.into_iter().map(|it| scope.spawn(move || read(it))).collect();
        let writing: Vec<_> = (0..writers).map(|it| scope.spawn(move || write(it))).collect();
        let written: Vec<_> = writing.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // Whether or not a writer has failed.
        over.store(true, Ordering::Relaxed);
        // Joined one by one: a sanitizer sees that, and not what a scope does at its end.
        let read = reading.into_iter().map(thread::ScopedJoinHandle::join);
        let failed = read.chain(written).find_map(Result::err);
        if let Some(failure) = failed {
            resume_unwind(failure);
        }
    });
}

/// Has so many threads do `live`, each when the one before has ended.
///
/// # Panics
///
/// If one of them does.
pub fn one_after_the_other(lives: u64, live: impl Fn(u64) + Sync) {
    let live = &live;
    for life in 0..lives {
        thread::scope(|scope| {
            let ended = scope.spawn(move || live(life)).join();
            ended.unwrap_or_else(|failure| resume_unwind(failure));
        });
    }
}

/// Lets others go first, now and then: to be called where a thread is in the middle of something.
pub fn stall() {
    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }
    let calls = CALLS.get().wrapping_add(1);
    CALLS.set(calls);
    if calls.is_multiple_of(STALL_EVERY) {
        thread::yield_now();
    }
}

/// A prime, so that it falls on each of the places in turn.
const STALL_EVERY: u32 = 61;
