//! Threads that write, and threads that read at the same time.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// One read, which a thread repeats until all writers have ended.
pub type Reader<'a> = Box<dyn FnMut() + Send + 'a>;

/// Runs `write` on `writers` threads, each with its number, and each of `readers` on another
/// thread, again and again until all writers have ended.
///
/// # Panics
///
/// If a thread has panicked, once all threads have ended.
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
        // Also if a writer has failed.
        over.store(true, Ordering::Relaxed);
        // Joined one by one: a sanitizer sees a join, but not how a scope waits at its end.
        let read = reading.into_iter().map(thread::ScopedJoinHandle::join);
        let failed = read.chain(written).find_map(Result::err);
        if let Some(failure) = failed {
            resume_unwind(failure);
        }
    });
}

/// Runs `live` on `lives` threads, one after the other.
///
/// # Panics
///
/// If a thread panics.
pub fn one_after_the_other(lives: u64, live: impl Fn(u64) + Sync) {
    let live = &live;
    for life in 0..lives {
        thread::scope(|scope| {
            let ended = scope.spawn(move || live(life)).join();
            ended.unwrap_or_else(|failure| resume_unwind(failure));
        });
    }
}

/// Yields to other threads at every 61st call of a thread. Call it in the middle of an operation.
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

/// A prime, so that each place that calls `stall` yields in turn.
const STALL_EVERY: u32 = 61;
