//! Circuit breakers.

mod change;
mod config;
mod decide;
mod error;
mod evidence;
mod fact;
mod log;
mod presets;
mod ratio;
#[cfg(feature = "serde")]
mod serde_config;
mod snapshot;
mod state;
mod wait;
mod word;

use std::time::Duration;

pub use config::CircuitConfig;
pub use error::{CircuitConfigError, CircuitStateError};
pub use log::Transitions;
pub use ratio::RatioLimit;
pub use snapshot::CircuitSnapshot;
pub use state::{Cause, CircuitState, Transition};
pub use wait::Wait;

use crate::flow::contract::Account;
use crate::flow::contract::lend;
use crate::flow::feedback::FeedbackPermit;
use crate::flow::feedback::breaker::{RandomSource, ThreadRandom};
use crate::flow::feedback::feedback_permit::sealed::Decide;
use crate::flow::feedback::in_force::InForce;
use crate::flow::permits::Horizon;
use crate::flow::watch::WatchedState;
use crate::sync::AtomicU64;
use crate::time::{Clock, MonotonicClock, Timestamp};
use evidence::{Evidence, Settings};
use fact::Fact;
use log::Log;
use word::{Generation, Phase, Probes, Word};

/// A breaker with three states: closed, open, and half-open.
///
/// - *Closed*: all requests are admitted, and their outcomes are counted. If they reach a limit of
///   the [configuration](CircuitConfig), the breaker opens.
/// - *Open*: all requests are refused for a [wait](CircuitConfig::wait). The first request after
///   that is a probe, and the breaker is half-open.
/// - *Half-open*: a limited number of requests is admitted, as [probes](CircuitConfig::probes). If
///   they succeed, the breaker closes and begins with empty counts; otherwise it opens again. It
///   also opens again if they take [too long](CircuitConfig::half_open_timeout).
///
/// The caller reports the outcome of each admitted request with its [`FeedbackPermit`]. An outcome
/// counts only in the state in which its request was admitted: a request that was admitted before
/// the breaker opened decides nothing when it ends later. A cancelled request counts nowhere, and a
/// cancelled probe gives its place to another one.
///
/// An [`AdaptiveBreaker`](crate::flow::AdaptiveBreaker) decides without states and limits: it drops
/// a share of the requests.
///
/// The breaker can also be [set](Self::set_state_at) to a state. [`transitions`](Self::transitions)
/// returns every change of the state, in order.
///
/// # Cost
///
/// A decision of a closed breaker reads the clock and one word, which is written only when the
/// state changes. The end of a request is counted in a cell of its thread. Exceptions and slow
/// calls also add up the window, and write a word that all threads share. So does every call of a
/// bucket until the window has the [minimum of calls](CircuitConfig::min_calls). With [the last
/// calls](CircuitConfig::last_calls), each end is counted in a word that all threads share.
///
/// # Limits
///
/// Times are counted from the creation of the breaker, when it reads its clock: an earlier time
/// acts as that time, and a wait ends at most 34 years after it. The time of a transition or of a
/// probe is at most the [lead](Self::with_max_lead) ahead of the clock. A decision and an outcome
/// use the given time: a request with a time far ahead can be the probe before the wait is over,
/// and an outcome far ahead takes a bucket of the window until then. With a window of one bucket,
/// the breaker does not open by this window until then.
///
/// If the clock is set back, an open breaker stays open for that much longer. If it is set back by
/// more than the interval of the window just after the breaker has closed, outcomes from before may
/// count again. [`ForwardClock`](crate::time::ForwardClock) goes on instead.
///
/// A refusal has the reason [`Reason::Failing`](crate::node::Reason::Failing). It has the time of
/// the next probe if the breaker is open. A request is one call, whatever number of permits it asks
/// for.
///
/// A window of time is not emptied for another closed state. Each one has times of its own, two
/// intervals after those of the one before. Once these times reach the end of time, the calls of
/// all further closed states count together: after two million closed states with a window of an
/// hour, and after 800 million with one of ten seconds.
///
/// A permit tells its state from 2²¹ later ones. If a permit is kept for exactly that many
/// transitions, or a multiple, its outcome counts in the present state. A thread that stalls for
/// 2²⁰ transitions just before it admits a probe may leave half-open states without a time-out,
/// until the breaker has made as many transitions again.
///
/// ```
/// use leaparray::flow::{CircuitBreaker, CircuitConfig, LimiterExt};
/// use leaparray::flow::circuit::CircuitState;
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let breaker = CircuitBreaker::with_clock(CircuitConfig::default(), clock.clone());
/// for _ in 0..20 {
///     breaker.try_acquire().at_once()?.reject();
/// }
/// assert_eq!(breaker.state(), CircuitState::Open);
/// let refusal = breaker.try_acquire().refusal().unwrap();
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_secs(65)));
///
/// clock.advance(Duration::from_secs(5));
/// for _ in 0..3 {
///     breaker.try_acquire().at_once()?.accept();
/// }
/// assert_eq!(breaker.state(), CircuitState::Closed);
/// # Ok::<_, leaparray::flow::Refusal>(())
/// ```
//
// # One word
//
// `word` has the state, its generation, and what belongs to the state: the end of the wait, the
// probes, or the era. Each change is one compare-exchange, so no thread finds a state without its
// time. If the exchange fails, the thread decides again by the new word.
//
// Before its exchange, a thread raises `last_era`, `trips` and, unless it leaves a half-open state,
// `last_probe`. So the thread whose exchange succeeds has raised them, or found them raised.
// `last_era` only grows. The other two ignore a thread that has stalled since an earlier
// generation.
//
// # Orderings
//
// An exchange of `word` releases, and each load acquires, also the one of a failed exchange. A
// thread that finds a generation finds what was raised for it, and the relaxed read-modify-writes
// of the three words are ordered by their coherence.
#[derive(Debug)]
pub struct CircuitBreaker<C = MonotonicClock, R = ThreadRandom> {
    word: AtomicU64,
    settings: InForce<Settings<C>>,
    /// The origin of the times in words.
    created: Timestamp,
    /// The last era that is over.
    last_era: AtomicU64,
    /// The number of trips in a row.
    trips: Fact,
    /// The time of the last probe of a half-open breaker, in milliseconds since the breaker was
    /// created.
    last_probe: Fact,
    evidence: Evidence<C>,
    log: Log,
    horizon: Horizon,
    clock: C,
    random: R,
}

