//! A clock that goes on when its source goes back.

use std::time::Duration;

use super::Clock;
use crate::sync::{Arc, AtomicU64, Ordering, zeros};
use crate::time::timestamp::Timestamp;

/// A clock that goes on when its source is set back: for a source such as the time of day.
///
/// If the source goes back by more than a millisecond, this clock continues from its highest
/// reading, at the rate of the source. It does so by an offset that is added to the source from
/// then on. If the source goes back by less, this clock stands still until the source has caught
/// up. No reading is more than a millisecond below an earlier one, on any thread.
///
/// A step forward is followed, also one that corrects an earlier step back: the two cannot be told
/// from a pause in which no thread read the clock. So the clock is ahead of its source by the sum
/// of all steps back, which [`ahead`](Self::ahead) returns, and buckets do not begin at the full
/// seconds of the source any more. To return to the time of the source, make a new clock.
///
/// A reading is two loads more than a reading of the source. It writes once the time has advanced
/// by a millisecond, and when the source has gone back. Clones share one timeline. A
/// [`MonotonicClock`](super::MonotonicClock) and a [`CachedClock`](super::CachedClock) do not go
/// back and need no wrapper.
///
/// ```
/// use leaparray::{Clock, ManualClock, Timestamp};
/// use leaparray::time::ForwardClock;
/// use std::time::Duration;
///
/// let source = ManualClock::new(Timestamp::from_secs(60));
/// let clock = ForwardClock::new(source.clone());
/// assert_eq!(clock.now(), Timestamp::from_secs(60));
/// source.set(Timestamp::from_secs(55));
/// assert_eq!(clock.now(), Timestamp::from_secs(60));
/// source.advance(Duration::from_secs(2));
/// assert_eq!(clock.now(), Timestamp::from_secs(62));
/// assert_eq!(clock.ahead(), Duration::from_secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct ForwardClock<C>(Arc<ForwardState<C>>);

/// The time in nanoseconds by which the source may go back before it counts as a step, and by which
/// readings may be above `highest`.
const TOLERANCE: u64 = 1_000_000;

/// # Orderings
///
/// Both words only grow. `highest` is loaded first, then `offset`, and the source is read last.
/// Both are released after the source was read, and loaded with acquire. So a thread that finds the
/// highest reading finds the offset with which it was made, and reads the source after that. If its
/// time is lower nevertheless, the source has gone back, and the thread has not merely stalled. A
/// thread that finds a raised offset reads the source after the step.
#[derive(Debug)]
struct ForwardState<C> {
    source: C,
    /// A reading that was the highest, or at most [`TOLERANCE`] below the highest. In nanoseconds.
    highest: AtomicU64,
    /// The sum of the steps back, in nanoseconds.
    offset: AtomicU64,
}

impl<C: Clock> ForwardClock<C> {
    /// Creates a clock that shows the time of `source` until the source goes back.
    #[must_use]
    pub fn new(source: C) -> Self {
        let [highest, offset] = zeros();
        Self(Arc::new(ForwardState { source, highest, offset }))
    }

    /// Returns the time by which the clock is ahead of its source: the sum of all steps back that a
    /// reading has found.
    #[must_use]
    pub fn ahead(&self) -> Duration {
        Duration::from_nanos(self.0.offset.load(Ordering::Relaxed))
    }
}

impl<C: Clock> Clock for ForwardClock<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.nanos())
    }
}

impl<C: Clock> ForwardState<C> {
    #[inline]
    fn nanos(&self) -> u64 {
        loop {
            // Acquire: pairs with the Release in `settle`.
            let highest = self.highest.load(Ordering::Acquire);
            // Acquire: pairs with the Release in `settle`.
            let offset = self.offset.load(Ordering::Acquire);
            let nanos = self.source.now().as_nanos().saturating_add(offset);
            // From `highest` up to the tolerance: one comparison for both.
            if nanos.wrapping_sub(highest) < TOLERANCE {
                return nanos;
            }
            if let Some(nanos) = self.settle(highest, offset, nanos) {
                return nanos;
            }
        }
    }

    /// Notes a reading that is higher than the highest, or raises the offset after a step back.
    /// Returns the reading; `None` if another thread has raised the offset.
    #[cold]
    fn settle(&self, highest: u64, offset: u64, nanos: u64) -> Option<u64> {
        if nanos >= highest {
            // Release: pairs with the Acquire in `nanos`. A thread that finds this reading reads
            // the source after it.
            self.highest.fetch_max(nanos, Ordering::Release);
            return Some(nanos);
        }
        let step = highest - nanos;
        if step <= TOLERANCE {
            // Sources that differ between cores by as much must not move the clock ahead.
            return Some(highest);
        }
        // A compare-exchange: if two threads find the same step, one of them raises the offset.
        // Release: pairs with the Acquire in `nanos`. A thread that finds the new offset reads the
        // source after the step.
        let raised = offset.saturating_add(step);
        self.offset
            .compare_exchange(offset, raised, Ordering::Release, Ordering::Relaxed)
            .map(|_| highest)
            .ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::time::ManualClock;

    fn t(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn clock_goes_on_after_each_step_back() {
        let source = ManualClock::new(t(60_000));
        let clock = ForwardClock::new(source.clone());
        let mut expected = 60_000;
        for step in [5_000, 2, 50_000] {
            assert_eq!(clock.now(), t(expected));
            source.set(source.now().saturating_sub(Duration::from_millis(step)));
            assert_eq!(clock.now(), t(expected), "neither back nor ahead");
            source.advance(Duration::from_millis(7));
            expected += 7;
        }
        assert_eq!(clock.clone().now(), t(expected), "clones share one timeline");
        assert_eq!(clock.ahead(), Duration::from_millis(55_002));
        source.advance(Duration::from_secs(3_600));
        assert_eq!(clock.now(), t(expected + 3_600_000), "a step forward is followed");
        source.set(Timestamp::MAX);
        assert_eq!(clock.now(), Timestamp::MAX);
    }

    #[test]
    fn source_that_wobbles_does_not_move_the_clock_ahead() {
        let source = ManualClock::new(t(60_000));
        let clock = ForwardClock::new(source.clone());
        for millis in 60_001..60_500 {
            source.set(t(millis));
            assert_eq!(clock.now(), t(millis));
            source.set(t(millis - 1));
            assert_eq!(clock.now(), t(millis), "stands still");
        }
        assert_eq!(clock.ahead(), Duration::ZERO);
    }
}
