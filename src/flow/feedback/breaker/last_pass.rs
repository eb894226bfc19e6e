//! The time of the last request that got through although it might have been dropped, from which
//! probes follow.

use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

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
    pub(super) fn probe(
        &self,
        now: Timestamp,
        probe_nanos: u64,
        window_nanos: u64,
    ) -> Result<u64, Timestamp> {
        let now = now.as_nanos();
        let mut last = self.nanos.load(Ordering::Relaxed);
        while Self::is_due(now, last, probe_nanos, window_nanos) {
            match self.replace(last, now) {
                Ok(before) => return Ok(before),
                // Another thread has got through, and the probe is no longer due, or has cancelled,
                // and it still is.
                Err(found) => last = found,
            }
        }
        Err(Timestamp::from_nanos(last.saturating_add(probe_nanos)))
    }

    #[inline]
    const fn is_due(now: u64, last: u64, probe_nanos: u64, window_nanos: u64) -> bool {
        // If `last` is only a little ahead, another thread has a later time, and `now` is stale.
        let ahead = last.saturating_sub(now);
        let has_gone_back = ahead >= probe_nanos && ahead >= window_nanos;
        now.saturating_sub(last) >= probe_nanos || has_gone_back
    }

    /// Notes the time of a request that got through by chance, to a sixteenth of the interval,
    /// because each note makes other threads load the line again. Returns the time of the pass
    /// before, if the time was noted.
    pub(super) fn note(&self, now: Timestamp, probe_nanos: u64) -> u64 {
        let now = now.as_nanos();
        let last = self.nanos.load(Ordering::Relaxed);
        if now.saturating_sub(last) > probe_nanos / 16 {
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
