//! The time of the last request that got through although it might have been dropped, from which
//! probes follow.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::{Timestamp, saturating_nanos};

/// The time of the last pass, in nanoseconds.
///
/// # Orderings
///
/// Relaxed throughout: the time orders nothing else, and its modification order decides. Each
/// change is a compare-exchange from the time on which the thread has decided, so of the threads
/// that race for a probe, one gets it.
#[derive(Debug)]
pub(super) struct LastPass {
    nanos: AtomicU64,
}

/// How often a probe is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbePace {
    probe_nanos: u64,
    /// If the last pass is that far ahead, time has gone back. If it is only a little ahead,
    /// another thread has a later time, and `now` is stale.
    back_nanos: u64,
}

impl ProbePace {
    pub(super) fn new(probe_interval: Duration, window: Duration) -> Self {
        let [probe_nanos, window_nanos] = [probe_interval, window].map(saturating_nanos);
        Self { probe_nanos, back_nanos: probe_nanos.max(window_nanos) }
    }

    /// Returns whether a probe is due at `now`, after a pass at `last`.
    #[inline]
    const fn is_due(self, last: u64, now: Timestamp) -> bool {
        let now = now.as_nanos();
        now.saturating_sub(last) >= self.probe_nanos || last.saturating_sub(now) >= self.back_nanos
    }
}

impl LastPass {
    /// The request has not noted its time. Time ends there, so no request gets through after a pass
    /// at that time.
    pub(super) const NOT_NOTED: u64 = u64::MAX;

    /// Creates the time of a pass at the beginning of time.
    pub(super) fn new() -> Self {
        Self { nanos: AtomicU64::new(0) }
    }

    /// Lets a request through as a probe, if a probe is due, and returns the time of the pass
    /// before; otherwise returns the time of the next probe.
    #[inline]
    pub(super) fn probe(&self, now: Timestamp, pace: ProbePace) -> Result<u64, Timestamp> {
        let mut last = self.nanos.load(Ordering::Relaxed);
        while pace.is_due(last, now) {
            match self.replace(last, now.as_nanos()) {
                Ok(before) => return Ok(before),
                // Another thread has got through, and the probe is no longer due, or has cancelled,
                // and it still is.
                Err(found) => last = found,
            }
        }
        Err(Timestamp::from_nanos(last.saturating_add(pace.probe_nanos)))
    }

    /// Returns whether a probe is due.
    pub(super) fn is_due(&self, now: Timestamp, pace: ProbePace) -> bool {
        pace.is_due(self.nanos.load(Ordering::Relaxed), now)
    }

    /// Notes the time of a request that got through by chance, to a sixteenth of the interval,
    /// because each note makes other threads load the line again. Returns the time of the pass
    /// before, if the time was noted.
    pub(super) fn note(&self, now: Timestamp, pace: ProbePace) -> u64 {
        let now = now.as_nanos();
        let last = self.nanos.load(Ordering::Relaxed);
        if now.saturating_sub(last) > pace.probe_nanos / 16 {
            // If the compare-exchange fails, another thread has noted a time.
            return self.replace(last, now).unwrap_or(Self::NOT_NOTED);
        }
        Self::NOT_NOTED
    }

    /// Sets the time back to the time before a request that was cancelled, if the request has noted
    /// its own time and no other request has got through since. If two requests are cancelled in
    /// the order in which they got through, the second one sets the time back to the time of the
    /// first one, which it found when it got through.
    pub(super) fn take_back(&self, start: Timestamp, pass_before: u64) {
        if pass_before != Self::NOT_NOTED {
            // If the compare-exchange fails, another request has got through, and the next probe
            // follows from its time.
            let _ = self.replace(start.as_nanos(), pass_before);
        }
    }

    #[inline]
    fn replace(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.nanos.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
    }
}
