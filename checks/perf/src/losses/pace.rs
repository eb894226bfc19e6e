//! The pace at which threads record in a round.

use std::time::Duration;
use std::{hint, thread};

use super::BUCKETS;
use super::clock::WallClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// All threads wait for each millisecond to begin, so that they reach its rollovers together.
    /// Half a lap: nothing expires unless a thread stalls for the other half, so each loss is
    /// detected.
    Together,
    /// Threads record as fast as possible, so that some are preempted in the middle of a call. A
    /// lap and a half: a thread that stalls for long finds the slot taken, and the first records
    /// expire.
    Unpaced,
}

impl Pace {
    /// In the order of the table.
    pub(super) const ALL: [Self; 2] = [Self::Together, Self::Unpaced];

    /// Returns the pace of a round: one round in four is a long one.
    pub(super) const fn of_round(number: u64) -> Self {
        if number % 4 == 3 { Self::Unpaced } else { Self::Together }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Together => "together at each rollover",
            Self::Unpaced => "as fast as possible",
        }
    }

    /// Returns the length of a round.
    pub(super) const fn millis(self) -> u64 {
        match self {
            Self::Together => BUCKETS / 2,
            Self::Unpaced => BUCKETS + BUCKETS / 2,
        }
    }

    /// Waits until the thread may record again, and returns the time.
    pub(super) fn wait(self, clock: WallClock) -> u64 {
        match self {
            Self::Together => next_milli(clock),
            Self::Unpaced => clock.millis(),
        }
    }
}

/// Waits for the next millisecond. A thread sleeps most of that time, so that cores are idle when
/// it begins.
fn next_milli(clock: WallClock) -> u64 {
    const SPIN: Duration = Duration::from_micros(150);
    let (millis, left) = clock.millis_and_left();
    thread::sleep(left.saturating_sub(SPIN));
    while clock.millis() == millis {
        hint::spin_loop();
    }
    clock.millis()
}
