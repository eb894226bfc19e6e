//! The ledger of all nodes. Its parts are read in turn, since the ledger of a node takes as long as ten of its seconds.

use leaparray::{Clock, Ledger as Parts, MetricEvent, MetricTotals, ResourceNode, Timestamp};

use super::nodes::Node;
use crate::format::{Ledger, NodeLedger};

/// The number of ledgers that are read in a second.
const PER_SECOND: u64 = 256;

/// The events that are counted: each request has one or two of them.
const EVENTS: [MetricEvent; 5] = [
    MetricEvent::Pass,
    MetricEvent::Success,
    MetricEvent::Exception,
    MetricEvent::Cancelled,
    MetricEvent::Block,
];

/// The sum of the last readings of all listed nodes.
#[derive(Default)]
pub(super) struct LedgerSum {
    sum: NodeLedger,
    /// The second of the oldest reading.
    oldest: u64,
}

/// Returns the number of events.
pub(super) fn events(totals: &MetricTotals) -> u64 {
    EVENTS.iter().fold(0, |sum: u64, event| sum.saturating_add(totals.sum(*event)))
}

/// Returns the ledger of a node at `now`.
pub(super) fn ledger_of(ledger: &Parts<MetricTotals>) -> NodeLedger {
    let [in_window, expired, late] = [&ledger.in_window, &ledger.expired, &ledger.late].map(events);
    NodeLedger { in_window, expired, late, recorded: in_window + expired + late }
}

impl LedgerSum {
    /// Begins a reading in a second.
    pub(super) const fn begin(&mut self, second: u64) {
        self.oldest = second;
    }

    /// Reads the ledger of a listed node, if it is its turn among `count` nodes, or it was not read yet.
    pub(super) fn read<C: Clock + Clone>(
        &mut self,
        node: &mut Node,
        from: &ResourceNode<C>,
        now: Timestamp,
        count: u64,
    ) {
        let second = now.as_secs();
        let turns = count.div_ceil(PER_SECOND).max(1);
        if node.ledger_read.is_none() || node.id % turns == second % turns {
            self.release(node);
            node.ledger = ledger_of(&from.ledger_at(now));
            node.ledger_read = Some(second);
            let of_node = &node.ledger;
            self.sum.in_window += of_node.in_window;
            self.sum.expired += of_node.expired;
            self.sum.late += of_node.late;
        }
        self.oldest = self.oldest.min(node.ledger_read.unwrap_or(second));
    }

    /// Takes a node out of the sum.
    pub(super) fn release(&mut self, node: &mut Node) {
        let of_node = std::mem::take(&mut node.ledger);
        node.ledger_read = None;
        self.sum.in_window -= of_node.in_window;
        self.sum.expired -= of_node.expired;
        self.sum.late -= of_node.late;
    }

    /// Returns the sums, with the events of resources that are listed no longer.
    pub(super) fn total(&self, delisted: u64, second: u64) -> Ledger {
        let NodeLedger { in_window, expired, late, .. } = self.sum;
        Ledger {
            in_window,
            expired,
            late,
            delisted,
            recorded: in_window + expired + late + delisted,
            age: second - self.oldest,
        }
    }
}
