//! The events when a resource begins to refuse requests, and when it no longer does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::flow::Refusal;
use leaparray::{Resource, Timestamp};

/// How long a resource must have refused no request before an admitted one emits the event that it no longer refuses them. So a
/// resource has at most two events in this time.
const QUIET: Duration = Duration::from_secs(10);

/// The refusals of a resource since it began to refuse requests. It lives with the resource.
#[derive(Default)]
struct Refusing {
    /// The time of the last refusal in nanoseconds, plus 1; 0 while the resource does not refuse requests.
    last: AtomicU64,
    refusals: AtomicU64,
}

/// Notes that a resource has refused a request.
#[cold]
pub(crate) fn refused<C>(resource: &Resource<C>, refusal: Refusal, now: Timestamp) {
    let refusing = resource.data_or_insert_with(Refusing::default);
    refusing.refusals.fetch_add(1, Ordering::Relaxed);
    // Relaxed, as all accesses: a count and a time that order nothing. The thread whose exchange returns 0 has the event.
    if refusing.last.swap(word(now), Ordering::Relaxed) == 0 {
        tracing::warn!(
            resource = resource.name(),
            reason = %refusal.reason,
            "the resource begins to refuse requests"
        );
    }
}

/// Notes that a resource has admitted a request.
pub(crate) fn admitted<C>(resource: &Resource<C>, now: Timestamp) {
    let Some(refusing) = resource.data::<Refusing>() else { return };
    let last = refusing.last.load(Ordering::Relaxed);
    if last == 0 || word(now).saturating_sub(last) < nanos(QUIET) {
        return;
    }
    if refusing.last.compare_exchange(last, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        tracing::info!(
            resource = resource.name(),
            refused = refusing.refusals.swap(0, Ordering::Relaxed),
            "the resource no longer refuses requests"
        );
    }
}

fn word(now: Timestamp) -> u64 {
    now.as_nanos().saturating_add(1)
}

const fn nanos(time: Duration) -> u64 {
    time.as_secs() * 1_000_000_000 + time.subsec_nanos() as u64
}
