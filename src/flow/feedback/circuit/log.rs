//! The transitions of a breaker in order, for readers that no request waits for.

use std::fmt;
use std::mem;

use super::state::Transition;
use super::word::Generation;
use crate::sync::{Arc, RacyOnce, Slot, into_inner};

/// A list with one node for each generation.
///
/// The thread whose exchange has made a generation sets the transition of its node. Threads may do
/// so out of order, since any thread appends the nodes before its own. The tail goes on from a node
/// only when the transition of the next one is set, so a thread that has stalled finds its node
/// behind the tail. A reader goes on from a node in the same way.
///
/// While a thread stalls before it sets its transition, the tail stays before its node, and the
/// list behind the tail grows by a node with each transition. Other threads begin at `newest`
/// instead, so they do not walk over these nodes.
///
/// The nodes before the tail live as long as a reader is at one of them.
pub(super) struct Log {
    tail: Slot<Node>,
    /// The last node, or one near it.
    newest: Slot<Node>,
}

struct Node {
    generation: Generation,
    transition: RacyOnce<Transition>,
    next: RacyOnce<Arc<Node>>,
}

/// The transitions of a [`CircuitBreaker`](super::CircuitBreaker) from a moment on, each once and
/// in order. Returned by [`CircuitBreaker::transitions`](super::CircuitBreaker::transitions).
///
/// No thread that changes the state waits for a reader. A reader that does not call
/// [`next`](Self::next) keeps the memory of the transitions that it has not read.
#[derive(Clone)]
pub struct Transitions {
    last: Arc<Node>,
}

impl Log {
    pub(super) fn new() -> Self {
        let first = Arc::new(Node::new(Generation::FIRST));
        let [tail, newest] = [(); 2].map(|()| {
            let slot = Slot::empty();
            let put = slot.compare_and_swap(&slot.load(), Arc::clone(&first));
            put.ok().expect("no other thread has the slot");
            slot
        });
        Self { tail, newest }
    }

    /// Returns the transitions from now on.
    pub(super) fn subscribe(&self) -> Transitions {
        let mut transitions = Transitions { last: node_of(&self.tail) };
        // The tail may be behind.
        while transitions.next().is_some() {}
        transitions
    }

    /// Returns the last transition that a reader would find.
    pub(super) fn last(&self) -> Option<Transition> {
        let mut node = node_of(&self.tail);
        // The tail may be behind.
        while let Some(next) = node.next_if_set().cloned() {
            node = next;
        }
        node.transition.get().copied()
    }

    /// Sets the transition that has made a generation.
    pub(super) fn set(&self, generation: Generation, transition: Transition) {
        let mut start = node_of(&self.newest);
        if start.generation.is_after(generation) {
            // This thread has stalled. The tail is before its node, whose transition is not set.
            start = node_of(&self.tail);
        }
        let mut node = &start;
        while node.generation != generation {
            let next = node.generation.next();
            node = node.next.get_or_init(|| Arc::new(Node::new(next)));
        }
        node.transition.get_or_init(|| transition);
        self.advance_newest(node);
        self.advance_tail();
    }

    /// Advances the newest node to `node`, unless it is a later one, or another thread advances it:
    /// a newest node that stays behind makes the way of the next thread longer, and nothing else.
    fn advance_newest(&self, node: &Arc<Node>) {
        let newest = self.newest.load();
        if newest.get().is_some_and(|newest| node.generation.is_after(newest.generation)) {
            let _ = self.newest.compare_and_swap(&newest, Arc::clone(node));
        }
    }

    /// Advances the tail to the last node before one whose transition is not set, or near it. If
    /// another thread has advanced it, the next transition advances it further.
    fn advance_tail(&self) {
        let tail = self.tail.load();
        let Some(mut last) = tail.get().and_then(Node::next_if_set) else { return };
        while let Some(next) = last.next_if_set() {
            last = next;
        }
        let _ = self.tail.compare_and_swap(&tail, Arc::clone(last));
    }
}

fn node_of(slot: &Slot<Node>) -> Arc<Node> {
    slot.load().to_arc().expect("never emptied")
}

impl Node {
    fn new(generation: Generation) -> Self {
        Self { generation, transition: RacyOnce::new(), next: RacyOnce::new() }
    }

    /// Returns the next node, if its transition is set.
    fn next_if_set(&self) -> Option<&Arc<Self>> {
        self.next.get().filter(|next| next.transition.get().is_some())
    }

    fn take_next(&mut self) -> Option<Arc<Self>> {
        mem::replace(&mut self.next, RacyOnce::new()).get().cloned()
    }
}

impl Drop for Node {
    /// Drops the following nodes in a loop: if each node dropped the next one, the depth of the
    /// stack would be their number.
    fn drop(&mut self) {
        let mut next = self.take_next();
        while let Some(node) = next {
            next = into_inner(node).and_then(|mut node| node.take_next());
        }
    }
}

impl Transitions {
    /// Returns the next transition; `None` if there is none yet. Never waits.
    #[expect(clippy::should_implement_trait, reason = "`None` is not the end")]
    pub fn next(&mut self) -> Option<Transition> {
        let next = Arc::clone(self.last.next_if_set()?);
        let transition = next.transition.get().copied();
        self.last = next;
        transition
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl fmt::Debug for Transitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transitions").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::flow::feedback::circuit::state::{Cause, CircuitState};
    use crate::time::Timestamp;

    fn transition(at: u64) -> Transition {
        let (from, to) = (CircuitState::Closed, CircuitState::Closed);
        Transition { from, to, at: Timestamp::from_secs(at), cause: Cause::Set }
    }

    /// The thread of the first generation stalls before it sets its transition. Each later thread
    /// walks over one node, and a reader sees all transitions once the first one is set.
    #[test]
    fn stalled_thread_lengthens_the_way_of_no_other() {
        let log = Log::new();
        let mut reader = log.subscribe();
        let first = Generation::FIRST.next();
        let mut generation = first;
        for at in 2..100 {
            generation = generation.next();
            log.set(generation, transition(at));
            assert_eq!(node_of(&log.newest).generation, generation);
            assert_eq!(node_of(&log.tail).generation, Generation::FIRST);
        }
        assert_eq!(reader.next(), None);
        log.set(first, transition(1));
        assert_eq!(node_of(&log.tail).generation, generation);
        let times = std::iter::from_fn(|| reader.next()).map(|it| it.at.as_nanos() / 1_000_000_000);
        assert!(times.eq(1..100));
    }
}
