//! The decisions of a circuit breaker, and the ends of its requests.
#![expect(
    clippy::inline_always,
    reason = "the end of a call of a closed breaker: out of line, it takes an eighth more instructions"
)]

use std::ptr;

use super::CircuitBreaker;
use super::config::CircuitConfig;
use super::evidence::{Ended, Settings};
use super::state::Cause;
use super::word::{Phase, Probes, Word};
use crate::flow::contract::{Ask, Decision, Refusal, Retry};
use crate::flow::feedback::breaker::RandomSource;
use crate::flow::feedback::feedback_permit::sealed::{Admission, Decide};
use crate::node::Reason;
use crate::node::{OnDrop, Outcome};
use crate::time::{Clock, Timestamp};

impl<C: Clock, R: RandomSource> Decide for CircuitBreaker<C, R> {
    type Clock = C;

    #[inline]
    fn clock(&self) -> &C {
        &self.clock
    }

    fn on_drop(&self) -> OnDrop {
        self.settings.get().config.on_drop
    }

    #[inline(always)]
    fn admit(&self, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        let (now, found) = (ask.now(), self.load());
        if found.closed_era().is_some() {
            return Ok(admission(found, now));
        }
        // Here and not only out of line, from where a refusal returns in memory: its reader waits
        // for the parts to be stored.
        if let Some(until) = found.open_until().map(|until| self.time_of(until))
            && now < until
        {
            return Err(Refusal::until(Reason::Failing, Some(until)));
        }
        self.decide_unless_closed(found, now)
    }

    /// Returns the decision that a request would get at `now`; `None` if it depends on a wait that
    /// is not drawn yet, because the breaker is half-open and its time is over.
    fn foretold(&self, ask: &Ask<'_>) -> Option<Decision> {
        let (now, word) = (ask.now(), self.load());
        let refusal = match word.phase() {
            Phase::Closed { .. } | Phase::MetricsOnly { .. } | Phase::Disabled => None,
            Phase::ForcedOpen => Some(Retry::Unknown),
            Phase::Open { until } => {
                Some(self.time_of(until)).filter(|&it| now < it).map(Retry::At)
            }
            Phase::HalfOpen(probes) => {
                let config = &self.settings.get().config;
                let until = self.half_open_until(config, word);
                match config.verdict(probes) {
                    _ if until.is_some_and(|until| now >= until) => return None,
                    None => (probes.taken >= config.probes.into()).then_some(Retry::Unknown),
                    Some(Cause::Probes) => None,
                    Some(_) => return None,
                }
            }
        };
        let refused = refusal.map(|retry| Decision::Refused(Refusal::new(Reason::Failing, retry)));
        Some(refused.unwrap_or(Decision::Admitted(())))
    }

    /// Counts the outcome of a request, if it was admitted in the present generation.
    #[inline(always)]
    fn end(&self, now: impl FnOnce() -> Timestamp, admission: Admission, outcome: Outcome) {
        let now = now();
        let found = self.load();
        if found.generation().token() != admission.token {
            return;
        }
        let Some(era) = found.closed_era() else {
            return self.end_unless_closed(found, now, admission, outcome);
        };
        if outcome == Outcome::Cancelled {
            return;
        }
        let settings = self.settings.get();
        if let Some(cause) = self.record(settings, era, now, admission, outcome) {
            self.trip(&settings.config, found, now, cause);
        }
    }
}

impl<C: Clock, R: RandomSource> CircuitBreaker<C, R> {
    #[inline(never)]
    fn end_unless_closed(
        &self,
        found: Word,
        now: Timestamp,
        admission: Admission,
        outcome: Outcome,
    ) {
        match found.phase() {
            Phase::HalfOpen(_) => self.end_probe(found, now, admission, outcome),
            Phase::MetricsOnly { era } if outcome != Outcome::Cancelled => {
                self.record(self.settings.get(), era, now, admission, outcome);
            }
            // Not counted.
            _ => {}
        }
    }

