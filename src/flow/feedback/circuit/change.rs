//! The transitions of a circuit breaker.

use std::time::Duration;

use super::CircuitBreaker;
use super::config::CircuitConfig;
use super::fact::Fact;
use super::state::{Cause, Transition};
use super::word::{Generation, MAX_PAYLOAD, Phase, Word};
use crate::flow::feedback::breaker::RandomSource;
use crate::sync::Ordering;
use crate::time::{Clock, Timestamp};

const NANOS_PER_MILLI: u64 = 1_000_000;

impl<C: Clock, R: RandomSource> CircuitBreaker<C, R> {
    /// Changes the state, and returns the word of the new one. If the state is no longer `from`,
    /// returns the other word.
    pub(super) fn change(
        &self,
        from: Word,
        to: Phase,
        at: Timestamp,
        cause: Cause,
    ) -> Result<Word, Word> {
        let at = self.bounded(at);
        let generation = self.raise_for(from, to, at);
        let new = Word::new(generation, to);
        self.replace(from, new)?;
        let (from, to) = (from.phase().state(), to.state());
        self.log.set(generation, Transition { from, to, at, cause });
        Ok(new)
    }

    /// Raises the facts of the next generation, and returns it.
    fn raise_for(&self, from: Word, to: Phase, at: Timestamp) -> Generation {
        let generation = from.generation().next();
        if let Phase::Closed { era } | Phase::MetricsOnly { era } = from.phase() {
            // Eras only grow.
            self.last_era.fetch_max(era, Ordering::Relaxed);
        }
        self.trips.raise(generation, self.trips_after(from, to));
        // A half-open word changes within its generation, so this attempt may fail although the
        // generation goes on, and it needs its time. All other words change only with the
        // generation.
        if !matches!(from.phase(), Phase::HalfOpen(_)) {
            self.last_probe.raise(generation, self.millis(at));
        }
        generation
    }

    /// Opens the breaker. If the state is no longer `from`, returns the other word.
    pub(super) fn open(
        &self,
        config: &CircuitConfig,
        from: Word,
        at: Timestamp,
        cause: Cause,
    ) -> Result<Word, Word> {
        let at = self.bounded(at);
        let trips = self.trips_after(from, Phase::Open { until: 0 });
        let wait = Duration::from_nanos(config.wait.nanos(trips, &self.random));
        let until = self.millis(at.saturating_add(wait)).min(MAX_PAYLOAD);
        self.change(from, Phase::Open { until }, at, cause)
    }

    /// Returns the number of trips in a row, after a transition: of the times that the breaker has
    /// opened with only half-open states in between. It is read only of open and half-open states.
    ///
    /// All attempts to leave a half-open state raise the same number, whatever their target, and so
    /// do those to leave an open state, unless it is opened again.
    fn trips_after(&self, from: Word, to: Phase) -> u64 {
        match (from.phase(), to) {
            (Phase::HalfOpen(_), _) => self.trips_of(from) + 1,
            (Phase::Open { .. }, Phase::Open { .. }) => 1,
            (Phase::Open { .. }, _) => self.trips_of(from),
            (_, Phase::Open { .. }) => 1,
            _ => 0,
        }
    }

    /// Returns the number of trips of an open or half-open state.
    fn trips_of(&self, word: Word) -> u64 {
        let generation = word.generation();
        if let Some(trips) = self.trips.of(generation) {
            return trips;
        }
        // Another thread attempts to leave the state, and may stall before its exchange.
        let next = self.trips.of(generation.next());
        match (next, word.phase()) {
            (Some(trips), Phase::HalfOpen(_)) => trips.saturating_sub(1),
            (Some(trips), _) => trips,
            // The state was left, so the exchange of this thread will fail.
            (None, _) => 0,
        }
    }

    /// Returns the time at which a half-open breaker opens again; `None` while no probe is in
    /// flight, and in another state.
    pub(super) fn half_open_until(&self, config: &CircuitConfig, word: Word) -> Option<Timestamp> {
        let Phase::HalfOpen(probes) = word.phase() else { return None };
        let timeout = config.half_open_timeout.filter(|_| probes.taken > probes.ended)?;
        // If a later generation has a time, this one is over.
        let last_probe = self.last_probe.of(word.generation()).filter(|&it| it < Fact::MAX)?;
        Some(self.time_of(last_probe).saturating_add(timeout))
    }

