//! The time of a round: advanced by the writers, or real.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::{Clock, MonotonicClock, Timestamp};

use crate::rounds::{BUCKET, Round};

/// Returns the number of the bucket that a time falls into.
#[must_use]
pub fn number_of(time: Timestamp) -> u64 {
    time.as_millis()
}

/// Returns the start of the bucket with that number.
#[must_use]
pub fn start_of(number: u64) -> Timestamp {
    Timestamp::from_millis(number)
}

/// The time for all threads of a round.
pub trait Time: Sync {
    /// Returns the time at which a writer records in that turn; `None` when the round is over.
    fn tick(&self, turn: u64) -> Option<Timestamp>;

    /// Returns a time that is no earlier than the time of any record so far.
    fn now(&self) -> Timestamp;

    /// Returns the number of the first bucket of the round, and one more than the number of its
    /// last bucket.
    fn numbers(&self) -> (u64, u64);
}

/// Time that each turn of a writer advances: by a part of a bucket, and at intervals by three
/// buckets, so that some buckets are skipped.
#[derive(Debug)]
pub struct AdvancedTime {
    nanos: AtomicU64,
    writers: u64,
    /// The number of turns of each writer.
    turns: u64,
    turns_per_bucket: u32,
}

impl AdvancedTime {
    /// Starts at time 0.
    #[must_use]
    pub fn new(round: Round) -> Self {
        let Round { turns, turns_per_bucket, .. } = round;
        let writers = round.writers as u64;
        Self {
            nanos: AtomicU64::new(0),
            writers,
            turns: u64::from(turns) / writers,
            turns_per_bucket,
        }
    }

    /// Returns the number of turns of a writer from one jump of three buckets to the next.
    fn jump_every(&self) -> u64 {
        8 * u64::from(self.turns_per_bucket)
    }
}

impl Time for AdvancedTime {
    fn tick(&self, turn: u64) -> Option<Timestamp> {
        if turn >= self.turns {
            return None;
        }
        let step = if turn.is_multiple_of(self.jump_every()) {
            3 * BUCKET
        } else {
            BUCKET / self.turns_per_bucket
        };
        let step = u64::try_from(step.as_nanos()).ok()?;
        // Relaxed: the time orders nothing else.
        Some(Timestamp::from_nanos(self.nanos.fetch_add(step, Ordering::Relaxed) + step))
    }

    fn now(&self) -> Timestamp {
        // Acquire: keeps the reads that follow after this load. Each record follows the tick that
        // returned its time.
        Timestamp::from_nanos(self.nanos.load(Ordering::Acquire))
    }

    fn numbers(&self) -> (u64, u64) {
        let jumps = self.turns.div_ceil(self.jump_every());
        let whole = self.turns.div_ceil(self.turns_per_bucket.into());
        (0, self.writers * (whole + 3 * jumps) + 1)
    }
}

/// Real time, for 50 ms.
#[derive(Debug)]
pub struct Real {
    clock: MonotonicClock,
    begin: Timestamp,
}

impl Real {
    const LEN: Duration = Duration::from_millis(50);
    /// The maximum by which a time that a thread has received from another thread may be ahead of
    /// its own clock. The processor may read its counter before an earlier load is complete, and a
    /// load of a contended line takes up to 1 µs. On a loaded virtual machine, 26 µs were measured.
    pub const SKEW: Duration = Duration::from_millis(1);

    /// Starts at the present time.
    #[must_use]
    pub fn new() -> Self {
        let clock = MonotonicClock::new();
        Self { begin: clock.now(), clock }
    }

    fn end(&self) -> Timestamp {
        self.begin.saturating_add(Self::LEN)
    }
}

impl Default for Real {
    fn default() -> Self {
        Self::new()
    }
}

impl Time for Real {
    fn tick(&self, _turn: u64) -> Option<Timestamp> {
        Some(self.clock.now()).filter(|now| *now < self.end())
    }

    fn now(&self) -> Timestamp {
        self.clock.now().saturating_add(Self::SKEW)
    }

    fn numbers(&self) -> (u64, u64) {
        let first = number_of(self.begin.saturating_sub(Self::SKEW));
        (first, number_of(self.end()) + 1)
    }
}
