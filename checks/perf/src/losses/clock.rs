//! The clock of all threads and peers.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leaparray::{Clock, Timestamp};

/// The system's clock in milliseconds, which sentinel-core reads by itself. Zero is one window
/// before the start of the run, so that no window begins before zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct WallClock {
    zero: u64,
}

impl WallClock {
    pub(super) fn start() -> Self {
        Self { zero: (since_epoch().as_millis() as u64).saturating_sub(super::BUCKETS) }
    }

    /// Returns the time, which is also the number of the current bucket.
    pub(super) fn millis(self) -> u64 {
        self.millis_of(since_epoch())
    }

    /// Returns the time, and the rest of the current millisecond.
    pub(super) fn millis_and_left(self) -> (u64, Duration) {
        let now = since_epoch();
        let nanos = 1_000_000 - now.subsec_nanos() % 1_000_000;
        (self.millis_of(now), Duration::from_nanos(nanos.into()))
    }

    fn millis_of(self, now: Duration) -> u64 {
        (now.as_millis() as u64).saturating_sub(self.zero)
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis())
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(super) fn sleep_until(clock: WallClock, millis: u64) {
    while let Some(left @ 1..) = millis.checked_sub(clock.millis()) {
        thread::sleep(Duration::from_millis(left));
    }
}

/// The first and the last millisecond in which a call can have read the clock. They are equal if
/// the time was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Span {
    pub(super) const fn at(millis: u64) -> Self {
        Self { first: millis, last: millis }
    }

    /// Runs `work`, and returns its result and its span.
    pub(super) fn of<R>(clock: WallClock, work: impl FnOnce() -> R) -> (R, Self) {
        let first = clock.millis();
        let result = work();
        (result, Self { first, last: clock.millis() })
    }
}