    #[inline(never)]
    fn decide_unless_closed(&self, mut found: Word, now: Timestamp) -> Result<Admission, Refusal> {
        let config = &self.settings.get().config;
        loop {
            let attempt = match found.phase() {
                Phase::Closed { .. } | Phase::MetricsOnly { .. } | Phase::Disabled => {
                    return Ok(admission(found, now));
                }
                Phase::ForcedOpen => return Err(Refusal::new(Reason::Failing, Retry::Unknown)),
                Phase::Open { until } => {
                    let until = self.time_of(until);
                    if now < until {
                        return Err(Refusal::until(Reason::Failing, Some(until)));
                    }
                    let first = Probes { taken: 1, ..Probes::default() };
                    self.change(found, Phase::HalfOpen(first), now, Cause::WaitOver).map(Some)
                }
                Phase::HalfOpen(probes) => match self.half_open_until(config, found) {
                    Some(until) if now >= until => {
                        self.open(config, found, until, Cause::Timeout).map(|_| None)
                    }
                    // Under a former configuration, more probes had to end.
                    _ if config.verdict(probes).is_some() => {
                        self.settle(config, found, probes, now).map(|()| None)
                    }
                    _ if probes.taken >= config.probes.into() => {
                        // A probe may end at any time.
                        return Err(Refusal::new(Reason::Failing, Retry::Unknown));
                    }
                    _ => {
                        let taken = Probes { taken: probes.taken + 1, ..probes };
                        let new = Word::new(found.generation(), Phase::HalfOpen(taken));
                        // Before the exchange, so that a thread that finds the probe finds its
                        // time.
                        let time = self.millis(self.bounded(now));
                        self.last_probe.raise(found.generation(), time);
                        self.replace(found, new).map(|()| Some(new))
                    }
                },
            };
            match attempt {
                Ok(Some(admitted)) => return Ok(admission(admitted, now)),
                Ok(None) => found = self.load(),
                Err(other) => found = other,
            }
        }
    }

    #[inline(always)]
    fn record(
        &self,
        settings: &Settings<C>,
        era: u64,
        now: Timestamp,
        admission: Admission,
        outcome: Outcome,
    ) -> Option<Cause> {
        let rt_nanos = now.as_nanos().saturating_sub(admission.start.as_nanos());
        let is_exception = outcome == Outcome::Exception;
        let is_slow = settings.is_slow(rt_nanos);
        let call = Ended { era, now, rt_nanos, is_exception, is_slow };
        self.evidence.record(settings, || ptr::eq(settings, self.settings.get()), call)
    }

    #[cold]
    fn trip(&self, config: &CircuitConfig, closed: Word, now: Timestamp, cause: Cause) {
        // If it fails, another thread has changed the state.
        let _ = self.open(config, closed, now, cause);
    }

    #[cold]
    fn end_probe(&self, mut found: Word, now: Timestamp, admission: Admission, outcome: Outcome) {
        let rt_nanos = now.as_nanos().saturating_sub(admission.start.as_nanos());
        let settings = self.settings.get();
        let (config, is_slow) = (&settings.config, settings.is_slow(rt_nanos));
        while let (generation, Phase::HalfOpen(probes)) = (found.generation(), found.phase())
            && generation.token() == admission.token
        {
            if let Some(until) = self.half_open_until(config, found)
                && now >= until
            {
                match self.open(config, found, until, Cause::Timeout) {
                    Ok(_) => return,
                    Err(other) => found = other,
                }
                continue;
            }
            match self.settle(config, found, probes.after(outcome, is_slow), now) {
                Ok(()) => return,
                Err(other) => found = other,
            }
        }
    }

    /// Replaces the probes of a half-open breaker, or closes or opens it if they decide. If the
    /// state is no longer `found`, returns the other word.
    fn settle(
        &self,
        config: &CircuitConfig,
        found: Word,
        probes: Probes,
        now: Timestamp,
    ) -> Result<(), Word> {
        match config.verdict(probes) {
            None => self.replace(found, Word::new(found.generation(), Phase::HalfOpen(probes))),
            Some(Cause::Probes) => {
                let closed = Phase::Closed { era: self.next_era(found) };
                self.change(found, closed, now, Cause::Probes).map(drop)
            }
            Some(cause) => self.open(config, found, now, cause).map(drop),
        }
    }
}

/// Returns the admission of a request in the generation of a word.
#[inline]
const fn admission(word: Word, now: Timestamp) -> Admission {
    Admission { start: now, token: word.generation().token() }
}

impl Probes {
    /// Returns the probes after one of them has ended.
    const fn after(self, outcome: Outcome, is_slow: bool) -> Self {
        let Self { taken, ended, exceptions, slow, cancelled } = self;
        if let Outcome::Cancelled = outcome {
            // Saturates: the probe may be of a former generation with the same number, as the
            // breaker's limits say.
            let taken = taken.saturating_sub(1);
            return Self { taken, cancelled: (cancelled + 1) & Self::MAX as u64, ..self };
        }
        let is_exception = matches!(outcome, Outcome::Exception);
        Self {
            taken,
            ended: ended + 1,
            exceptions: exceptions + is_exception as u64,
            slow: slow + is_slow as u64,
            cancelled,
        }
    }
}

impl CircuitConfig {
    /// Returns why a half-open breaker changes its state, if it does: for [`Cause::Probes`], it
    /// closes, and otherwise it opens.
    fn verdict(&self, probes: Probes) -> Option<Cause> {
        let Probes { ended, exceptions, slow, .. } = probes;
        let has_number = self.exceptions.or(self.consecutive_exceptions).is_some();
        if has_number && self.exception_ratio.is_none() && exceptions > 0 {
            return Some(Cause::Exceptions);
        }
        if ended < self.probes.into() {
            return None;
        }
        Some(self.ratio_cause(ended, exceptions, slow).unwrap_or(Cause::Probes))
    }
}
