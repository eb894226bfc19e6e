//! The transitions of a breaker in order, for readers that no request waits for.

use std::fmt;
use std::mem;

use super::state::Transition;
use super::word::Generation;
use crate::sync::{Arc, RacyOnce, Slot, into_inner};

/// A list with one node for each generation.
///
/// The thread whose exchange has made a generation sets the transition of its node. Threads may do so out of order, since any
/// thread appends the nodes before its own. The tail goes on from a node only when the transition of the next one is set, so
/// a thread that has stalled finds its node behind the tail. A reader goes on from a node in the same way.
///
/// The nodes before the tail live as long as a reader is at one of them.
pub(super) struct Log {
    tail: Slot<Node>,
}

struct Node {
    generation: Generation,
    transition: RacyOnce<Transition>,
    next: RacyOnce<Arc<Node>>,
}

/// The transitions of a [`CircuitBreaker`](super::CircuitBreaker) from a moment on, each once and in order. Returned by
/// [`CircuitBreaker::transitions`](super::CircuitBreaker::transitions).
///
/// No thread that changes the state waits for a reader. A reader that does not call [`next`](Self::next) keeps the memory of the
/// transitions that it has not read.
#[derive(Clone)]
pub struct Transitions {
    last: Arc<Node>,
}

impl Log {
    pub(super) fn new() -> Self {
        let tail = Slot::empty();
        let first = Arc::new(Node::new(Generation::FIRST));
        tail.compare_and_swap(&tail.load(), first).ok().expect("no other thread has the slot");
        Self { tail }
    }

    /// Returns the transitions from now on.
    pub(super) fn subscribe(&self) -> Transitions {
        let mut transitions = Transitions { last: self.tail() };
        // The tail may be behind.
        while transitions.next().is_some() {}
        transitions
    }

    /// Sets the transition that has made a generation.
    pub(super) fn set(&self, generation: Generation, transition: Transition) {
        let tail = self.tail();
        let mut node = &tail;
        while node.generation != generation {
            let next = node.generation.next();
            node = node.next.get_or_init(|| Arc::new(Node::new(next)));
        }
        node.transition.get_or_init(|| transition);
        self.advance_tail();
    }

    /// Advances the tail to the last node whose transition is set, or near it: a tail that stays behind makes the way of the
    /// next threads longer, and nothing else.
    fn advance_tail(&self) {
        loop {
            let tail = self.tail.load();
            let Some(next) = tail.get().and_then(Node::next_if_set) else { return };
            if self.tail.compare_and_swap(&tail, Arc::clone(next)).is_err() {
                // The thread that was first advances it further.
                return;
            }
        }
    }

    fn tail(&self) -> Arc<Node> {
        self.tail.load().to_arc().expect("never emptied")
    }
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
    /// Drops the following nodes in a loop: if each node dropped the next one, the depth of the stack would be their number.
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
