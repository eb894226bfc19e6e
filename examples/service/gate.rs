//! The gate of a route, which decides whether a request goes ahead, and when.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use leaparray::flow::{
    AdaptiveBreaker, BoxLimiter, BoxPermit, BreakerConfig, BreakerConfigError, Decision,
    LeakyBucket, LimitError, Limiter, Rate, RateError, Reason, Refusal, SlidingWindowLimiter,
};
use leaparray::{Clock, Entry, MonotonicClock, OnDrop, Resource, Timestamp};
use tokio::time::sleep;

use crate::route::Route;

/// The longest time that `--pace` makes a request wait.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The gates of all routes, in the order of [`Route::ALL`].
pub(crate) type Gates = [Gate; Route::COUNT];

/// An admitted request. It ends the limiter's permit, and counts as cancelled if it is dropped without an outcome.
///
/// A breaker notices a backend that hangs as long as its clients wait. A client that goes away cancels its attempt, which
/// tells the breaker nothing.
pub(crate) type Admitted = Entry<Resource, MonotonicClock, BoxPermit>;

/// A resource, and the limiter of the requests to it. The decision and the record use one reading of the clock.
pub(crate) struct Gate {
    resource: Resource,
    limiter: BoxLimiter,
}

/// Admits every request.
struct Open;

impl Limiter for Open {
    type Permit = ();

    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }

    fn try_acquire_at(&self, _now: Timestamp, _permits: u64) -> Decision {
        Decision::Admitted(())
    }
}

impl Gate {
    /// A gate that admits every request.
    pub(crate) fn open(resource: Resource) -> Self {
        Self { resource, limiter: Open.boxed() }
    }

    /// A gate that admits at most `limit` requests in any window as long as the resource's short window.
    pub(crate) fn limit(resource: Resource, limit: u32) -> Result<Self, LimitError> {
        let (second, clock) = (*resource.config().short(), resource.clock().clone());
        let limiter = SlidingWindowLimiter::with_clock(second, limit.into(), clock)?;
        Ok(Self { resource, limiter: limiter.boxed() })
    }

    /// A gate that admits `permits` requests a second, evenly spaced. The others wait, or are refused if they would
    /// wait longer than [`MAX_WAIT`].
    pub(crate) fn pace(resource: Resource, permits: u32) -> Result<Self, RateError> {
        let rate = Rate::per_second(permits.into())?;
        let bucket = LeakyBucket::with_clock(rate, MAX_WAIT, resource.clock().clone());
        Ok(Self { resource, limiter: bucket.boxed() })
    }

    /// A gate that refuses requests, by chance, while fewer than one in `k` succeed.
    pub(crate) fn breaker(resource: Resource, k: f64) -> Result<Self, BreakerConfigError> {
        let config = BreakerConfig::default().on_drop(OnDrop::Cancelled).k(k)?;
        let breaker = AdaptiveBreaker::with_clock(config, resource.clock().clone());
        Ok(Self { resource, limiter: Arc::new(breaker).boxed() })
    }

    /// Admits a request, perhaps after a wait, or answers it.
    ///
    /// A request that waits is in flight, and the wait is part of its response time.
    pub(crate) async fn admit(&self) -> Result<Admitted, Response> {
        let now = self.resource.clock().now();
        let decision = self.limiter.enter_at(self.resource.clone(), now);
        decision.sleep_with(sleep).await.map_err(|refusal| answer(refusal, now))
    }
}

/// The answer to a refused request: 503 if the backend fails, 429 if there are too many requests, and the time after
/// which to ask again, if it is known.
fn answer(refusal: Refusal, now: Timestamp) -> Response {
    let status = match refusal.reason {
        Reason::Failing => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    match refusal.retry_after(now) {
        Some(after) => (status, [(RETRY_AFTER, after.as_secs().to_string())]).into_response(),
        None => status.into_response(),
    }
}
