//! Which thread this is, among those that are there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::stall::{self, Point};
use super::{FreeTokensRef, free_tokens, thread_local, unique_numbers};

/// The numbers that ended threads have given back.
pub(crate) type FreeTokens = BinaryHeap<Reverse<u32>>;

/// A number that one thread has at a time: the lowest that was free.
///
/// It is handed on when the thread ends, so that threads that come and go write the same cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadToken(pub(crate) u32);

impl ThreadToken {
    /// Nobody yet.
    pub(crate) const NONE: Self = Self(0);
    /// Everybody: also a thread that is ending, and has no token any more.
    pub(crate) const SHARED: Self = Self(1);

    /// The calling thread's.
    pub(crate) fn current() -> Self {
        ThreadLease::current().map_or(Self::SHARED, |lease| lease.token())
    }
}

/// Keeps the thread's token from being handed on.
///
/// Whatever in the thread remembers where it may write alone has one: thread locals are dropped in
/// an order of their own.
#[derive(Clone, Debug)]
pub(crate) struct ThreadLease(Rc<Leased>);

impl ThreadLease {
    /// The calling thread's, unless it is ending.
    pub(crate) fn current() -> Option<Self> {
        LEASE.try_with(Self::clone).ok()
    }

    pub(crate) fn token(&self) -> ThreadToken {
        self.0.token
    }
}

thread_local! {
    static LEASE: ThreadLease = ThreadLease(Rc::new(Leased::take()));
}

#[derive(Debug)]
struct Leased {
    token: ThreadToken,
    /// Where to give it back.
    free: FreeTokensRef,
}

impl Leased {
    fn take() -> Self {
        // Not waited for: who stalls with the lock costs others a lower number, and nothing else.
        // Its edge is what the next owner of a cell builds on: the counts of the one before.
        let free = free_tokens();
        let lowest = free.try_lock().ok().and_then(|mut free| {
            stall::at(Point::TokensLocked);
            free.pop()
        });
        let number = lowest.map_or_else(Self::next, |Reverse(number)| number);
        Self { token: ThreadToken(number), free }
    }

    /// A number that no thread has had, above those with a meaning. Where there are no more, and
    /// that takes 2³² threads that could not give theirs back, all others share.
    fn next() -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(ThreadToken::SHARED.0 + 1);
        let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
        next.unwrap_or(ThreadToken::SHARED.0)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if self.token == ThreadToken::SHARED {
            return;
        }
        // A number that cannot be given back is never used again: there are enough.
        if let Ok(mut free) = self.free.try_lock() {
            free.push(Reverse(self.token.0));
        }
    }
}

/// A number that was never returned before.
///
/// Under loom too it comes from the standard library: that no two are equal is all there is to it.
pub(crate) fn unique() -> u64 {
    unique_numbers().fetch_add(1, Ordering::Relaxed)
}
