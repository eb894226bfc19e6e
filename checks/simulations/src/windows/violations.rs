//! The differences that the checks find.

use std::collections::BTreeMap;

/// A check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The sums of a second are the truth of exactly the processes that are named as present.
    Sums,
    /// A final second names every process that had it.
    Complete,
    /// A final second changes only by a process that was lost, before the deadline.
    Final,
    /// For each process, each count is in exactly one part of its record.
    Conservation,
    /// The seconds that wait take no more bytes than allowed.
    Memory,
}

/// How often each check has failed, with the first failure of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations(BTreeMap<Check, (u64, String)>);

impl Violations {
    /// Checks a condition.
    pub(super) fn check(&mut self, check: Check, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.0.entry(check).or_insert_with(|| (0, text())).0 += 1;
        }
    }

    /// Returns whether all checks hold.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how often a check has failed.
    #[must_use]
    pub fn count(&self, check: Check) -> u64 {
        self.0.get(&check).map_or(0, |it| it.0)
    }

    /// Adds the failures of another run.
    pub(super) fn add(&mut self, other: Self) {
        for (check, (count, text)) in other.0 {
            self.0.entry(check).or_insert((0, text)).0 += count;
        }
    }
}
