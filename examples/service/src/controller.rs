//! The controllers that learn from the outcomes of requests, and their states.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray::flow::circuit::CircuitState;
use leaparray::flow::{AdaptiveBreaker, AdaptiveLimiter, BoxLimiter, CircuitBreaker, LimiterExt};
use serde::Serialize;

/// A controller of a route whose state is shown.
#[derive(Clone)]
pub(crate) enum Controller {
    Breaker(Arc<AdaptiveBreaker>),
    Circuit(Arc<CircuitBreaker>),
    Adaptive(Arc<AdaptiveLimiter>),
}

/// The state of a controller at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Breaker {
        /// The probability with which a request is refused.
        drops: f64,
    },
    Circuit {
        #[serde(serialize_with = "crate::json::display")]
        state: CircuitState,
        /// The seconds until an open breaker admits a probe.
        probe_in: Option<f64>,
    },
    Limit {
        limit: u64,
        in_use: u64,
    },
}

impl Controller {
    pub(crate) fn limiter(&self) -> BoxLimiter {
        match self {
            Self::Breaker(breaker) => Arc::clone(breaker).boxed(),
            Self::Circuit(breaker) => Arc::clone(breaker).boxed(),
            Self::Adaptive(limiter) => Arc::clone(limiter).boxed(),
        }
    }

    pub(crate) fn state_at(&self, now: Timestamp) -> State {
        match self {
            Self::Breaker(breaker) => State::Breaker { drops: breaker.drop_probability_at(now) },
            Self::Circuit(breaker) => {
                let snapshot = breaker.at(now);
                let wait = |until: Timestamp| until.saturating_since(now).as_secs_f64();
                State::Circuit { state: snapshot.state, probe_in: snapshot.open_until.map(wait) }
            }
            Self::Adaptive(limiter) => {
                State::Limit { limit: limiter.limit(), in_use: limiter.in_use() }
            }
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Breaker { drops } => {
                write!(f, "breaker refuses {:.0} % of the requests", 100.0 * drops)
            }
            Self::Circuit { state, probe_in } => {
                write!(f, "circuit breaker {state}")?;
                match probe_in {
                    Some(secs) => {
                        write!(f, ", a probe in {:.1?}", Duration::from_secs_f64(secs))
                    }
                    None => Ok(()),
                }
            }
            Self::Limit { limit, in_use } => {
                write!(f, "at most {limit} requests in flight, {in_use} now")
            }
        }
    }
}
