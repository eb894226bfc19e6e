//! The precise clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Clock;
use super::steering::{Source, Steering};
use crate::sync::process_static;
use crate::time::timestamp::{Timestamp, saturating_nanos};

process_static! {
    static TIMELINE: OnceLock<Steering<Hardware>> = OnceLock::new();
}

/// The default clock, which is precise: the processor's time stamp counter, read through `quanta`,
/// and corrected by the operating system's monotonic clock.
///
/// All clocks of a process show one time. It starts at the system's time of day when the first of
/// them is made, and does not follow later jumps of the time of day. So windows, nodes and limiters
/// that were made by `new` agree on the time, whenever they were made. On one thread, it never goes
/// back. Between threads, it may go back, by the difference between the counters of their cores,
/// and because a core may read its counter before the loads that precede it: by nanoseconds as a
/// rule, and by up to 26 µs on a virtual machine with several times more threads than cores. It is
/// at most about 0.3 µs behind the operating system's clock, for any run time. If a reader is
/// preempted in the middle of a correction, the clock falls behind further, until the next
/// correction at most 0.3 ms later. A reader that finds a correction due makes it; there is no
/// background thread. Without a usable counter, `quanta` reads the operating system's clock
/// instead.
///
/// Creating the first clock of a process takes up to 0.2 s, in which `quanta` calibrates the
/// counter.
///
/// ```
/// use leaparray::{Clock, MonotonicClock};
///
/// let (first, second) = (MonotonicClock::new(), MonotonicClock::new());
/// let (earlier, later) = (second.now(), first.now());
/// assert!(earlier <= later);
/// ```
#[derive(Clone, Debug)]
pub struct MonotonicClock(&'static Steering<Hardware>);

impl MonotonicClock {
    /// Returns the clock of the process.
    #[must_use]
    pub fn new() -> Self {
        Self(TIMELINE.get_or_init(|| Steering::new(Hardware::new())))
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.nanos())
    }
}

#[derive(Debug)]
struct Hardware {
    quanta: quanta::Clock,
    /// The raw counter when the clock was made.
    counter_start: u64,
    /// The operating system's monotonic clock when the clock was made.
    reference_start: Instant,
    /// The time of day when the clock was made, in nanoseconds since the Unix epoch.
    epoch_nanos: u64,
}

impl Hardware {
    fn new() -> Self {
        let quanta = quanta::Clock::new();
        // A time of day before 1970 starts the timeline at 1970.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            counter_start: quanta.raw(),
            reference_start: Instant::now(),
            epoch_nanos: saturating_nanos(since_epoch),
            quanta,
        }
    }
}

impl Source for Hardware {
    #[inline]
    fn counter(&self) -> u64 {
        self.quanta.delta_as_nanos(self.counter_start, self.quanta.raw())
    }

    fn reference(&self) -> u64 {
        self.epoch_nanos.saturating_add(saturating_nanos(self.reference_start.elapsed()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_a_process_share_one_timeline() {
        let [one, other] = [MonotonicClock::new(), MonotonicClock::default()];
        assert!(std::ptr::eq(one.0, other.0));
    }

    #[test]
    fn starts_at_the_time_of_day() {
        let of_day = || {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            Timestamp::from_nanos(saturating_nanos(since_epoch))
        };
        let before = of_day();
        let clock = MonotonicClock::new();
        let now = clock.now();
        // The time of day may be set during the test, but hardly by a minute.
        let minute = std::time::Duration::from_secs(60);
        assert!(now.saturating_add(minute) > before && now < of_day().saturating_add(minute));
    }
}
