//! The stripe of a thread, for counters that are split so that few threads share a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread_local;

/// The number of stripes.
pub(crate) const STRIPES: usize = 4;

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns the number of this thread's stripe, below [`STRIPES`]. Threads take stripes in turn.
//
// Not modelled: any number is right, and a thread keeps its own.
pub(crate) fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let take = |stripe: &Cell<usize>| {
        if stripe.get() == usize::MAX {
            stripe.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        stripe.get()
    };
    STRIPE.with(take)
}
