//! The time for which the last request got its permits.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// The longest time by which a timer is late without a stall of its thread or its task: a few
/// intervals of the coarsest timers in use.
pub(super) const LATE: Duration = Duration::from_millis(50);

/// The last grant of permits for an earlier time than the time of the question. The next request
/// was first in line from that earlier time on, if it had arrived when the permits were granted, or
/// soon after: within the time by which the grant was late. So a caller that comes again at once
/// keeps the rate as well, and a request after a pause finds no permits that were saved up.
#[derive(Debug)]
pub(super) struct GrantedTurn {
    /// The time for which the permits were granted, in nanoseconds.
    due: AtomicU64,
    /// The time at which they were granted.
    granted: AtomicU64,
}

impl GrantedTurn {
    pub(super) fn new() -> Self {
        let [due, granted] = [(); 2].map(|()| AtomicU64::new(0));
        Self { due, granted }
    }

    // Relaxed, here and below, and two words: the limiter decides on the time in any case, and a
    // time is used only if it is at most `LATE` ago.
    pub(super) fn set(&self, due: Timestamp, granted: Timestamp) {
        self.due.store(due.as_nanos(), Ordering::Relaxed);
        self.granted.store(granted.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the time from which on a request that has arrived at `arrival`, and asks at `now`,
    /// was first in line.
    pub(super) fn begin(&self, arrival: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let [due, granted] =
            [&self.due, &self.granted].map(|it| Timestamp::from_nanos(it.load(Ordering::Relaxed)));
        let late = granted.saturating_since(due);
        let is_next = arrival <= granted.saturating_add(late) && granted <= now;
        (is_next && due > now.saturating_sub(LATE)).then_some(due)
    }
}
