//! The ledger of all nodes. Its parts are read in turn, since the ledger of a node takes as long as
//! ten of its seconds.

use leaparray::array::Ledger as Parts;
use leaparray::{Clock, MetricEvent, MetricTotals, ResourceNode, Timestamp};

use crate::format::LedgerSums;

/// The number of ledgers that are read in a second.
const PER_SECOND: u64 = 128;

/// The events that are counted: each request has one or two of them.
const EVENTS: [MetricEvent; 5] = [
    MetricEvent::Pass,
    MetricEvent::Success,
    MetricEvent::Exception,
    MetricEvent::Cancelled,
    MetricEvent::Block,
];

/// Where the events of a node are, or of all nodes.
#[derive(Clone, Copy, Default)]
pub(super) struct Places {
    pub(super) in_window: u64,
    pub(super) expired: u64,
    pub(super) late: u64,
}

/// The last reading of the ledger of a node.
#[derive(Default)]
pub(super) struct LastLedger {
    places: Places,
    /// The second of the reading; `None` before the first one.
    second: Option<u64>,
}

impl LastLedger {
    /// Makes the next reading read the ledger, whose node has begun again.
    pub(super) const fn forget(&mut self) {
        self.second = None;
    }
}

/// The sum of the last readings of all listed nodes.
#[derive(Default)]
pub(super) struct LedgerSum {
    sum: Places,
    /// The second of the oldest reading.
    oldest: u64,
}

/// Returns the number of events.
pub(super) fn events(totals: &MetricTotals) -> u64 {
    EVENTS.iter().fold(0, |sum: u64, event| sum.saturating_add(totals.sum(*event)))
}

impl Places {
    pub(super) fn of(ledger: &Parts<MetricTotals>) -> Self {
        let [in_window, expired, late] =
            [&ledger.in_window, &ledger.expired, &ledger.late].map(events);
        Self { in_window, expired, late }
    }

    /// Returns the result of `combine` for each place.
    fn zip(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            in_window: combine(self.in_window, other.in_window),
            expired: combine(self.expired, other.expired),
            late: combine(self.late, other.late),
        }
    }
}

impl LedgerSum {
    /// Begins a reading in a second.
    pub(super) const fn begin(&mut self, second: u64) {
        self.oldest = second;
    }

    /// Reads the ledger of a listed node with that number, if it is its turn among `count` nodes,
    /// or it was not read yet.
    pub(super) fn read<C: Clock + Clone>(
        &mut self,
        last: &mut LastLedger,
        id: u64,
        from: &ResourceNode<C>,
        now: Timestamp,
        count: u64,
    ) {
        let second = now.as_secs();
        let turns = count.div_ceil(PER_SECOND).max(1);
        if last.second.is_none() || id % turns == second % turns {
            self.release(last);
            last.places = Places::of(&from.at(now).long().ledger());
            last.second = Some(second);
            self.sum = self.sum.zip(last.places, u64::saturating_add);
        }
        self.oldest = self.oldest.min(last.second.unwrap_or(second));
    }

    /// Takes a node out of the sum.
    pub(super) fn release(&mut self, last: &mut LastLedger) {
        let of_node = std::mem::take(last).places;
        // Saturating, as the sum: counts near the maximum must not end the task.
        self.sum = self.sum.zip(of_node, u64::saturating_sub);
    }

    /// Returns the sums, with the events of resources that are listed no longer.
    pub(super) fn total(&self, delisted: u64, second: u64) -> LedgerSums {
        let Places { in_window, expired, late } = self.sum;
        let parts = [in_window, expired, late, delisted];
        LedgerSums {
            in_window,
            expired,
            late,
            delisted,
            recorded: parts.into_iter().fold(0, u64::saturating_add),
            age: second.saturating_sub(self.oldest),
        }
    }
}
