//! The readings of the registry, from one second to the next.

use std::time::Duration;

use leaparray::{Clock, RegistryCursor, Timestamp, WindowConfig};

use super::Hub;
use super::collect::{self, Collected};
use super::frame::Frame;
use super::identity::Identity;
use super::ledger::{LedgerSum, events};
use super::nodes::{Changes, Nodes};
use super::seconds::Sums;
use super::viewers::Update;
use crate::controllers::Watches;
use crate::format::{Controller, Ledger, Resources, Second};

/// The state that the task keeps from one reading to the next.
pub(super) struct Readings {
    cursor: RegistryCursor,
    /// How long after its end a second is read.
    delay: Duration,
    /// The first second that was not read; `None` before the first reading.
    next: Option<u64>,
    /// The first second of the newest reading that has found one.
    pub(super) first: u64,
    /// The number of readings.
    count: u64,
    pub(super) nodes: Nodes,
    ledger: LedgerSum,
    watches: Watches,
    /// Whether the refused requests by reason were read at the newest second that was sent.
    knows_refused: bool,
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
    controllers: Vec<Controller>,
    ledger: Ledger,
}

impl Readings {
    pub(super) fn new<C>(hub: &Hub<C>, delay: Duration) -> Self
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        Self {
            cursor: RegistryCursor::new(),
            delay,
            next: None,
            first: 0,
            count: 0,
            nodes: Nodes::after(hub.last_id()),
            ledger: LedgerSum::default(),
            watches: hub.controllers.watch(),
            knows_refused: false,
            length: 256,
            rows: 0,
        }
    }

    /// Returns the number of the first second that was not read.
    pub(super) fn next(&self) -> u64 {
        self.next.unwrap_or_default()
    }

    /// Reads the seconds that have ended before `now` for as long as the delay, and were not read
    /// before. The first reading returns the seconds that the registry still has.
    pub(super) fn read<C>(&mut self, hub: &Hub<C>, now: Timestamp) -> Reading
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        let settled = now.saturating_sub(self.delay);
        let is_first = self.next.is_none();
        let long = *hub.registry.config().long();
        let started = hub.identity.started.as_secs();
        // A reading that can send no second would find changes, and could not tell them. The first
        // one lists the nodes.
        let first = self.next().max(oldest_second(&long, now)).max(started);
        if !is_first && settled.as_secs() <= first {
            return Reading::empty(now);
        }
        self.ledger.begin(now.as_secs());
        let listed = hub.registry.len() as u64;
        let reading =
            collect::Reading { number: self.count + 1, now, listed, is_first, rows: self.rows };
        let mut found = Collected::new(&mut self.nodes, &mut self.ledger, reading);
        let visit = hub.registry.visit_seconds_at(settled, &self.cursor, |it| found.visit(it));
        found.finish_node();
        let Collected { mut sums, mut changes, .. } = found;
        if visit.seconds.is_empty() && !is_first {
            // The clock was set back since `now`.
            return Reading::empty(now);
        }
        // Until the end of the visit, threads may have replaced buckets that were in the window at
        // the settled time.
        let oldest = oldest_second(&long, hub.registry.clock().now().max(now));
        sums.retain(|it| it.t >= oldest);
        forget_unknown(&mut sums, started);
        let end = visit.seconds.end;
        self.count += 1;
        self.next = Some(end);
        self.first = sums.first().map_or(end, |it| it.t);
        self.nodes.retire(self.count, end, &mut changes, |node| self.ledger.release(node));
        hub.set_last_id(self.nodes.last_id());
        let knows_refused =
            std::mem::replace(&mut self.knows_refused, is_first || !sums.is_empty());
        if !knows_refused {
            for it in &mut sums {
                it.refused = None;
            }
        }
        let newest = Newest {
            controllers: self.watches.read(),
            ledger: self.ledger.total(events(&visit.delisted), now.as_secs()),
        };
        Reading { now, sums, newest: Some(newest), changes, is_first }
    }

    /// Serializes a reading.
    pub(super) fn serialize(&mut self, identity: &Identity, reading: Reading) -> Update {
        let Reading { now, sums, newest, mut changes, is_first } = reading;
        let has_changes = is_first || !changes.is_empty();
        // Without a second, the viewers get the message with all nodes again.
        let lists_again = !is_first && has_changes && sums.is_empty();
        if is_first {
            // They are in the message with all nodes.
            changes = Changes::default();
        }
        let end = self.next();
        let seconds = self.serialize_seconds(identity, sums, newest, changes);
        Update { now, seconds, end, has_changes, lists_again }
    }

    /// Serializes the listed nodes.
    pub(super) fn resources(&self) -> Frame {
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
                // Before the first row of a new node, and after the last one of a node that is
                // gone.
                new: std::mem::take(&mut new),
                total: sums.total,
                rows: sums.rows,
                refused: sums.refused,
                ..Second::default()
            };
            if let Some(newest) = newest.take_if(|_| index == last) {
                second.gone = std::mem::take(&mut gone);
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

impl Reading {
    /// No second was complete, and nothing was read.
    fn empty(now: Timestamp) -> Self {
        let (sums, changes) = (Vec::new(), Changes::default());
        Self { now, sums, newest: None, changes, is_first: false }
    }
}

/// Returns the number of the oldest second that is whole in the long window at `now`.
fn oldest_second(long: &WindowConfig, now: Timestamp) -> u64 {
    let start = long.bucket_end(now).saturating_sub(long.interval());
    start.as_nanos().div_ceil(1_000_000_000)
}

/// Removes the seconds before `started` in which nothing was recorded: the registry may not have
/// existed.
fn forget_unknown(sums: &mut Vec<Sums>, started: u64) {
    let is_known = |sums: &Sums| sums.t >= started || !sums.rows.is_empty();
    let first = sums.iter().position(is_known).unwrap_or(sums.len());
    sums.drain(..first);
}
