//! Requests that want more than the limit.

use std::time::{Duration, Instant, SystemTime};

use leaparray::flow::LimiterExt;
use leaparray::{Clock, Timestamp};
use leaparray_redis::LeasedLimiter;

use crate::audit::Use;

/// Asks for a permit every `pause` for `span`. Passes each use to `on_use`.
///
/// Every other request waits for an answer if there are too few permits.
pub(crate) async fn work(
    limiter: &LeasedLimiter,
    span: Duration,
    pause: Duration,
    mut on_use: impl FnMut(Use),
) {
    let end = Instant::now() + span;
    let mut waits = false;
    while Instant::now() < end {
        let (now, it) = stamped(limiter);
        if limiter.try_acquire_at(now, 1).is_admitted() {
            on_use(it);
        } else if waits {
            let after = time_of_day();
            if limiter.acquire().await.is_ok() {
                on_use(Use { after, before: time_of_day() });
            }
        }
        waits = !waits;
        tokio::time::sleep(pause).await;
    }
}

/// Returns the time of the limiter's clock, and of two readings around it that are close together.
fn stamped(limiter: &LeasedLimiter) -> (Timestamp, Use) {
    loop {
        let after = time_of_day();
        let now = limiter.clock().now();
        let before = time_of_day();
        if before - after < 100 {
            return (now, Use { after, before });
        }
    }
}

fn time_of_day() -> u64 {
    Timestamp::from_system_time(SystemTime::now()).as_micros()
}
