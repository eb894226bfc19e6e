//! What time it is: as the writers have it, or as it really is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::{Clock, MonotonicClock, Timestamp};

use crate::rounds::Round;

/// The length of all buckets.
pub const BUCKET: Duration = Duration::from_millis(1);

/// The number of the bucket of that time.
#[must_use]
pub fn number_of(time: Timestamp) -> u64 {
    time.as_millis()
}

/// The start of the bucket of that number.
#[must_use]
pub fn start_of(number: u64) -> Timestamp {
    Timestamp::from_millis(number)
}

/// The time for all threads of a round.
pub trait Time: Sync {
    /// The time to record at in that turn of a writer; `None` when the round is over.
    fn tick(&self, turn: u64) -> Option<Timestamp>;

    /// A time that nobody who has recorded by now was ahead of.
    fn now(&self) -> Timestamp;

    /// The first bucket there is, and the one after the last.
    fn numbers(&self) -> (u64, u64);
}

/// Time that each turn of a writer pushes on: by a part of a bucket, and now and then by three
/// buckets, so that some are left out.
#[derive(Debug)]
pub struct Given {
    nanos: AtomicU64,
    writers: u64,
    /// Of each writer.
    turns: u64,
    turns_per_bucket: u32,
}

impl Given {
    /// The beginning of time.
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

    /// How many turns of a writer are between its jumps.
    fn jump_every(&self) -> u64 {
        8 * u64::from(self.turns_per_bucket)
    }
}

impl Time for Given {
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
        // Relaxed: that time passes orders nothing else.
        Some(Timestamp::from_nanos(self.nanos.fetch_add(step, Ordering::Relaxed) + step))
    }

    fn now(&self) -> Timestamp {
        // Acquire: of what was recorded in a bucket, its time comes first.
        Timestamp::from_nanos(self.nanos.load(Ordering::Acquire))
    }

    fn numbers(&self) -> (u64, u64) {
        let jumps = self.turns.div_ceil(self.jump_every());
        let whole = self.turns.div_ceil(self.turns_per_bucket.into());
        (0, self.writers * (whole + 3 * jumps) + 1)
    }
}

/// Real time, for a moment.
#[derive(Debug)]
pub struct Real {
    clock: MonotonicClock,
    begin: Timestamp,
}

impl Real {
    const LEN: Duration = Duration::from_millis(50);
    /// How far what one thread has told another may be ahead of the clock of that one. The processor
    /// reads its counter before a load is through, and that of a contended line takes up to 1 µs; on a
    /// loaded virtual machine 26 µs were seen.
    pub const SKEW: Duration = Duration::from_millis(1);

    /// The time that it is.
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
