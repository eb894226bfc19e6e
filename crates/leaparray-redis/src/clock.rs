//! A clock that counts the time in which the machine is suspended.

use leaparray::{Clock, Timestamp};

/// A monotonic clock that also runs while the machine is suspended. A lease ends on the server
/// whether the machine of the node sleeps or not.
///
/// It starts at the system's time of day and does not follow later jumps of the time of day. Clones
/// share one timeline.
///
/// It reads `CLOCK_BOOTTIME` on Linux and Android, `CLOCK_MONOTONIC` on other Unix systems (it
/// counts suspension on macOS, and may not do so elsewhere), and the performance counter on
/// Windows.
///
/// ```
/// use leaparray::Clock;
/// use leaparray_redis::BootClock;
///
/// let clock = BootClock::new();
/// let (first, second) = (clock.now(), clock.now());
/// assert!(first <= second);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    /// The time of day when the clock read zero.
    origin: Timestamp,
    started: Source,
}

impl BootClock {
    /// Creates a clock that starts at the system's time of day.
    #[must_use]
    pub fn new() -> Self {
        let today = Timestamp::from_system_time(std::time::SystemTime::now());
        Self { origin: today, started: Source::now() }
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for BootClock {
    #[inline]
    fn now(&self) -> Timestamp {
        self.origin.saturating_add(Source::now().since(self.started))
    }
}

#[cfg(not(unix))]
use other::Source;
#[cfg(unix)]
use unix::Source;

#[cfg(unix)]
mod unix {
    use std::time::Duration;

    use rustix::time::{ClockId, Timespec, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;

    /// A reading of the operating system's clock.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Source(Timespec);

    impl Source {
        #[inline]
        pub(super) fn now() -> Self {
            Self(clock_gettime(CLOCK))
        }

        #[inline]
        pub(super) fn since(self, earlier: Self) -> Duration {
            let secs = self.0.tv_sec - earlier.0.tv_sec;
            let nanos = secs * 1_000_000_000 + (self.0.tv_nsec - earlier.0.tv_nsec);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
        }
    }
}

#[cfg(not(unix))]
mod other {
    use std::time::{Duration, Instant};

    /// A reading of the operating system's clock.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Source(Instant);

    impl Source {
        pub(super) fn now() -> Self {
            Self(Instant::now())
        }

        pub(super) fn since(self, earlier: Self) -> Duration {
            self.0.saturating_duration_since(earlier.0)
        }
    }
}
