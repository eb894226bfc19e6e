//! Events in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events in the order of their times, and events of the same time in the order in which they were
/// added.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    /// The time of each event, its number, and its place in `events`. An event itself is larger,
    /// and stays in its place while the heap moves its entry.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<E>>,
    /// The places without an event.
    free: Vec<usize>,
    added: u64,
}

impl<E> Queue<E> {
    pub(crate) const fn new() -> Self {
        Self { order: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), added: 0 }
    }

    pub(crate) fn add(&mut self, time: u64, event: E) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.added += 1;
        self.order.push(Reverse((time, self.added, place)));
    }

    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        let Reverse((time, _, place)) = self.order.pop()?;
        self.free.push(place);
        self.events[place].take().map(|event| (time, event))
    }
}
