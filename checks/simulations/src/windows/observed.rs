//! The results of a run.

use super::violations::Violations;

/// The results of a run, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The processes that ran at any time.
    pub processes: u64,
    /// How long after its end each second was final, for each reader, in microseconds and in order.
    pub final_after: Vec<u64>,
    /// The seconds of processes, except the last ones of the run.
    pub seconds: u64,
    /// All seconds of processes.
    pub seconds_alive: u64,
    /// Those that the first reader has shown as present.
    pub present: u64,
    /// Those that a process counted as missed.
    pub missed: u64,
    /// The others: a process crashed before it delivered them, or the server lost them.
    pub lost: u64,
    /// Those of the lost ones that the first reader has forgotten before it could know that they
    /// were final.
    pub unsettled: u64,
    /// How often a process came back to a second that had been final without it.
    pub returns: u64,
    /// How often a process was not named in a final second: the server had forgotten it.
    pub forgotten: u64,
    /// The deliveries that were sent, and their bytes.
    pub deliveries: u64,
    /// The bytes of the deliveries.
    pub delivery_bytes: u64,
    /// The polls of the readers.
    pub polls: u64,
    /// The requests of the readers.
    pub reads: u64,
    /// The bytes of the answers to the readers.
    pub read_bytes: u64,
    /// The most bytes that waited in a process.
    pub most_bytes: u64,
    /// The processes that have left after they had delivered everything.
    pub left: u64,
    /// The differences that the checks have found.
    pub violations: Violations,
}

impl Observed {
    /// Adds the results of another run.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        self.final_after.extend(other.final_after);
        self.final_after.sort_unstable();
        self.processes += other.processes;
        self.seconds += other.seconds;
        self.seconds_alive += other.seconds_alive;
        self.present += other.present;
        self.missed += other.missed;
        self.lost += other.lost;
        self.unsettled += other.unsettled;
        self.returns += other.returns;
        self.forgotten += other.forgotten;
        self.deliveries += other.deliveries;
        self.delivery_bytes += other.delivery_bytes;
        self.polls += other.polls;
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.most_bytes = self.most_bytes.max(other.most_bytes);
        self.left += other.left;
        self.violations.add(other.violations);
        self
    }

    /// Returns a quantile of the times until a second was final, in milliseconds.
    #[must_use]
    pub fn final_after_millis(&self, percent: usize) -> u64 {
        let rank = (self.final_after.len() * percent).div_ceil(100);
        self.final_after.get(rank.saturating_sub(1)).map_or(0, |it| it / 1_000)
    }
}
