//! The gate of a route, which decides whether a request goes ahead, and when.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use leaparray::flow::{
    AdaptiveBreaker, BreakerConfig, BreakerConfigError, BreakerPermit, Decision, LeakyBucket,
    LimitError, Limiter, Rate, RateError, Reason, Refusal, SlidingWindowLimiter,
};
use leaparray::{Clock, Entry, OnDrop, Resource};
use tokio::time::sleep;

use crate::route::Route;

/// The longest time that `--pace` makes a request wait.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The gates of all routes, in the order of [`Route::ALL`].
pub(crate) type Gates = [Gate; Route::COUNT];

/// A resource, and the control of the requests to it. The decision and the record use one reading of the clock.
pub(crate) struct Gate {
    resource: Resource,
    control: Control,
}

enum Control {
    Open,
    Limit(SlidingWindowLimiter),
    Pace(LeakyBucket),
    Break(Arc<AdaptiveBreaker>),
}

impl Gate {
    /// A gate that admits every request.
    pub(crate) const fn open(resource: Resource) -> Self {
        Self { resource, control: Control::Open }
    }

    /// A gate that admits at most `limit` requests in any window as long as the resource's short window.
    pub(crate) fn limit(resource: Resource, limit: u32) -> Result<Self, LimitError> {
        let (second, clock) = (*resource.config().short(), resource.clock().clone());
        let limiter = SlidingWindowLimiter::with_clock(second, limit.into(), clock)?;
        Ok(Self { resource, control: Control::Limit(limiter) })
    }

    /// A gate that admits `permits` requests a second, evenly spaced. The others wait, or are refused if they would
    /// wait longer than [`MAX_WAIT`].
    pub(crate) fn pace(resource: Resource, permits: u32) -> Result<Self, RateError> {
        let rate = Rate::new(permits.into(), Duration::from_secs(1))?;
        let bucket = LeakyBucket::with_clock(rate, MAX_WAIT, resource.clock().clone());
        Ok(Self { resource, control: Control::Pace(bucket) })
    }

    /// A gate that refuses requests, by chance, while fewer than one in `k` succeed.
    pub(crate) fn breaker(resource: Resource, k: f64) -> Result<Self, BreakerConfigError> {
        let config = BreakerConfig::default().on_drop(OnDrop::Cancelled).k(k)?;
        let breaker = AdaptiveBreaker::with_clock(config, resource.clock().clone());
        Ok(Self { resource, control: Control::Break(Arc::new(breaker)) })
    }

    /// Admits a request, perhaps after a wait, or refuses it with a status.
    ///
    /// A request that waits is in flight, and the wait is part of its response time.
    pub(crate) async fn admit(&self) -> Result<Admitted, StatusCode> {
        let (resource, now) = (&self.resource, self.resource.clock().now());
        let decision = match &self.control {
            Control::Open => Decision::Admitted(resource.enter_owned_at(now).into()),
            Control::Limit(limiter) => limiter.enter_at(resource.clone(), now).map(Admitted::from),
            Control::Pace(bucket) => {
                let decision = bucket.try_acquire_at(now, 1);
                decision.enter_many_at(resource.clone(), now, 1).map(|(entry, ())| entry.into())
            }
            Control::Break(breaker) => {
                let decision = breaker.try_acquire_owned_at(now);
                decision.enter_many_at(resource.clone(), now, 1).map(Admitted::from)
            }
        };
        decision.sleep_with(sleep).await.map_err(status)
    }
}

/// The status of a refusal: 503 if the backend fails, 429 if there are too many requests.
const fn status(refusal: Refusal) -> StatusCode {
    match refusal.reason {
        Reason::Failing => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// An admitted request. If it is dropped without an outcome, it counts as cancelled.
///
/// So the breaker does not notice a backend that hangs until clients go away. That would need a timeout.
pub(crate) struct Admitted {
    entry: Entry<Resource>,
    permit: Option<OwnedPermit>,
}

impl Admitted {
    pub(crate) fn success(self) {
        self.entry.success();
        if let Some(permit) = self.permit {
            permit.accept();
        }
    }

    pub(crate) fn exception(self) {
        self.entry.exception();
        if let Some(permit) = self.permit {
            permit.reject();
        }
    }
}

impl From<Entry<Resource>> for Admitted {
    fn from(entry: Entry<Resource>) -> Self {
        Self { entry, permit: None }
    }
}

impl From<(Entry<Resource>, OwnedPermit)> for Admitted {
    fn from((entry, permit): (Entry<Resource>, OwnedPermit)) -> Self {
        Self { entry, permit: Some(permit) }
    }
}

type OwnedPermit = BreakerPermit<Arc<AdaptiveBreaker>>;
