//! The configuration of a controller that changes in place.

use crate::collections::AppendList;
use crate::sync::{AtomicUsize, Ordering};

/// The configuration of a controller that is in force, and the former ones.
///
/// A decision, and an end of a request, loads the one in force once and uses nothing else of a
/// configuration. So it uses one configuration throughout. A thread that has stalled may still use
/// a former one, so each is kept for as long as the controller, and is used again if an equal
/// configuration is set.
#[derive(Debug)]
pub(super) struct InForce<T> {
    first: T,
    later: AppendList<T>,
    /// 0 for the first, or one more than the index in `later`.
    current: AtomicUsize,
}

impl<T> InForce<T> {
    pub(super) fn new(first: T) -> Self {
        Self { first, later: AppendList::new(), current: AtomicUsize::new(0) }
    }

    #[inline]
    pub(super) fn get(&self) -> &T {
        // Acquire: pairs with the Release in `replace`. A thread that reads the index finds the
        // item in the list.
        self.of(self.current.load(Ordering::Acquire))
    }

    /// Puts the item into force for which `is_it` holds, or else the result of `make`, for which it
    /// must hold. Returns the one before and the new one.
    pub(super) fn replace(&self, is_it: impl Fn(&T) -> bool, make: impl Fn() -> T) -> (&T, &T) {
        let index = if is_it(&self.first) {
            0
        } else {
            self.later.find_or_append(&is_it, make, usize::MAX).map_or(0, |(index, _)| index + 1)
        };
        // A swap: if two threads replace at once, each finds the one that it has replaced.
        (self.of(self.current.swap(index, Ordering::AcqRel)), self.of(index))
    }

    #[inline]
    fn of(&self, index: usize) -> &T {
        match index {
            0 => &self.first,
            later => self.later(later - 1),
        }
    }

    #[cold]
    fn later(&self, index: usize) -> &T {
        self.later.iter().nth(index).expect("it was appended before it was put into force")
    }
}
