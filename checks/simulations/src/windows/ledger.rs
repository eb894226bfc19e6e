//! The seconds that the server has taken.

use std::collections::{BTreeMap, BTreeSet};

use leaparray::EventCounts;

use super::decided::Decided;
use super::truth::{Truth, plus};

/// The seconds of a process that the server has taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// The seconds, each with the time of the server.
    seconds: BTreeMap<u64, u64>,
    /// Their number and their sum.
    pub(super) sum: (u64, EventCounts),
    /// Seconds that a server took and lost before the process got its answer. They are not in the
    /// sum.
    unanswered: BTreeSet<u64>,
    /// The times of the deliveries, whatever the server lost since.
    contacts: Vec<u64>,
    /// The first second of the process, as of its newest record.
    pub(super) first: u64,
}

impl Taken {
    /// Adds a second.
    pub(super) fn add(&mut self, now: u64, second: u64, totals: &EventCounts) {
        self.unanswered.remove(&second);
        if self.seconds.insert(second, now).is_none() {
            self.sum = (self.sum.0 + 1, plus(&self.sum.1, totals));
        }
    }

    /// Adds a delivery.
    pub(super) fn contact(&mut self, now: u64) {
        self.contacts.push(now);
    }

    /// Returns when the process had last reached a server at a time, whatever the server lost
    /// since; 0 if it had not.
    pub(super) fn contact_at(&self, time: u64) -> u64 {
        let end = self.contacts.partition_point(|it| *it <= time);
        self.contacts[..end].last().copied().unwrap_or(0)
    }

    /// Returns when the server took a second.
    pub(super) fn at(&self, second: u64) -> Option<u64> {
        self.seconds.get(&second).copied()
    }

    /// Takes back the seconds that a server has lost, as far as the process does not know that they
    /// were taken.
    pub(super) fn lose(
        &mut self,
        decided: &Decided,
        mut is_there: impl FnMut(u64) -> bool,
        truth: &Truth,
        process: usize,
    ) {
        let lost: Vec<_> = self
            .seconds
            .range(decided.next..)
            .map(|it| *it.0)
            .filter(|it| !is_there(*it))
            .collect();
        for second in lost {
            self.seconds.remove(&second);
            self.unanswered.insert(second);
            let totals = truth.of_process(process, second);
            self.sum = (self.sum.0 - 1, self.sum.1.saturating_sub(&totals));
        }
    }

    /// Adds the lost seconds that the process takes for delivered after all: the answer of the old
    /// server was in flight.
    pub(super) fn answer(&mut self, now: u64, decided: &Decided, truth: &Truth, process: usize) {
        let answered: Vec<_> = self.unanswered.range(..decided.next).copied().collect();
        for second in answered {
            self.unanswered.remove(&second);
            if decided.has_delivered(second) {
                self.add(now, second, &truth.of_process(process, second));
            }
        }
    }
}
