//! The requests that were admitted, and the differences.

use std::collections::VecDeque;

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An interval has more requests than its limit.
    Over {
        /// The step at its end.
        step: u64,
        /// The requests that were admitted in it.
        admitted: u64,
        /// The largest limit that was in force for them.
        limit: u64,
    },
    /// More is charged to a bucket than its limit, which has not changed for long.
    Charged {
        /// The step.
        step: u64,
        /// The charge.
        charged: u64,
    },
    /// A limit of which clients ask for more is not used, though all faults are over.
    Unused {
        /// The requests that were admitted in the last intervals.
        admitted: u64,
        /// The requests that could have been admitted in them.
        possible: u64,
    },
    /// The subscriptions of an instance differ from those of its clients, or the instance keeps
    /// something of a client that has gone.
    Kept {
        /// The streams, the subscriptions and the budgets.
        counts: (usize, usize, usize),
    },
}

/// The requests of a bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    /// The requests in the steps of an interval.
    steps: VecDeque<u64>,
    sum: u64,
    /// Before this step, an interval is not checked: its length has changed, or it had no limit.
    pub(super) from: u64,
    /// The limits, each with the step in which it was replaced.
    pub(super) before: Vec<(u64, u64)>,
}

impl Audit {
    /// Adds a step. Returns a difference if the interval that ends with it has more than the
    /// limits that were in force in the last `lasts` steps.
    pub(super) fn add(
        &mut self,
        step: u64,
        admitted: u64,
        (window, lasts): (u64, u64),
        limit: u64,
    ) -> Option<Violation> {
        self.steps.push_back(admitted);
        self.sum = self.sum.saturating_add(admitted);
        while self.steps.len() as u64 > window {
            self.sum = self.sum.saturating_sub(self.steps.pop_front().unwrap_or_default());
        }
        self.before.retain(|it| it.0 + lasts >= step);
        let limit = self.before.iter().map(|it| it.1).fold(limit, u64::max);
        let is_over = self.sum > limit && step >= self.from;
        is_over.then_some(Violation::Over { step, admitted: self.sum, limit })
    }

    /// Forgets the requests before, which had another limit.
    pub(super) fn begin(&mut self, from: u64) {
        self.from = from;
        self.before.clear();
    }

    /// Returns whether the limit has been the same for long.
    pub(super) fn is_steady(&self, step: u64) -> bool {
        self.before.is_empty() && step >= self.from
    }
}
