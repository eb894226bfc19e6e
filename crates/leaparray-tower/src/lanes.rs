//! Shared ownership with several counts of references, which threads divide among themselves.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Shared ownership of a value, as an [`Arc`]. A server clones the service of a route for each
/// request, and with one count of references, all threads would write its cache line.
///
/// The first owner has a count for each *lane*, of one or few threads. A clone of the first owner
/// counts in the lane of the thread that makes it, and so do the clones of that clone, on whichever
/// thread they are made. The lanes are made with the first clone.
///
/// The first owner owns the lanes, and each lane owns the value, so the value is dropped with its
/// last owner.
pub(crate) enum Lanes<T> {
    First(Arc<First<T>>),
    Clone(Arc<Lane<T>>),
}

/// The number of lanes. A place for a lane takes 16 bytes, and only threads make lanes, so it is
/// the same on small machines.
const LANES: usize = 64;

/// The first owner of a value, which is made when it is needed. Clones have the same one: a server
/// can make a service for each route of each connection, as axum does for a router without a call
/// of `into_make_service`, and each of them would have lanes of its own.
pub(crate) struct LazyFirst<T>(Arc<OnceLock<Arc<First<T>>>>);

pub(crate) struct First<T> {
    value: Arc<T>,
    lanes: OnceLock<Box<[LazyLane<T>; LANES]>>,
}

/// A lane, which the first thread in it makes.
type LazyLane<T> = OnceLock<Arc<Lane<T>>>;

/// One of the owners of a value, beside its count of references. It is as long as four cache lines,
/// so the counts of two lanes are never in one line, nor in two that processors fetch as a pair.
/// Not aligned instead: the owner would be in another line than the count.
pub(crate) struct Lane<T> {
    value: Arc<T>,
    _padding: [u64; 29],
}

impl<T> LazyFirst<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(OnceLock::new()))
    }

    /// Returns the first owner of the value that `make` makes, if it is needed.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> Lanes<T> {
        Lanes::First(Arc::clone(self.0.get_or_init(|| Arc::new(First::new(make())))))
    }
}

impl<T> Clone for LazyFirst<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> First<T> {
    fn new(value: T) -> Self {
        Self { value: Arc::new(value), lanes: OnceLock::new() }
    }

    /// Returns the lane of this thread.
    #[inline]
    fn lane(&self) -> &Arc<Lane<T>> {
        let lanes = self.lanes.get_or_init(|| Box::new([const { OnceLock::new() }; LANES]));
        lanes[index() % LANES].get_or_init(|| Arc::new(Lane::of(&self.value)))
    }
}

impl<T> Lane<T> {
    fn of(value: &Arc<T>) -> Self {
        Self { value: Arc::clone(value), _padding: [0; 29] }
    }
}

impl<T> Clone for Lanes<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self::Clone(Arc::clone(match self {
            Self::First(first) => first.lane(),
            Self::Clone(lane) => lane,
        }))
    }
}

impl<T> Deref for Lanes<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::First(first) => &first.value,
            Self::Clone(lane) => &lane.value,
        }
    }
}

/// Returns a number of this thread. Threads have consecutive numbers, so as many threads as there
/// are lanes, if they begin to clone services one after the other, have different ones.
#[inline]
fn index() -> usize {
    const NONE: usize = usize::MAX;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static INDEX: Cell<usize> = const { Cell::new(NONE) };
    }
    #[cold]
    fn next() -> usize {
        // Relaxed: only the number matters. It wraps around after more threads than there can be.
        let index = NEXT.fetch_add(1, Ordering::Relaxed) % NONE;
        INDEX.set(index);
        index
    }
    match INDEX.get() {
        NONE => next(),
        index => index,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn lane<T>(owner: &Lanes<T>) -> &Arc<Lane<T>> {
        match owner {
            Lanes::First(first) => first.lane(),
            Lanes::Clone(lane) => lane,
        }
    }

    #[test]
    fn value_is_dropped_with_its_last_owner() {
        let value: Arc<str> = "value".into();
        let first = LazyFirst::new().get_or_make(|| Arc::clone(&value));
        let clones =
            [first.clone(), thread::scope(|it| it.spawn(|| first.clone()).join().unwrap())];
        let last = clones[1].clone();
        drop((first, clones));
        assert_eq!(&**last, "value");
        assert_eq!(Arc::strong_count(&value), 2);
        drop(last);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn first_owner_is_made_once() {
        let shared = LazyFirst::new();
        let owners = [shared.get_or_make(|| 1), shared.clone().get_or_make(|| 2)];
        assert_eq!(owners.each_ref().map(|it| **it), [1, 1]);
        let [one, other] = owners.map(|it| it.clone());
        assert!(Arc::ptr_eq(lane(&one), lane(&other)));
    }

    #[test]
    fn clones_of_one_thread_share_a_lane_and_those_of_the_next_thread_have_another() {
        let first = LazyFirst::new().get_or_make(|| ());
        let here = first.clone();
        assert!(Arc::ptr_eq(lane(&here), lane(&first.clone())));
        assert_eq!(Arc::strong_count(lane(&here)), 2);
        // Another test of this process may take numbers of threads, so not each thread has another
        // lane than this one.
        let there = || thread::scope(|it| it.spawn(|| first.clone()).join().unwrap());
        let others: Vec<_> = (0..8).map(|_| there()).collect();
        let is_here = |other: &Lanes<()>| Arc::ptr_eq(lane(other), lane(&here));
        assert!(others.iter().any(|it| !is_here(it)));
    }
}
