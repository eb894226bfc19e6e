//! Facts about the state of a circuit breaker that its word has no room for.

use super::word::Generation;
use crate::sync::{AtomicU64, Ordering};

/// A number of a generation, `{ number: 43, generation: 21 }`.
///
/// A thread that attempts to begin a generation raises its number before. So once the generation
/// has begun, its number is here, until a thread raises the number of the next one, which may be
/// long before that one begins.
///
/// # Orderings
///
/// Relaxed. The exchange that begins a generation releases the number, and the load that finds the
/// generation acquires it. A later number is only of a later generation, or larger.
#[derive(Debug)]
pub(super) struct Fact(AtomicU64);

impl Fact {
    /// The highest number. A higher one counts as this one.
    pub(super) const MAX: u64 = (1 << 43) - 1;

    pub(super) fn new() -> Self {
        Self(AtomicU64::new(Generation::FIRST.tag(0)))
    }

    /// Raises the number of a generation, unless it is larger, or a later generation has one.
    ///
    /// Threads that attempt to begin a generation in different ways raise different numbers: the
    /// largest one applies.
    pub(super) fn raise(&self, generation: Generation, number: u64) {
        let number = number.min(Self::MAX);
        let new = generation.tag(number);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |found| {
            let (of, found) = Generation::untag(found);
            (generation.is_after(of) || generation == of && number > found).then_some(new)
        });
    }

    /// Returns the number of a generation; `None` if a later one has a number.
    pub(super) fn of(&self, generation: Generation) -> Option<u64> {
        let (of, number) = Generation::untag(self.0.load(Ordering::Relaxed));
        (of == generation).then_some(number)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn number_is_the_largest_of_the_latest_generation() {
        let fact = Fact::new();
        let first = Generation::FIRST;
        fact.raise(first, 7);
        fact.raise(first, 5);
        assert_eq!(fact.of(first), Some(7));
        let second = first.next();
        fact.raise(second, 3);
        fact.raise(first, 9);
        assert_eq!((fact.of(first), fact.of(second)), (None, Some(3)));
    }
}
