//! What stands before a route: who may go ahead, when, and who not.

use std::time::Duration;

use axum::http::StatusCode;
use leaparray::flow::{
    Decision, LeakyBucket, LimitError, Limiter, Rate, RateError, SlidingWindowLimiter,
};
use leaparray::{Clock, Entry, Resource, Timestamp};
use tokio::time::sleep;

use crate::route::Route;

/// How long a request may be held up by `--pace`.
const PATIENCE: Duration = Duration::from_millis(500);

/// One for each route.
pub(crate) type Gates = [Gate; Route::COUNT];

/// A resource, and what decides on the requests to it. One clock reading both decides and records.
pub(crate) struct Gate {
    resource: Resource,
    control: Control,
}

enum Control {
    Open,
    Limit(SlidingWindowLimiter),
    Pace(LeakyBucket),
}

impl Gate {
    /// Lets everybody in.
    pub(crate) const fn open(resource: Resource) -> Self {
        Self { resource, control: Control::Open }
    }

    /// Refuses what is above so many in any second.
    pub(crate) fn limit(resource: Resource, limit: u32) -> Result<Self, LimitError> {
        let (second, clock) = (*resource.config().second(), resource.clock().clone());
        let limiter = SlidingWindowLimiter::with_clock(second, limit.into(), clock)?;
        Ok(Self { resource, control: Control::Limit(limiter) })
    }

    /// Lets so many in a second, evenly spaced, and holds the others up.
    pub(crate) fn pace(resource: Resource, permits: u32) -> Result<Self, RateError> {
        let rate = Rate::new(permits.into(), Duration::from_secs(1))?;
        let bucket = LeakyBucket::with_clock(rate, PATIENCE, resource.clock().clone());
        Ok(Self { resource, control: Control::Pace(bucket) })
    }

    /// Lets a request in, perhaps after a while, or refuses it with a status.
    ///
    /// Who waits is under way already, and what it waits is part of its response time.
    pub(crate) async fn admit(&self) -> Result<Entry<Resource>, StatusCode> {
        let (resource, now) = (&self.resource, self.resource.clock().now());
        let decision = match &self.control {
            Control::Open => Decision::Admitted(resource.enter_owned_at(now)),
            Control::Limit(limiter) => limiter.enter_many_at(resource.clone(), now, 1),
            Control::Pace(bucket) => enter(resource, now, bucket.try_acquire_at(now, 1)),
        };
        decision.sleep_with(sleep).await.map_err(|_| StatusCode::TOO_MANY_REQUESTS)
    }
}

/// Counts what was decided.
fn enter(resource: &Resource, now: Timestamp, decision: Decision) -> Decision<Entry<Resource>> {
    if !decision.is_admitted() {
        resource.block_at(now);
    }
    decision.map(|()| resource.enter_owned_at(now))
}
