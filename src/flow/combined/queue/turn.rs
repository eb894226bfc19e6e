//! The time for which the last request got its permits.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering, zeros};
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
    /// The time at which a request is due that sleeps until then, or later while its timer is late;
    /// 0 if none sleeps. If the newest is served first, a newer one may ask before that timer ends.
    sleeps_until: AtomicU64,
}

impl GrantedTurn {
    pub(super) fn new() -> Self {
        let [due, granted, sleeps_until] = zeros();
        Self { due, granted, sleeps_until }
    }

    // Relaxed, here and below, and three words: the limiter decides on the time in any case, and a
    // time is used only if it is at most `LATE` ago.
    pub(super) fn set(&self, due: Timestamp, granted: Timestamp) {
        self.due.store(due.as_nanos(), Ordering::Relaxed);
        self.granted.store(granted.as_nanos(), Ordering::Relaxed);
    }

    /// Sets the time at which the head is due that begins to sleep; `None` if it is not due then,
    /// or if no request waits any more.
    pub(super) fn set_sleep(&self, until: Option<Timestamp>) {
        let until = until.map_or(0, Timestamp::as_nanos);
        self.sleeps_until.store(until, Ordering::Relaxed);
    }

    /// Returns the time from which on a request that has arrived at `arrival`, and asks at `now`,
    /// was first in line, or another one in its place that waits for a late timer.
    pub(super) fn begin(&self, arrival: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let [due, granted, sleeps_until] = [&self.due, &self.granted, &self.sleeps_until]
            .map(|it| Timestamp::from_nanos(it.load(Ordering::Relaxed)));
        let late = granted.saturating_since(due);
        let is_next = arrival <= granted.saturating_add(late) && granted <= now;
        let is_recent = |it: &Timestamp| *it <= now && *it > now.saturating_sub(LATE);
        is_next.then_some(due).into_iter().chain([sleeps_until]).filter(is_recent).min()
    }
}
