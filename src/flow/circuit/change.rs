//! The transitions of a circuit breaker.

use std::time::Duration;

use super::CircuitBreaker;
use super::state::{Cause, Transition};
use super::word::{Generation, MAX_PAYLOAD, Phase, Word};
use crate::flow::breaker::RandomSource;
use crate::sync::Ordering;
use crate::time::{Clock, Timestamp};

const NANOS_PER_MILLI: u64 = 1_000_000;

impl<C: Clock, R: RandomSource> CircuitBreaker<C, R> {
    /// Changes the state, and returns the word of the new one. If the state is no longer `from`, returns the other word.
    pub(super) fn change(
        &self,
        from: Word,
        to: Phase,
        at: Timestamp,
        cause: Cause,
    ) -> Result<Word, Word> {
        let generation = from.generation().next();
        if let Phase::Closed { era } | Phase::MetricsOnly { era } = from.phase() {
            // Eras only grow, and an era has one generation.
            self.left.fetch_max(from.generation().tag(era), Ordering::Relaxed);
        }
        if let Phase::HalfOpen(_) = to {
            self.begin_half_open(generation, at);
        }
        let new = Word::new(generation, to);
        self.replace(from, new)?;
        let (from, to) = (from.phase().state(), to.state());
        self.log.set(generation, Transition { from, to, at, cause });
        Ok(new)
    }

    /// Notes the time at which a half-open state begins, unless another thread has.
    fn begin_half_open(&self, generation: Generation, at: Timestamp) {
        let new = generation.tag(self.millis(at));
        let _ = self.half_open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |found| {
            generation.is_after(Generation::untag(found).0).then_some(new)
        });
    }

    /// Returns the time at which the half-open state of a generation is over.
    pub(super) fn half_open_until(&self, generation: Generation) -> Option<Timestamp> {
        let timeout = self.config.half_open_timeout?;
        let (noted, begun) = Generation::untag(self.half_open.load(Ordering::Relaxed));
        // Otherwise the breaker is in another state by now.
        (noted == generation).then(|| self.time_of(begun).saturating_add(timeout))
    }

    /// Returns the era after all others.
    pub(super) fn next_era(&self, word: Word) -> u64 {
        match word.phase() {
            Phase::Closed { era } | Phase::MetricsOnly { era } => era + 1,
            _ => Generation::untag(self.left.load(Ordering::Relaxed)).1 + 1,
        }
    }

    /// Returns the end of the wait of a breaker that opens at `now`.
    pub(super) fn until(&self, from: Word, now: Timestamp) -> u64 {
        let closed = match from.phase() {
            Phase::Closed { .. } | Phase::MetricsOnly { .. } => from.generation(),
            _ => Generation::untag(self.left.load(Ordering::Relaxed)).0,
        };
        // Half-open and open take turns: a trip for two transitions.
        let trip = from.generation().since(closed) / 2 + 1;
        let wait = Duration::from_nanos(self.config.wait.nanos(trip, &self.random));
        let nanos = now.saturating_add(wait).as_nanos().saturating_sub(self.made.as_nanos());
        nanos.div_ceil(NANOS_PER_MILLI).min(MAX_PAYLOAD)
    }

    /// Returns the milliseconds from the creation of the breaker to a time, rounded down.
    const fn millis(&self, time: Timestamp) -> u64 {
        time.as_nanos().saturating_sub(self.made.as_nanos()) / NANOS_PER_MILLI
    }

    pub(super) const fn time_of(&self, millis: u64) -> Timestamp {
        self.made.saturating_add(Duration::from_millis(millis))
    }

    #[inline]
    pub(super) fn load(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Replaces the word. If it is no longer `from`, returns the other one.
    pub(super) fn replace(&self, from: Word, to: Word) -> Result<(), Word> {
        let replaced =
            self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire);
        replaced.map(drop).map_err(Word)
    }
}
