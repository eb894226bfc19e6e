//! The events when a resource begins to refuse requests, and when it no longer does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::flow::{Reason, Refusal};
use leaparray::{Resource, Timestamp};

/// How long a resource must have refused no request before an admitted one emits the event that it
/// no longer refuses them. So a resource has at most four events in this time: two of its limits
/// and two of its breaker.
const QUIET: Duration = Duration::from_secs(10);

/// The refusals of a resource. They live with the resource.
#[derive(Default)]
struct Refusals {
    by_limits: Refusing,
    /// The refusals with the reason [`Failing`](Reason::Failing), the reason of breakers.
    by_breaker: Refusing,
}

/// The refusals since a resource began to refuse requests.
#[derive(Default)]
struct Refusing {
    /// The time of the last refusal in nanoseconds, plus 1; 0 while the resource does not refuse
    /// requests.
    last: AtomicU64,
    refusals: AtomicU64,
}

/// Notes that a resource has refused a request.
#[cold]
pub(crate) fn refused<C>(resource: &Resource<C>, refusal: Refusal, now: Timestamp) {
    let refusals = resource.data_or_insert_with(Refusals::default);
    let (name, reason) = (resource.name(), refusal.reason);
    if reason == Reason::Failing {
        if refusals.by_breaker.begins(now) {
            let limiter = refusal.limiter();
            tracing::warn!(resource = name, limiter, %reason, "the breaker begins to refuse requests");
        }
    } else if refusals.by_limits.begins(now) {
        let limiter = refusal.limiter();
        tracing::warn!(resource = name, limiter, %reason, "the resource begins to refuse requests");
    }
}

/// Notes that a resource has admitted a request.
pub(crate) fn admitted<C>(resource: &Resource<C>, now: Timestamp) {
    let Some(refusals) = resource.data::<Refusals>() else { return };
    let name = resource.name();
    if let Some(refused) = refusals.by_breaker.ends(now) {
        tracing::info!(resource = name, refused, "the breaker no longer refuses requests");
    }
    if let Some(refused) = refusals.by_limits.ends(now) {
        tracing::info!(resource = name, refused, "the resource no longer refuses requests");
    }
}

impl Refusing {
    /// Counts a refusal, and returns whether it is the first one.
    fn begins(&self, now: Timestamp) -> bool {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        // Relaxed, as all accesses: a count and a time that order nothing. The thread whose
        // exchange returns 0 has the event.
        self.last.swap(time_plus_one(now), Ordering::Relaxed) == 0
    }

    /// Returns the number of refusals if there has been none for some time. Only one thread
    /// receives the number.
    fn ends(&self, now: Timestamp) -> Option<u64> {
        let last = self.last.load(Ordering::Relaxed);
        let quiet = Duration::from_nanos(time_plus_one(now).saturating_sub(last));
        if last == 0 || quiet < QUIET {
            return None;
        }
        let ended = self.last.compare_exchange(last, 0, Ordering::Relaxed, Ordering::Relaxed);
        ended.is_ok().then(|| self.refusals.swap(0, Ordering::Relaxed))
    }
}

fn time_plus_one(now: Timestamp) -> u64 {
    now.as_nanos().saturating_add(1)
}
