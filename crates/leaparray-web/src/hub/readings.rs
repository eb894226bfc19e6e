//! The readings of the registry, from one second to the next.

use std::ops::Range;

use leaparray::{Clock, Refusals, Registry, RegistryCursor, Resource, ResourceSecond, Timestamp};

use super::Hub;
use super::frame::Frame;
use super::ledger::{LedgerSum, events};
use super::nodes::{Changes, Label, Node, Nodes, direction};
use super::seconds::Sums;
use super::viewers::Update;
use crate::controllers::Watches;
use crate::format::{Controller, Ledger, Refused, Resources, Second};

/// What the task keeps from one reading to the next.
pub(super) struct Readings {
    cursor: RegistryCursor,
    /// The first second that was not read; `None` before the first reading.
    next: Option<u64>,
    /// The number of readings.
    count: u64,
    polled: Vec<ResourceSecond>,
    pub(super) nodes: Nodes,
    ledger: LedgerSum,
    watches: Watches,
    /// The length of the last message with a second.
    length: usize,
}

/// What is known of the newest second only.
struct Newest {
    refused: Option<Vec<Refused>>,
    controllers: Vec<Controller>,
    ledger: Ledger,
}

impl Readings {
    pub(super) fn new<C>(hub: &Hub<C>) -> Self {
        Self {
            cursor: RegistryCursor::new(),
            next: None,
            count: 0,
            polled: Vec::new(),
            nodes: Nodes::default(),
            ledger: LedgerSum::default(),
            watches: hub.controllers.watch(),
            length: 256,
        }
    }

    /// Returns the number of the newest complete second that was read.
    pub(super) fn newest(&self) -> Option<u64> {
        self.next?.checked_sub(1)
    }

    /// Reads the seconds that are complete at `now` and were not read before. The first reading returns the seconds that the
    /// registry still has.
    pub(super) fn read<C>(&mut self, hub: &Hub<C>, now: Timestamp) -> Update
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        let is_first = self.next.is_none();
        hub.registry.poll_seconds_into_at(now, &self.cursor, &mut self.polled);
        let seconds = self.advance(hub, now);
        if seconds.is_empty() && !is_first {
            return Update { now, ..Update::default() };
        }
        self.count += 1;
        let mut changes = Changes::default();
        let mut sums = self.collect(hub, seconds, &mut changes);
        let newest = self.read_newest(hub, now, is_first, sums.last_mut(), &mut changes);
        let resources = (is_first || !changes.is_empty()).then(|| self.resources());
        if is_first {
            // They are in the message with all nodes.
            changes = Changes::default();
        }
        let seconds = self.serialize(hub, sums, newest, changes);
        Update { now, seconds, resources }
    }

    /// Returns the seconds of this reading.
    fn advance<C: Clock + Clone>(&mut self, hub: &Hub<C>, now: Timestamp) -> Range<u64> {
        let oldest = oldest_second(&hub.registry, now);
        let first = self.next.unwrap_or_else(|| {
            let polled = self.polled.first().map(|it| it.metrics.second.as_secs());
            let started = hub.identity.started.as_secs();
            polled.map_or(started, |it| it.min(started))
        });
        let end = now.as_secs().max(self.next.unwrap_or_default());
        self.next = Some(end);
        first.max(oldest).min(end)..end
    }

    /// Sorts what was polled into seconds.
    fn collect<C>(&mut self, hub: &Hub<C>, seconds: Range<u64>, changes: &mut Changes) -> Vec<Sums>
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        let start = seconds.start;
        let mut sums: Vec<_> = seconds.map(Sums::new).collect();
        for second in &self.polled {
            let label = Label {
                name: &second.name,
                context: second.context.as_deref(),
                direction: direction(second.traffic_type),
            };
            let t = second.metrics.second.as_secs();
            let index = t.checked_sub(start).and_then(|it| usize::try_from(it).ok());
            let Some(sums) = index.and_then(|it| sums.get_mut(it)) else { continue };
            let node = self.nodes.find_or_add(label, || hub.take_id(), changes);
            node.row = Some((t, sums.add(node.id, &second.metrics)));
        }
        sums
    }

    /// Reads what is known of the newest second only.
    fn read_newest<C>(
        &mut self,
        hub: &Hub<C>,
        now: Timestamp,
        is_first: bool,
        mut sums: Option<&mut Sums>,
        changes: &mut Changes,
    ) -> Newest
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        if let Some(sums) = &mut sums {
            sums.begin_in_flight();
        }
        let inventory = hub.registry.inventory();
        let mut refused = Vec::new();
        self.ledger.begin(now.as_secs());
        let listed = inventory.resources.len() as u64;
        for resource in &inventory.resources {
            for resource in std::iter::once(resource.clone()).chain(resource.contexts()) {
                let label = Label::of(&resource);
                let node = self.nodes.find_or_add(label, || hub.take_id(), changes);
                node.seen = self.count;
                if let Some(sums) = &mut sums {
                    let row = node.row.filter(|(t, _)| *t == sums.t).map(|(_, row)| row);
                    sums.set_in_flight(node.id, row, resource.concurrency());
                }
                refused.extend(newly_refused(node, &resource, is_first));
                self.ledger.read(node, &resource, now, listed);
            }
        }
        let ledger = &mut self.ledger;
        let release = |node: &mut Node| ledger.release(node);
        let second = self.next.unwrap_or_default();
        self.nodes.retire(self.count, second, changes, release);
        let delisted = events(&inventory.delisted_inbound) + events(&inventory.delisted_outbound);
        Newest {
            refused: (!is_first).then_some(refused),
            controllers: self.watches.read(),
            ledger: self.ledger.total(delisted, now.as_secs()),
        }
    }

    fn resources(&self) -> Frame {
        Frame::new(None, &Resources { resources: self.nodes.listed() }, 1024)
    }

    /// Serializes the seconds.
    fn serialize<C: Clock + Clone>(
        &mut self,
        hub: &Hub<C>,
        sums: Vec<Sums>,
        newest: Newest,
        changes: Changes,
    ) -> Vec<(u64, Frame)> {
        let last = sums.len().saturating_sub(1);
        let (mut newest, mut new, mut gone) = (Some(newest), changes.new, changes.gone);
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
            let id = hub.identity.id_of(second.t);
            let frame = Frame::new(Some(&id), &second, self.length + self.length / 8);
            self.length = frame.len();
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

/// Returns the requests that a node has refused since the last reading, if there are any.
fn newly_refused<C: Clock + Clone>(
    node: &mut Node,
    resource: &Resource<C>,
    is_first: bool,
) -> Option<Refused> {
    let counts = by_reason(&resource.refusals());
    let is_same = node.listed == Some(resource.id());
    let before = if is_same { node.refused } else { [0; 6] };
    node.listed = Some(resource.id());
    node.refused = counts;
    let newly: [u64; 6] = std::array::from_fn(|it| counts[it].saturating_sub(before[it]));
    if is_first || newly == [0; 6] {
        return None;
    }
    let [limit_reached, wait_too_long, more_than_limit, failing, other, queue_full] = newly;
    let id = node.id;
    Some(Refused { id, limit_reached, wait_too_long, more_than_limit, failing, other, queue_full })
}

/// Returns the counts in the order of the format.
pub(super) const fn by_reason(refusals: &Refusals) -> [u64; 6] {
    [
        refusals.limit_reached,
        refusals.wait_too_long,
        refusals.more_than_limit,
        refusals.failing,
        refusals.custom,
        refusals.queue_full,
    ]
}
