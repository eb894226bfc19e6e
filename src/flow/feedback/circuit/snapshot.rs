//! Readings of a circuit breaker.

use super::CircuitBreaker;
use super::state::CircuitState;
use super::word::{Phase, Probes};
use crate::count_window::CountTotals;
use crate::flow::feedback::breaker::RandomSource;
use crate::time::{Clock, Timestamp};

/// The state of a circuit breaker at one time, and its counts. Returned by
/// [`CircuitBreaker::at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircuitSnapshot {
    /// The state.
    pub state: CircuitState,
    /// The calls that count: of the window, or the probes that have ended.
    pub calls: CountTotals,
    /// The end of the wait of an open breaker. `None` in another state, and after a time-out that
    /// no request has noted yet.
    pub open_until: Option<Timestamp>,
}

impl<C: Clock, R: RandomSource> CircuitBreaker<C, R> {
    /// Returns the state now, as [`at`](Self::at) does.
    #[must_use]
    pub fn state(&self) -> CircuitState {
        self.snapshot().state
    }

    /// Returns the state, the calls that count, and the end of a wait, now: see [`at`](Self::at).
    #[must_use]
    pub fn snapshot(&self) -> CircuitSnapshot {
        self.at(self.clock.now())
    }

    /// Returns the state, the calls that count, and the end of a wait, at `now`. A half-open
    /// breaker whose time is over is open, although this is noted only by the next request.
    ///
    /// ```
    /// use leaparray::flow::{CircuitBreaker, CircuitConfig, LimiterExt};
    /// use leaparray::flow::circuit::CircuitState;
    ///
    /// let breaker = CircuitBreaker::new(CircuitConfig::default());
    /// breaker.try_acquire().at_once()?.reject();
    /// let snapshot = breaker.snapshot();
    /// assert_eq!(snapshot.state, CircuitState::Closed);
    /// assert_eq!(snapshot.calls.exception_ratio(), Some(1.0));
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[must_use]
    pub fn at(&self, now: Timestamp) -> CircuitSnapshot {
        let (settings, word) = (self.settings.get(), self.load());
        let phase = word.phase();
        let (state, open_until) = match phase {
            Phase::Open { until } => (CircuitState::Open, Some(self.time_of(until))),
            Phase::HalfOpen(_) => match self.half_open_until(&settings.config, word) {
                Some(until) if now >= until => (CircuitState::Open, None),
                _ => (CircuitState::HalfOpen, None),
            },
            phase => (phase.state(), None),
        };
        let calls = match phase {
            Phase::Closed { era } | Phase::MetricsOnly { era } => {
                self.evidence.totals(settings, era, now)
            }
            Phase::HalfOpen(probes) if state == CircuitState::HalfOpen => {
                let Probes { ended, exceptions, slow, .. } = probes;
                CountTotals { calls: ended, exceptions, slow }
            }
            _ => CountTotals::default(),
        };
        CircuitSnapshot { state, calls, open_until }
    }
}
