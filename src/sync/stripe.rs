//! The stripe of a thread, for words that are split so that few threads share a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{process_static, thread_local};

/// The number of stripes of a counter.
pub(crate) const STRIPES: usize = 4;

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

process_static! {
    // Not modelled: any number is right.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
}

/// Returns the number of this thread's stripe, to be taken modulo the number of stripes. Threads take numbers in turn.
#[inline]
pub(crate) fn stripe() -> usize {
    STRIPE.with(|stripe| {
        if stripe.get() == usize::MAX {
            stripe.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        stripe.get()
    })
}

/// Moves this thread on by that number of stripes.
#[inline]
pub(crate) fn pass_stripes(passed: usize) {
    if passed > 0 {
        STRIPE.with(|stripe| stripe.set(stripe.get().wrapping_add(passed)));
    }
}
