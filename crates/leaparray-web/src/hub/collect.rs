//! Sorting what one pass over the registry finds into seconds.

use std::ops::Range;

use leaparray::metric::SecondMetrics;
use leaparray::node::Refusals;
use leaparray::registry::{ResourceSecond, SeriesKey, Visited, VisitedNode};
use leaparray::{Clock, MetricEvent, Timestamp};

use super::HISTORY;
use super::ledger::LedgerSum;
use super::nodes::{Changes, Label, Nodes, direction};
use super::refused::Refusing;
use super::seconds::Sums;

/// The results of a pass over the registry so far.
pub(super) struct Collected<'a> {
    pub(super) sums: Vec<Sums>,
    pub(super) changes: Changes,
    nodes: &'a mut Nodes,
    ledger: &'a mut LedgerSum,
    reading: Reading,
    current: Option<Current>,
    /// The refused requests of the current node.
    refusing: Refusing,
    /// The seconds of the nodes that are no longer listed: the position of the node, the second,
    /// and its refused requests.
    delisted: Vec<(usize, u64, u64)>,
}

/// One reading of the registry.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Its number.
    pub(super) number: u64,
    pub(super) now: Timestamp,
    /// The seconds that have ended before are read.
    pub(super) settled: Timestamp,
    /// Whether it is the first one of a task, which lists the nodes also without a second.
    pub(super) is_first: bool,
    /// The number of resources.
    pub(super) listed: u64,
    /// About the number of rows of a second.
    pub(super) rows: usize,
}

/// The node that was visited last.
struct Current {
    position: usize,
    id: u64,
    in_flight: u64,
    /// Whether it has a row in the newest second.
    has_newest: bool,
}

impl<'a> Collected<'a> {
    pub(super) fn new(nodes: &'a mut Nodes, ledger: &'a mut LedgerSum, reading: Reading) -> Self {
        let (sums, changes, refusing) = (Vec::new(), Changes::default(), Refusing::default());
        Self {
            sums,
            changes,
            nodes,
            ledger,
            reading,
            current: None,
            refusing,
            delisted: Vec::new(),
        }
    }

    pub(super) fn visit<C: Clock + Clone>(&mut self, visited: Visited<'_, C>) {
        if let Visited::Seconds(seconds) = visited {
            self.begin(seconds);
            return;
        }
        // Without a second, the next reading finds the nodes, and what they have refused.
        if self.sums.is_empty() && !self.reading.is_first {
            return;
        }
        match visited {
            Visited::Node(node) => {
                self.finish_node();
                self.begin_node(&node);
            }
            Visited::Second(metrics) => self.add_second(metrics),
            Visited::Delisted(second) => {
                self.finish_node();
                self.add_delisted(second);
            }
            Visited::DelistedRefusals(key, refused) => {
                self.finish_node();
                self.add_delisted_refusals(key, refused);
            }
            _ => {}
        }
    }

    fn begin(&mut self, seconds: Range<u64>) {
        let Range { start, end } = seconds;
        // Earlier ones, of a window of more than a minute, would leave the history at once.
        let kept = start.max(end.saturating_sub(HISTORY.into()))..end;
        // As many rows as in the second before: most nodes have a row in each second, or in none.
        self.sums = kept.map(|t| Sums::new(t, self.reading.rows)).collect();
        if let Some(newest) = self.sums.last_mut() {
            newest.total.in_flight = Some(0);
        }
    }

    fn begin_node<C: Clock + Clone>(&mut self, visited: &VisitedNode<'_, C>) {
        let label = Label {
            name: visited.name,
            context: visited.context.map(AsRef::as_ref),
            direction: direction(visited.traffic_type),
        };
        let Reading { number, now, settled, listed, is_first, .. } = self.reading;
        let position = self.nodes.listed(visited.id, label, number, &mut self.changes);
        let node = self.nodes.at(position);
        let later = || visited.node.at(settled).unfinished().counts()[MetricEvent::Block];
        self.refusing.begin(visited.refused, is_first.then(later));
        self.ledger.read(&mut node.ledger, node.id, visited.node, now, listed);
        let in_flight = visited.node.concurrency();
        let id = node.id;
        self.current = Some(Current { position, id, in_flight, has_newest: false });
    }

    fn add_second(&mut self, metrics: &SecondMetrics) {
        let Some(current) = &mut self.current else { return };
        let Some((sums, is_newest)) = sums_of(&mut self.sums, metrics) else { return };
        self.refusing.add(sums.t, metrics.counts[MetricEvent::Block]);
        let in_flight = is_newest.then_some(current.in_flight);
        current.has_newest |= is_newest;
        sums.add(current.id, metrics, in_flight);
    }

    fn add_delisted(&mut self, second: &ResourceSecond) {
        let label = Label {
            name: &second.name,
            context: second.context.as_deref(),
            direction: direction(second.traffic_type),
        };
        let Some((sums, is_newest)) = sums_of(&mut self.sums, &second.metrics) else { return };
        let position = self.nodes.named(label, &mut self.changes);
        let id = self.nodes.at(position).id;
        self.delisted.push((position, sums.t, second.metrics.counts[MetricEvent::Block]));
        sums.add(id, &second.metrics, is_newest.then_some(0));
    }

    /// Adds the refused requests of a node that is no longer listed by reason, to its seconds.
    fn add_delisted_refusals(&mut self, key: &SeriesKey, refused: Refusals) {
        let label = Label {
            name: &key.name,
            context: key.context.as_deref(),
            direction: direction(key.traffic_type),
        };
        let Some(position) = self.nodes.find(label) else { return };
        self.refusing.begin(refused, self.reading.is_first.then_some(0));
        for (_, t, blocked) in self.delisted.iter().filter(|it| it.0 == position) {
            self.refusing.add(*t, *blocked);
        }
        let node = self.nodes.at(position);
        for (t, counts) in self.refusing.finish(&mut node.refused) {
            if let Some(sums) = self.sums.iter_mut().find(|it| it.t == t) {
                sums.add_refused(node.id, counts);
            }
        }
    }

    /// Adds the refused requests of the node by reason, and a row to the newest second if the node
    /// has requests in flight and nothing else.
    pub(super) fn finish_node(&mut self) {
        let Some(current) = self.current.take() else { return };
        let node = self.nodes.at(current.position);
        debug_assert_eq!(node.id, current.id);
        for (t, counts) in self.refusing.finish(&mut node.refused) {
            if let Some(sums) = self.sums.iter_mut().find(|it| it.t == t) {
                sums.add_refused(current.id, counts);
            }
        }
        if let Some(newest) = self.sums.last_mut()
            && !current.has_newest
            && current.in_flight > 0
        {
            newest.add_in_flight(current.id, current.in_flight);
        }
    }
}

/// Returns the sums of a second, and whether it is the newest.
fn sums_of<'a>(all: &'a mut [Sums], metrics: &SecondMetrics) -> Option<(&'a mut Sums, bool)> {
    let index = metrics.second.as_secs().checked_sub(all.first()?.t)?;
    let index = usize::try_from(index).ok()?;
    let is_newest = index + 1 == all.len();
    Some((all.get_mut(index)?, is_newest))
}
