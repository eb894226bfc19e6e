//! Events in the order of their times.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Events in the order of their times, and events of the same time in the order in which they were
/// added.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    events: BinaryHeap<Reverse<Entry<E>>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    time: u64,
    number: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(crate) const fn new() -> Self {
        Self { events: BinaryHeap::new(), added: 0 }
    }

    pub(crate) fn add(&mut self, time: u64, event: E) {
        self.added += 1;
        self.events.push(Reverse(Entry { time, number: self.added, event }));
    }

    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        self.events.pop().map(|Reverse(it)| (it.time, it.event))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}
