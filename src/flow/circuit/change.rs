//! The transitions of a circuit breaker.

use std::time::Duration;

use super::CircuitBreaker;
use super::state::{Cause, Transition};
use super::word::{Generation, MAX_PAYLOAD, Phase, Probes, Word};
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
            // Eras only grow.
            self.last_era.fetch_max(era, Ordering::Relaxed);
        }
        self.trips.raise(generation, self.trips_after(from, to));
        self.last_probe.raise(generation, self.millis(at));
        let new = Word::new(generation, to);
        self.replace(from, new)?;
        let (from, to) = (from.phase().state(), to.state());
        self.log.set(generation, Transition { from, to, at, cause });
        Ok(new)
    }

    /// Opens the breaker. If the state is no longer `from`, returns the other word.
    pub(super) fn open(&self, from: Word, at: Timestamp, cause: Cause) -> Result<Word, Word> {
        let trips = self.trips_after(from, Phase::Open { until: 0 });
        let wait = Duration::from_nanos(self.config.wait.nanos(trips, &self.random));
        let until = self.millis(at.saturating_add(wait)).min(MAX_PAYLOAD);
        self.change(from, Phase::Open { until }, at, cause)
    }

    /// Returns the number of trips in a row, after a transition: of the times that the breaker has opened with only half-open
    /// states in between.
    fn trips_after(&self, from: Word, to: Phase) -> u64 {
        // Otherwise another thread is about to change the state, so that this transition fails.
        let trips = || self.trips.of(from.generation()).unwrap_or(0);
        match (from.phase(), to) {
            (Phase::Open { .. }, Phase::HalfOpen(_)) => trips(),
            (Phase::HalfOpen(_), Phase::Open { .. }) => trips() + 1,
            (_, Phase::Open { .. }) => 1,
            _ => 0,
        }
    }

    /// Returns the time at which a half-open breaker opens again; `None` while no probe is in flight.
    pub(super) fn half_open_until(
        &self,
        generation: Generation,
        probes: Probes,
    ) -> Option<Timestamp> {
        let timeout = self.config.half_open_timeout.filter(|_| probes.taken > probes.ended)?;
        // If a later generation has a time, the breaker is about to be in another state.
        let last_probe = self.last_probe.of(generation)?;
        Some(self.time_of(last_probe).saturating_add(timeout))
    }

    /// Returns the era after all others.
    pub(super) fn next_era(&self, word: Word) -> u64 {
        match word.phase() {
            Phase::Closed { era } | Phase::MetricsOnly { era } => era + 1,
            _ => self.last_era.load(Ordering::Relaxed) + 1,
        }
    }

    /// Returns the milliseconds from the creation of the breaker to a time, rounded up.
    pub(super) const fn millis(&self, time: Timestamp) -> u64 {
        time.as_nanos().saturating_sub(self.created.as_nanos()).div_ceil(NANOS_PER_MILLI)
    }

    pub(super) const fn time_of(&self, millis: u64) -> Timestamp {
        // A number of milliseconds has at most 43 bits, so its nanoseconds fit.
        let nanos = millis * NANOS_PER_MILLI;
        Timestamp::from_nanos(self.created.as_nanos().saturating_add(nanos))
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

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::flow::{CircuitBreaker, CircuitConfig, CircuitState};
    use crate::time::{ManualClock, Timestamp};
    use std::time::Duration;

    /// A thread stalls just before it makes the breaker half-open, and another one does so later.
    #[test]
    fn probe_has_its_time_although_another_thread_began_half_open_earlier() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let config = CircuitConfig::default().consecutive_exceptions(1).probes(1).unwrap();
        let breaker = CircuitBreaker::with_clock(config, clock.clone());
        breaker.try_acquire().at_once().unwrap().reject();
        clock.advance(Duration::from_secs(6));
        let half_open = breaker.load().generation().next();
        breaker.last_probe.raise(half_open, breaker.millis(Timestamp::from_secs(66)));
        clock.advance(Duration::from_secs(11));
        breaker.try_acquire().at_once().unwrap().accept();
        assert_eq!(breaker.state(), CircuitState::Closed);
    }
}
