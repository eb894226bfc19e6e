//! The seconds that a record counts as delivered and as missed, by the truth.

use leaparray::EventCounts;
use leaparray_redis::fleet::{Delivery, Record};

use super::truth::Truth;

/// The seconds that a record counts as delivered and as missed, with their sums by the truth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decided {
    /// The first second that is not decided.
    pub(super) next: u64,
    pub(super) delivered: (u64, EventCounts),
    pub(super) missed: (u64, EventCounts),
    /// The seconds that were missed.
    pub(super) missed_seconds: Vec<u64>,
}

impl Decided {
    pub(super) fn new(next: u64) -> Self {
        Self { next, ..Self::default() }
    }

    /// Returns what is decided once a delivery is taken that builds on this.
    pub(super) fn after(
        &self,
        delivery: &Delivery,
        record: &Record,
        truth: &Truth,
        process: usize,
    ) -> Self {
        let mut after = self.clone();
        let mut seconds = delivery.seconds.iter().map(|it| it.second).peekable();
        for second in self.next..record.next {
            let sum = if seconds.next_if_eq(&second).is_some() {
                &mut after.delivered
            } else {
                after.missed_seconds.push(second);
                &mut after.missed
            };
            sum.0 += 1;
            sum.1 += &truth.of_process(process, second);
        }
        after.next = record.next.max(self.next);
        after
    }

    /// Returns whether a record counts the same.
    pub(super) fn is_in(&self, record: &Record) -> bool {
        record.next == self.next
            && record.delivered == self.delivered
            && record.missed == self.missed
    }

    /// Returns whether a second was delivered.
    pub(super) fn has_delivered(&self, second: u64) -> bool {
        second < self.next && !self.missed_seconds.contains(&second)
    }
}
