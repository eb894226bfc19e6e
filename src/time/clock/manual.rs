//! A clock for tests and simulations.

use std::time::Duration;

use super::Clock;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::time::timestamp::Timestamp;

/// A clock that is set by hand. Clones share one time.
///
/// ```
/// use leaparray::{Clock, ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(10));
/// let same = clock.clone();
/// clock.advance(Duration::from_millis(500));
/// assert_eq!(same.now(), Timestamp::from_millis(10_500));
/// clock.set(Timestamp::MIN);
/// assert_eq!(same.now(), Timestamp::MIN);
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Creates a clock that shows `now` until it is set.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_nanos())))
    }

    /// Sets the time, forward or back.
    pub fn set(&self, now: Timestamp) {
        // Release: pairs with the Acquire in `now`. A thread that sees the new time also sees
        // everything that this thread did before, as with a real clock.
        self.0.store(now.as_nanos(), Ordering::Release);
    }

    /// Advances the time, at most to [`Timestamp::MAX`].
    pub fn advance(&self, by: Duration) {
        // Release: as in `set`. A read-modify-write, so it continues the release sequence of the
        // previous time.
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, |nanos| {
            Some(Timestamp::from_nanos(nanos).saturating_add(by).as_nanos())
        });
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Acquire))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_advance_is_lost() {
        const ADVANCES: u64 = 100_000;
        let (clock, start) = (ManualClock::new(Timestamp::MIN), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    (0..ADVANCES).for_each(|_| clock.advance(Duration::from_nanos(1)));
                });
            }
        });
        assert_eq!(clock.now(), Timestamp::from_nanos(2 * ADVANCES));
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::MAX);
    }
}
