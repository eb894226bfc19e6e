//! The decision engine.

mod decision;
mod request;

use std::sync::Arc;

use arc_swap::ArcSwap;
use leaparray::{Clock, MonotonicClock, Timestamp};

use crate::config::Config;
pub use decision::{By, Code, CurrentLimit, Decision, Quota, RuleId, Status};
pub use request::{Descriptor, LimitOverride, Request};

/// Where the limits are kept.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Store {
    /// In this process.
    #[default]
    Memory,
}

/// The decision on a descriptor for which the store of the limits has no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// It is over its limit. No limit is ever exceeded.
    #[default]
    Closed,
    /// It is within its limit, and charged nothing.
    Open,
}

/// Decides on requests. Clones are cheap, and share all state.
#[derive(Debug)]
pub struct Service<C = MonotonicClock> {
    inner: Arc<Inner<C>>,
}

#[derive(Debug)]
struct Inner<C> {
    config: ArcSwap<Config>,
    clock: C,
}

impl<C> Clone for Service<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl Service {
    /// Creates a service.
    #[must_use]
    pub fn new(config: Config, store: Store) -> Self {
        Self::with_clock(config, store, MonotonicClock::new())
    }
}

impl<C: Clock> Service<C> {
    /// Creates a service with a clock of its own.
    #[must_use]
    pub fn with_clock(config: Config, store: Store, clock: C) -> Self {
        let Store::Memory = store;
        Self { inner: Arc::new(Inner { config: ArcSwap::from_pointee(config), clock }) }
    }

    /// Replaces the configuration, at one moment. A limit that stays keeps its state, also with
    /// another number.
    pub fn reconfigure(&self, config: Config) {
        self.inner.config.store(Arc::new(config));
    }

    /// Returns the time of the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Decides on a request at `now`, a time of the [clock](Self::now). Waits for an answer of the
    /// store, for a bounded time, if it is not in memory and the permits at hand are too few.
    #[expect(clippy::unused_async, reason = "a store in memory needs no wait")]
    pub async fn decide(&self, request: &Request, now: Timestamp) -> Decision {
        self.decide_at(request, now)
    }

    /// Decides on a request at `now`, a time of the [clock](Self::now), without a wait.
    #[must_use]
    pub fn decide_at(&self, request: &Request, _now: Timestamp) -> Decision {
        let config = self.inner.config.load();
        let unknown = !config.domains().iter().any(|domain| *domain.name == *request.domain);
        let statuses = request.descriptors.iter().map(|_| Status::without_limit()).collect();
        Decision::new(unknown, statuses)
    }
}
