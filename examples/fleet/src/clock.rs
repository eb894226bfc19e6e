//! The time of day, and how far the server's is ahead of it.

use std::time::SystemTime;

use leaparray::Timestamp;

use crate::notes::Use;

/// Returns the time of day of this machine, in microseconds.
pub(crate) fn time_of_day() -> u64 {
    Timestamp::from_system_time(SystemTime::now()).as_micros()
}

/// How far the server's time of day is ahead of this machine's, in microseconds: at least and at
/// most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    least: i64,
    most: i64,
}

impl Offset {
    /// The offset of a server on this machine: both read the same clock.
    pub(crate) const SAME_CLOCK: Self = Self { least: 0, most: 0 };

    /// Returns the offset if the server's time was `server` between the times `before` and `after`
    /// of this machine.
    pub(crate) fn measured(before: u64, server: u64, after: u64) -> Self {
        let since = |local: u64| server.cast_signed().saturating_sub(local.cast_signed());
        Self { least: since(after), most: since(before) }
    }

    /// Returns the error of the offset in microseconds.
    pub(crate) const fn error(self) -> u64 {
        self.most.abs_diff(self.least)
    }

    /// Returns the offset that covers this one and the other one.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// Returns the times of the server between which a use was.
    pub(crate) const fn to_server(self, it: Use) -> Use {
        Use {
            earliest: it.earliest.saturating_add_signed(self.least),
            latest: it.latest.saturating_add_signed(self.most),
        }
    }

    /// Returns the server's time, in the middle of its bounds.
    pub(crate) const fn server_time(self, local: u64) -> u64 {
        local.saturating_add_signed(self.least.midpoint(self.most))
    }
}
