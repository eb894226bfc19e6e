//! The limiters and breakers whose states are shown.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use leaparray::Clock;
use leaparray::flow::{AdaptiveBreaker, Cause, CircuitBreaker, Limiter, RandomSource, Transitions};

use crate::format::{Controller, ControllerState, Level};

/// A limiter or a breaker.
trait Watched: Send + Sync {
    /// Returns the state now; `None` if there is none.
    fn state(&self, cause: Option<Cause>) -> Option<ControllerState>;

    /// Returns the transitions from now on.
    fn transitions(&self) -> Option<Transitions> {
        None
    }
}

/// The limiters and breakers of a page, by the names under which they are shown.
#[derive(Clone, Default)]
pub(crate) struct Controllers(Vec<(String, Arc<dyn Watched>)>);

struct Quotas<L>(L);

impl<L: Limiter + Send + Sync> Watched for Quotas<L> {
    fn state(&self, _: Option<Cause>) -> Option<ControllerState> {
        let quota = self.0.quota()?;
        Some(ControllerState::Limit { limit: quota.limit, remaining: quota.remaining })
    }
}

impl<C, R> Watched for AdaptiveBreaker<C, R>
where
    C: Clock + Clone + Send + Sync,
    R: RandomSource + Send + Sync,
{
    fn state(&self, _: Option<Cause>) -> Option<ControllerState> {
        Some(ControllerState::Drop { probability: self.drop_probability() })
    }
}

impl<C, R> Watched for CircuitBreaker<C, R>
where
    C: Clock + Send + Sync,
    R: RandomSource + Send + Sync,
{
    fn state(&self, cause: Option<Cause>) -> Option<ControllerState> {
        let now = self.clock().now();
        let snapshot = self.snapshot_at(now);
        let wait = |until: leaparray::Timestamp| until.saturating_since(now).as_secs_f64();
        Some(ControllerState::Circuit {
            state: snapshot.state.to_string(),
            probe_in: snapshot.open_until.map(wait),
            cause: cause.map(|it| text_of(it).into()),
        })
    }

    fn transitions(&self) -> Option<Transitions> {
        Some(Self::transitions(self))
    }
}

const fn text_of(cause: Cause) -> &'static str {
    match cause {
        Cause::ExceptionRatio => "share of exceptions",
        Cause::SlowRatio => "share of slow calls",
        Cause::Exceptions => "number of exceptions",
        Cause::ConsecutiveExceptions => "consecutive exceptions",
        Cause::WaitOver => "wait over",
        Cause::Probes => "probes succeeded",
        Cause::Timeout => "probes timed out",
        Cause::Set => "set by the program",
        _ => "other",
    }
}

impl Controllers {
    pub(crate) fn add_limiter(
        &mut self,
        name: String,
        limiter: impl Limiter + Send + Sync + 'static,
    ) {
        self.0.push((name, Arc::new(Quotas(limiter))));
    }

    pub(crate) fn add_breaker<C, R>(&mut self, name: String, breaker: Arc<AdaptiveBreaker<C, R>>)
    where
        C: Clock + Clone + Send + Sync + 'static,
        R: RandomSource + Send + Sync + 'static,
    {
        self.0.push((name, breaker));
    }

    pub(crate) fn add_circuit<C, R>(&mut self, name: String, breaker: Arc<CircuitBreaker<C, R>>)
    where
        C: Clock + Send + Sync + 'static,
        R: RandomSource + Send + Sync + 'static,
    {
        self.0.push((name, breaker));
    }

    /// Begins to read the states again and again.
    pub(crate) fn watch(&self) -> Watches {
        let watch = |(name, watched): &(String, Arc<dyn Watched>)| Watch {
            name: name.clone(),
            watched: Arc::clone(watched),
            transitions: of_user(|| watched.transitions()).flatten(),
            cause: None,
        };
        Watches(self.0.iter().map(watch).collect())
    }
}

impl fmt::Debug for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// The limiters and breakers, and the causes of the last transitions of circuit breakers.
pub(crate) struct Watches(Vec<Watch>);

struct Watch {
    name: String,
    watched: Arc<dyn Watched>,
    transitions: Option<Transitions>,
    cause: Option<Cause>,
}

impl Watches {
    /// Returns the states now.
    pub(crate) fn read(&mut self) -> Vec<Controller> {
        self.0.iter_mut().filter_map(Watch::read).collect()
    }
}

impl Watch {
    fn read(&mut self) -> Option<Controller> {
        if let Some(transitions) = &mut self.transitions {
            while let Some(transition) = transitions.next() {
                self.cause = Some(transition.cause);
            }
        }
        let state = of_user(|| self.watched.state(self.cause));
        let state = state.unwrap_or(Some(ControllerState::Unknown))?;
        Some(Controller { resource: self.name.clone(), state, level: Level::Quiet })
    }
}

/// Runs code of the user, such as a limiter or a clock; `None` if it panics. One broken limiter
/// must not end the streams.
pub(crate) fn of_user<T>(code: impl FnOnce() -> T) -> Option<T> {
    // Unwind safety is up to the user's code, which this crate calls again in the next second.
    catch_unwind(AssertUnwindSafe(code)).ok()
}
