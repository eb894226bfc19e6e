//! The number of listed resources, and its maximum.

use crate::sync::{AtomicU64, Ordering};

/// A fixed number of places. A place is taken before a resource is listed, and given back once it is not listed any more.
/// So there are never more listed resources than places.
#[derive(Debug)]
pub(crate) struct Places {
    taken: AtomicU64,
    max: usize,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self { taken: AtomicU64::new(0), max }
    }

    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn taken(&self) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        usize::try_from(taken).unwrap_or(usize::MAX)
    }

    /// Takes a place, if one is free.
    pub(crate) fn take(&self) -> Option<Place<'_>> {
        let max = self.max as u64;
        // Relaxed, here and in `give_back`: the read-modify-write decides which thread gets the last place, and orders
        // nothing else.
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            (taken < max).then_some(taken + 1)
        });
        taken.is_ok().then(|| Place(self))
    }

    /// Gives back the place of a resource that is not listed any more.
    pub(crate) fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A taken place. It is given back when it is dropped, unless it is kept.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Places);

impl Place<'_> {
    /// Keeps the place for a resource that was listed.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}
