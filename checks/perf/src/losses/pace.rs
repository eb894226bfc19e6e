//! How the threads go about a round.

use std::time::Duration;
use std::{hint, thread};

use super::BUCKETS;
use super::clock::WallClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Everybody waits for each millisecond to begin, so that they come to its rollovers together.
    /// Half a lap: nothing expires while nobody is stopped for the other half, so that each loss
    /// is seen.
    Together,
    /// As fast as they can, so that some are stopped in the middle of a call. A lap and a half: who
    /// is stopped for long finds its slot taken, and what was recorded first expires.
    Flat,
}

impl Pace {
    /// In the order of the table.
    pub(super) const ALL: [Self; 2] = [Self::Together, Self::Flat];

    /// One round in four is a long one.
    pub(super) const fn of_round(number: u64) -> Self {
        if number % 4 == 3 { Self::Flat } else { Self::Together }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Together => "together at each rollover",
            Self::Flat => "as fast as they can",
        }
    }

    /// How long a round takes.
    pub(super) const fn millis(self) -> u64 {
        match self {
            Self::Together => BUCKETS / 2,
            Self::Flat => BUCKETS + BUCKETS / 2,
        }
    }

    /// Returns the time when it is a thread's turn to record again.
    pub(super) fn wait(self, clock: WallClock) -> u64 {
        match self {
            Self::Together => next_milli(clock),
            Self::Flat => clock.millis(),
        }
    }
}

/// Sleeps most of the time, so that there are cores for everybody when it counts.
fn next_milli(clock: WallClock) -> u64 {
    const SPIN: Duration = Duration::from_micros(150);
    let (millis, left) = clock.millis_and_left();
    thread::sleep(left.saturating_sub(SPIN));
    while clock.millis() == millis {
        hint::spin_loop();
    }
    clock.millis()
}
