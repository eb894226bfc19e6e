//! The readings of the registry, from one second to the next.

use std::ops::Range;

use leaparray::{Clock, Registry, RegistryCursor, Timestamp};

use super::Hub;
use super::collect::{self, Collected};
use super::frame::Frame;
use super::identity::Identity;
use super::ledger::{LedgerSum, events};
use super::nodes::{Changes, Nodes};
use super::seconds::Sums;
use super::viewers::Update;
use crate::controllers::Watches;
use crate::format::{Controller, Ledger, Refused, Resources, Second};

/// The state that the task keeps from one reading to the next.
pub(super) struct Readings {
    cursor: RegistryCursor,
    /// The first second that was not read; `None` before the first reading.
    next: Option<u64>,
    /// The first second of the newest reading that has found one.
    pub(super) first: u64,
    /// The number of readings.
    count: u64,
    pub(super) nodes: Nodes,
    ledger: LedgerSum,
    watches: Watches,
    /// The length of the last message with a second, and the number of its rows.
    length: usize,
    rows: usize,
}

/// The results of a reading, before they are serialized.
pub(super) struct Reading {
    now: Timestamp,
    sums: Vec<Sums>,
    /// Known of the newest second only.
    newest: Option<Newest>,
    changes: Changes,
    is_first: bool,
}

/// Known of the newest second only.
struct Newest {
    refused: Option<Vec<Refused>>,
    controllers: Vec<Controller>,
    ledger: Ledger,
}

impl Readings {
    pub(super) fn new<C: Clock + Clone + Send + Sync + 'static>(hub: &Hub<C>) -> Self {
        Self {
            cursor: RegistryCursor::new(),
            next: None,
            first: 0,
            count: 0,
            nodes: Nodes::after(hub.last_id()),
            ledger: LedgerSum::default(),
            watches: hub.controllers.watch(),
            length: 256,
            rows: 0,
        }
    }

    /// Returns the number of the newest complete second that was read.
    pub(super) fn newest(&self) -> Option<u64> {
        self.next?.checked_sub(1)
    }

    /// Reads the seconds that are complete at `now` and were not read before. The first reading returns the seconds that the
    /// registry still has.
    pub(super) fn read<C>(&mut self, hub: &Hub<C>, now: Timestamp) -> Reading
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        let is_first = self.next.is_none();
        let seconds = self.advance(&hub.registry, now);
        if seconds.is_empty() && !is_first {
            let (sums, changes) = (Vec::new(), Changes::default());
            return Reading { now, sums, newest: None, changes, is_first };
        }
        self.count += 1;
        self.first = seconds.start;
        let (end, second) = (seconds.end, now.as_secs());
        self.ledger.begin(second);
        let listed = hub.registry.len() as u64;
        let reading = collect::Reading { number: self.count, now, listed, rows: self.rows };
        let mut found = Collected::new(seconds, &mut self.nodes, &mut self.ledger, reading);
        let visit = hub.registry.visit_seconds_at(now, &self.cursor, |it| found.visit(it));
        found.finish_node();
        let Collected { mut sums, mut changes, refused, .. } = found;
        if is_first {
            let started = hub.identity.started.as_secs();
            forget_unknown(&mut sums, started.max(visit.seconds.start));
        }
        self.nodes.retire(self.count, end, &mut changes, |node| self.ledger.release(node));
        hub.set_last_id(self.nodes.last_id());
        let newest = Newest {
            refused: (!is_first).then_some(refused),
            controllers: self.watches.read(),
            ledger: self.ledger.total(events(&visit.delisted), second),
        };
        Reading { now, sums, newest: Some(newest), changes, is_first }
    }

    /// Returns the seconds of this reading.
    fn advance<C: Clock + Clone>(&mut self, registry: &Registry<C>, now: Timestamp) -> Range<u64> {
        let oldest = oldest_second(registry, now);
        let end = now.as_secs().max(self.next.unwrap_or_default());
        let first = self.next.replace(end).unwrap_or_default();
        first.max(oldest).min(end)..end
    }

    /// Serializes a reading.
    pub(super) fn serialize(&mut self, identity: &Identity, reading: Reading) -> Update {
        let Reading { now, sums, newest, mut changes, is_first } = reading;
        let resources = (is_first || !changes.is_empty()).then(|| self.resources());
        if is_first {
            // They are in the message with all nodes.
            changes = Changes::default();
        }
        let seconds = self.serialize_seconds(identity, sums, newest, changes);
        Update { now, seconds, resources }
    }

    fn resources(&self) -> Frame {
        Frame::new(None, &Resources { resources: self.nodes.all() }, 1024)
    }

    fn serialize_seconds(
        &mut self,
        identity: &Identity,
        sums: Vec<Sums>,
        mut newest: Option<Newest>,
        changes: Changes,
    ) -> Vec<(u64, Frame)> {
        let last = sums.len().saturating_sub(1);
        let (mut new, mut gone) = (changes.new, changes.gone);
        let mut frames = Vec::with_capacity(sums.len());
        for (index, mut sums) in sums.into_iter().enumerate() {
            sums.finish();
            let mut second = Second {
                t: sums.t,
                // Before the first row of a new node, and after the last one of a node that is gone.
                new: std::mem::take(&mut new),
                total: sums.total,
                rows: sums.rows,
                ..Second::default()
            };
            if let Some(newest) = newest.take_if(|_| index == last) {
                second.gone = std::mem::take(&mut gone);
                second.refused = newest.refused;
                second.controllers = Some(newest.controllers);
                second.ledger = Some(newest.ledger);
            }
            let id = identity.id_of(second.t);
            let frame = Frame::new(Some(&id), &second, self.length + self.length / 8);
            self.length = frame.len();
            self.rows = second.rows.len();
            frames.push((second.t, frame));
        }
        frames
    }
}

/// Returns the number of the oldest second that is whole in the long window of the registry at `now`.
fn oldest_second<C: Clock + Clone>(registry: &Registry<C>, now: Timestamp) -> u64 {
    let config = registry.config();
    let long = config.long();
    let after_newest = long.bucket_end(now);
    after_newest.saturating_sub(long.interval()).as_nanos().div_ceil(1_000_000_000)
}

/// Removes the seconds before `started` in which nothing was recorded: the registry may not have existed.
fn forget_unknown(sums: &mut Vec<Sums>, started: u64) {
    let is_known = |sums: &Sums| sums.t >= started || !sums.rows.is_empty();
    let first = sums.iter().position(is_known).unwrap_or(sums.len());
    sums.drain(..first);
}
