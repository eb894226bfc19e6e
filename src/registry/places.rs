//! How many may be listed.

use crate::sync::{AtomicU64, Ordering};

/// So many places, each taken before a resource is listed and given back when it no longer is: there are
/// never more listed than places.
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
        // Relaxed, here and in `give_back`: one read-modify-write decides who gets the last one, and
        // nothing else is ordered by it.
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            (taken < max).then_some(taken + 1)
        });
        taken.is_ok().then(|| Place(self))
    }

    /// Gives back the place of what is not listed any more.
    pub(crate) fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place that was taken, and is given back unless it is kept.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Places);

impl Place<'_> {
    /// It was listed.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}