    /// Returns the era after all others.
    pub(super) fn next_era(&self, word: Word) -> u64 {
        match word.phase() {
            Phase::Closed { era } | Phase::MetricsOnly { era } => era + 1,
            _ => self.last_era.load(Ordering::Relaxed) + 1,
        }
    }

    /// Returns the time, or the clock's time plus the lead if that is earlier: one wrong time does
    /// not keep the breaker open or half-open for long.
    pub(super) fn bounded(&self, time: Timestamp) -> Timestamp {
        Timestamp::from_nanos(self.horizon.bound(time.as_nanos(), &self.clock))
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
        // Release without Acquire: the load of `from` has acquired it.
        let replaced =
            self.word.compare_exchange(from.0, to.0, Ordering::Release, Ordering::Acquire);
        replaced.map(drop).map_err(Word)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::flow::contract::LimiterExt;
    use crate::flow::feedback::circuit::{CircuitBreaker, CircuitConfig, CircuitState, Wait};
    use crate::time::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

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

    /// Two probes are in flight, and a thread stalls just before it opens the breaker, or closes
    /// it.
    #[test]
    fn half_open_state_has_its_time_and_its_trips_although_a_thread_stalls_in_leaving_it() {
        for to in [Phase::Open { until: 0 }, Phase::Closed { era: 1 }] {
            let clock = ManualClock::new(Timestamp::from_secs(60));
            let wait = Wait::new(SECOND).growing(2.0, 60 * SECOND).unwrap();
            let config = CircuitConfig::default().consecutive_exceptions(1).wait(wait);
            let breaker = CircuitBreaker::with_clock(config, clock.clone());
            breaker.try_acquire().at_once().unwrap().reject();
            for wait in [2, 4, 8] {
                clock.advance(60 * SECOND);
                std::mem::forget(breaker.try_acquire().at_once().unwrap());
                let half_open = breaker.load();
                // The thread stalls after this, before its exchange.
                breaker.raise_for(half_open, to, clock.now());
                assert_eq!(breaker.state(), CircuitState::HalfOpen);
                clock.advance(10 * SECOND);
                let now = clock.now();
                assert_eq!(breaker.state(), CircuitState::Open, "the time is over");
                assert!(breaker.try_acquire().is_refused());
                let until = breaker.snapshot().open_until.unwrap();
                assert_eq!(until.saturating_since(now), wait * SECOND);
            }
        }
    }

    /// A thread has found that the time of a probe is over, and stalls. The probe is cancelled by a
    /// thread with an earlier time, and another one begins: the word is not the one that the thread
    /// has found.
    #[test]
    fn stalled_thread_ends_no_later_probe() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let config = CircuitConfig::default().consecutive_exceptions(1).probes(1).unwrap();
        let breaker = CircuitBreaker::with_clock(config, clock.clone());
        breaker.try_acquire().at_once().unwrap().reject();
        clock.advance(6 * SECOND);
        let probe = breaker.try_acquire().at_once().unwrap();
        let found = breaker.load();
        probe.cancel();
        clock.advance(10 * SECOND);
        let _later = breaker.try_acquire().at_once().unwrap();
        assert!(breaker.open(&config, found, clock.now(), Cause::Timeout).is_err());
        assert_eq!(breaker.state(), CircuitState::HalfOpen);
    }

    #[test]
    fn last_times_neither_wrap_nor_end_a_probe() {
        let clock = ManualClock::new(Timestamp::MIN);
        let config = CircuitConfig::default().consecutive_exceptions(1).probes(1).unwrap();
        let breaker = CircuitBreaker::with_clock(config, clock.clone());
        breaker.try_acquire().at_once().unwrap().reject();
        clock.set(Timestamp::MAX);
        let mut transitions = breaker.transitions();
        breaker.try_acquire().at_once().unwrap().accept();
        assert_eq!(breaker.state(), CircuitState::Closed);
        assert!(std::iter::from_fn(|| transitions.next()).all(|it| it.at == Timestamp::MAX));
    }
}