impl CircuitBreaker {
    /// Creates a closed breaker with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(config: CircuitConfig) -> Self {
        Self::with_clock(config, MonotonicClock::new())
    }
}

impl<C: Clock + Clone> CircuitBreaker<C> {
    /// Creates a closed breaker that reads clones of `clock`.
    #[must_use]
    pub fn with_clock(config: CircuitConfig, clock: C) -> Self {
        Self::with_source(config, clock, ThreadRandom)
    }
}

impl<C: Clock + Clone, R: RandomSource> CircuitBreaker<C, R> {
    /// Creates a closed breaker that reads clones of `clock`, and draws the jitter of its waits
    /// from `random`.
    #[must_use]
    pub fn with_source(config: CircuitConfig, clock: C, random: R) -> Self {
        let evidence = Evidence::new();
        Self {
            word: AtomicU64::new(Word::new(Generation::FIRST, Phase::Closed { era: 0 }).0),
            settings: InForce::new(Settings::new(config, &evidence, &clock)),
            created: clock.now(),
            last_era: AtomicU64::new(0),
            trips: Fact::new(),
            last_probe: Fact::new(),
            evidence,
            log: Log::new(),
            horizon: Horizon::new(),
            clock,
            random,
        }
    }
}

impl<C: Clock, R: RandomSource> CircuitBreaker<C, R> {
    /// Sets how far ahead of the clock the time of a transition or of a probe may be: the *lead*.
    /// The default is a second.
    ///
    /// A later time is treated as the time of the clock plus the lead. So one wrong time keeps the
    /// breaker open or half-open for at most the lead longer. If the clock goes back, its highest
    /// reading counts.
    ///
    /// With [`Duration::MAX`], there is no bound, as for a simulation whose times are ahead of a
    /// clock that stands still.
    ///
    /// ```
    /// use leaparray::flow::{CircuitBreaker, CircuitConfig, LimiterExt};
    /// use leaparray::{ManualClock, Outcome, Timestamp};
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let config = CircuitConfig::default().consecutive_exceptions(1);
    /// let breaker = CircuitBreaker::with_clock(config, clock);
    /// // An hour ahead: the breaker opens at 61 s, for 5 s.
    /// breaker.try_acquire().at_once()?.end_at(Timestamp::from_secs(3_660), Outcome::Exception);
    /// let refusal = breaker.try_acquire().refusal().expect("the breaker is open");
    /// assert_eq!(refusal.retry_at(), Some(Timestamp::from_secs(66)));
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        Self { horizon: Horizon::with_lead(lead), ..self }
    }

    /// Sets the state at `now`. A closed breaker that is closed again begins with empty counts, and
    /// an open breaker that is opened again begins another wait.
    ///
    /// # Errors
    ///
    /// Returns a [`CircuitStateError`] if the state is [`HalfOpen`](CircuitState::HalfOpen) and the
    /// breaker is not open. Then nothing is changed.
    ///
    /// ```
    /// use leaparray::Clock;
    /// use leaparray::flow::{CircuitBreaker, CircuitConfig, LimiterExt};
    /// use leaparray::flow::circuit::CircuitState;
    ///
    /// let breaker = CircuitBreaker::new(CircuitConfig::default());
    /// breaker.set_state_at(breaker.clock().now(), CircuitState::ForcedOpen)?;
    /// assert!(breaker.try_acquire().is_refused());
    /// breaker.set_state_at(breaker.clock().now(), CircuitState::Closed)?;
    /// assert!(breaker.try_acquire().is_admitted());
    /// assert!(breaker.set_state_at(breaker.clock().now(), CircuitState::HalfOpen).is_err());
    /// # Ok::<_, leaparray::flow::circuit::CircuitStateError>(())
    /// ```
    pub fn set_state_at(
        &self,
        now: Timestamp,
        state: CircuitState,
    ) -> Result<(), CircuitStateError> {
        let config = &self.settings.get().config;
        loop {
            let found = self.load();
            if let Some(until) = self.half_open_until(config, found)
                && now >= until
            {
                // As the state is shown. If it fails, another thread has changed the state.
                let _ = self.open(config, found, until, Cause::Timeout);
                continue;
            }
            let to = match state {
                CircuitState::Closed => Phase::Closed { era: self.next_era(found) },
                CircuitState::MetricsOnly => Phase::MetricsOnly { era: self.next_era(found) },
                CircuitState::ForcedOpen => Phase::ForcedOpen,
                CircuitState::Disabled => Phase::Disabled,
                CircuitState::HalfOpen => match found.phase() {
                    Phase::Open { .. } => Phase::HalfOpen(Probes::default()),
                    phase => return Err(CircuitStateError { from: phase.state(), to: state }),
                },
                CircuitState::Open => {
                    if self.open(config, found, now, Cause::Set).is_ok() {
                        return Ok(());
                    }
                    continue;
                }
            };
            if self.change(found, to, now, Cause::Set).is_ok() {
                return Ok(());
            }
        }
    }

    /// Returns the transitions from now on.
    ///
    /// A breaker leaves the open state, or a half-open state that has timed out, only with the next
    /// request, so the transition appears with this request. A reader finds a transition once its
    /// thread has stored it, and after all earlier transitions. A thread that stalls before it
    /// stores a transition delays the readers, and no request; the later transitions are kept in
    /// memory until it goes on. The reader may also return a transition from just before this call.
    ///
    /// ```
    /// use leaparray::flow::{CircuitBreaker, CircuitConfig, LimiterExt};
    /// use leaparray::flow::circuit::{Cause, CircuitState};
    ///
    /// let breaker = CircuitBreaker::new(CircuitConfig::default().consecutive_exceptions(1));
    /// let mut transitions = breaker.transitions();
    /// breaker.try_acquire().at_once()?.reject();
    /// let transition = transitions.next().unwrap();
    /// assert_eq!((transition.from, transition.to), (CircuitState::Closed, CircuitState::Open));
    /// assert_eq!(transition.cause, Cause::ConsecutiveExceptions);
    /// assert_eq!(transitions.next(), None);
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[must_use]
    pub fn transitions(&self) -> Transitions {
        self.log.subscribe()
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> CircuitConfig {
        self.settings.get().config
    }

    /// Returns the clock that this breaker reads.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

impl<C: Clock + Clone, R: RandomSource> CircuitBreaker<C, R> {
    /// Changes the configuration. The breaker forgets nothing:
    ///
    /// - The state stays, with the transitions and the waits that have begun: an open breaker stays
    ///   open for as long as it has said. A new [wait](CircuitConfig::wait) applies from the next
    ///   time on that the breaker opens, and continues the growth of the waits before.
    /// - The probes of a half-open breaker stay. If the new number of
    ///   [probes](CircuitConfig::probes) have ended, the next request closes or opens the breaker.
    ///   A new [time-out](CircuitConfig::half_open_timeout) counts from the last probe.
    /// - The calls of a window of time stay, as far as they lie in buckets of a former window
    ///   within the new one, and as far as the former one reaches back. Of the last n calls, the
    ///   last m stay if m are counted now. Between the two kinds of windows, no calls can be
    ///   carried over; a window of time goes on if it is set again.
    /// - A call counts as slow or not by the limit at its end. New limits of shares and numbers,
    ///   and a new minimum, apply to the calls that stay, from the end of the next call on.
    /// - The exceptions in a row stay if both configurations limit them, and count from 0 if the
    ///   former one does not.
    ///
    /// A decision, or the end of a call, that begins after this call uses the new configuration.
    /// One beside it uses the former or the new one, never a mixture. If the number of the last
    /// calls changes, calls that end beside the first call under the new configuration may be left
    /// out. No decision and no end of a call waits for a change.
    ///
    /// A breaker keeps each configuration and each window that it has had, and uses it again if it
    /// is set again.
    ///
    /// ```
    /// use leaparray::flow::circuit::CircuitState;
    /// use leaparray::flow::{CircuitBreaker, CircuitConfig, LimiterExt};
    ///
    /// let breaker = CircuitBreaker::new(CircuitConfig::default());
    /// for _ in 0..10 {
    ///     breaker.try_acquire().at_once()?.reject();
    /// }
    /// assert_eq!(breaker.state(), CircuitState::Closed);
    /// breaker.reconfigure(CircuitConfig::default().min_calls(11));
    /// breaker.try_acquire().at_once()?.reject();
    /// assert_eq!(breaker.state(), CircuitState::Open);
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    pub fn reconfigure(&self, config: CircuitConfig) {
        let limits_rows = |config: &CircuitConfig| config.consecutive_exceptions.is_some();
        if limits_rows(&config) && !limits_rows(&self.config()) {
            self.evidence.begin_row();
        }
        let is_it = |settings: &Settings<C>| settings.config == config;
        let make = || Settings::new(config, &self.evidence, &self.clock);
        let (_, settings) = self.settings.replace(is_it, make);
        settings.forget_sum();
    }
}

impl<C: Clock, R: RandomSource> Account for CircuitBreaker<C, R> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns whether the breaker is closed, and no call counts.
    fn is_as_new(&self, now: Timestamp) -> bool {
        let era = self.load().closed_era();
        era.is_some_and(|era| self.evidence.is_empty(self.settings.get(), era, now))
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        let snapshot = self.at(now);
        WatchedState::Circuit { at: now, snapshot, last: self.log.last() }
    }
}

lend!(FeedbackPermit, [C: Clock, R: RandomSource] CircuitBreaker<C, R>, learns);
