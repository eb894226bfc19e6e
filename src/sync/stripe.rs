//! The stripe of a thread, for words that are split so that few threads share a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{process_static, thread_local};

thread_local! {
    static STRIPE: Cell<Stripe> = const { Cell::new(Stripe { number: usize::MAX, passed: 0 }) };
}

process_static! {
    // Not modelled: any number is right.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
}

/// The stripe of a thread: a number that the thread has alone, and how many stripes the thread has
/// passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripe {
    number: usize,
    passed: usize,
}

impl Stripe {
    /// Returns the number that the thread has alone.
    #[inline]
    pub(crate) const fn number(self) -> usize {
        self.number
    }

    /// Returns the stripe after the next `passed` ones, to be taken modulo the number of stripes, a
    /// power of two.
    ///
    /// The exclusive or lets threads that pass as many stripes come to different ones. With a sum,
    /// the next stripe of a thread would be that of the next thread, and two threads that use up
    /// their stripes together would share each one that follows.
    #[inline]
    pub(crate) const fn after(self, passed: usize) -> usize {
        self.number ^ self.passed.wrapping_add(passed)
    }
}

/// Returns the stripe of this thread. Threads take numbers in turn.
#[inline]
pub(crate) fn stripe() -> Stripe {
    STRIPE.with(|stripe| {
        if stripe.get().number == usize::MAX {
            stripe.set(Stripe { number: NEXT.fetch_add(1, Ordering::Relaxed), passed: 0 });
        }
        stripe.get()
    })
}

/// Moves this thread on by that number of stripes.
#[inline]
pub(crate) fn pass_stripes(passed: usize) {
    if passed > 0 {
        STRIPE.with(|stripe| {
            let now = stripe.get();
            stripe.set(Stripe { passed: now.passed.wrapping_add(passed), ..now });
        });
    }
}
