//! The readings of the registry, from one second to the next.

use std::time::Duration;

use leaparray::registry::RegistryCursor;
use leaparray::{Clock, Timestamp, WindowConfig};

use super::Hub;
use super::collect::{self, Collected};
use super::frame::Frame;
use super::identity::Identity;
use super::judge::Judge;
use super::ledger::{LedgerSum, events};
use super::nodes::{Changes, Nodes};
use super::seconds::Sums;
use super::viewers::Update;
use super::watch::Watch;
use crate::controllers;
use crate::format::{
    Change, Controller, LedgerSums, Levels, ResourceList, Second, Totals, Verdict,
};

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
    judge: Judge,
    pub(super) watch: Watch,
    /// The number of resources, and of contexts whose resource is not known.
    families: u64,
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
    /// The first second that was read.
    first: u64,
    reported: Vec<Change>,
}

/// Known of the newest second only.
struct Newest {
    controllers: Vec<Controller>,
    ledger: LedgerSums,
    verdicts: Vec<Verdict>,
    levels: Levels,
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
            judge: Judge::default(),
            watch: Watch::new(hub.identity.started.as_secs()),
            families: 0,
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
        // A reading that can send no second would find changes, and could not report them. The
        // first one lists the nodes.
        let known = self.next();
        let first = known.max(oldest_second(&long, now)).max(started);
        if !is_first && settled.as_secs() <= first {
            return Reading::empty(now);
        }
        self.ledger.begin(now.as_secs());
        let listed = hub.registry.len() as u64;
        let reading = collect::Reading {
            number: self.count + 1,
            now,
            settled,
            listed,
            is_first,
            rows: self.rows,
        };
        let mut found = Collected::new(&mut self.nodes, &mut self.ledger, reading);
        let visit = hub.registry.at(settled).visit_seconds(&self.cursor, |it| found.visit(it));
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
        self.nodes
            .retire(self.count, end, &mut changes, |node| self.ledger.release(&mut node.ledger));
        hub.set_last_id(self.nodes.last_id());
        let knows_refused =
            std::mem::replace(&mut self.knows_refused, is_first || !sums.is_empty());
        let mut controllers = controllers::read(&hub.registry);
        if is_first || !changes.is_empty() {
            self.families = self.nodes.families();
        }
        if !is_first {
            self.watch_lists(&changes);
        }
        if !is_first && self.first > known {
            self.watch.restart();
        }
        if !knows_refused {
            for it in &mut sums {
                it.refused = None;
            }
        }
        let (reported, verdicts, levels) = self.judge(&sums, &mut controllers);
        let newest = Newest {
            verdicts,
            levels,
            controllers,
            ledger: self.ledger.total(events(&visit.delisted), now.as_secs()),
        };
        let first = self.first;
        Reading { now, sums, newest: Some(newest), changes, is_first, first, reported }
    }

    /// Takes the resources that were listed, evicted or removed since the reading before.
    fn watch_lists(&mut self, changes: &Changes) {
        for new in changes.new.iter().filter(|it| it.context.is_none()) {
            self.watch.resource_listed(&new.name);
        }
        for node in changes.gone.iter().filter_map(|&id| self.nodes.get(id)) {
            if node.context().is_none() {
                self.watch.resource_gone(node.name());
            }
        }
    }

    /// Judges the seconds that were read. Returns what has changed, and the verdicts of the newest
    /// second. Of the earlier ones, the breakers are not known.
    fn judge(
        &mut self,
        sums: &[Sums],
        controllers: &mut [Controller],
    ) -> (Vec<Change>, Vec<Verdict>, Levels) {
        let (mut reported, mut verdicts, mut levels) = Default::default();
        for (index, second) in sums.iter().enumerate() {
            let is_newest = index + 1 == sums.len();
            let refused = second.refused.as_deref().unwrap_or_default();
            if is_newest {
                self.judge.read_breakers(controllers);
            }
            verdicts = self.judge.second(&self.nodes, second.t, &second.rows, refused);
            let breakers = (self.judge.breakers(), is_newest);
            levels = self.watch.second(second.t, &self.nodes, &verdicts, breakers, &mut reported);
        }
        let mut unlisted: Vec<_> = controllers.iter().map(|it| it.resource.as_str()).collect();
        unlisted.retain(|it| self.nodes.resources_named(it).next().is_none());
        unlisted.sort_unstable();
        unlisted.dedup();
        let all = self.families.saturating_add(unlisted.len() as u64);
        levels.quiet = all.saturating_sub(levels.strained.saturating_add(levels.failing));
        (reported, verdicts, levels)
    }

    /// Serializes a reading.
    pub(super) fn serialize(&mut self, identity: &Identity, reading: Reading) -> Update {
        let Reading { now, sums, newest, mut changes, is_first, first, reported } = reading;
        let has_changes = is_first || !changes.is_empty();
        // Without a second, the viewers get the message with all nodes again.
        let lists_again = !is_first && has_changes && sums.is_empty();
        if is_first {
            // They are in the message with all nodes.
            changes = Changes::default();
        }
        let end = self.next();
        let totals = sums.last().zip(newest.as_ref()).map(|(sums, newest)| {
            (identity.id_of(sums.t), Totals { t: sums.t, levels: newest.levels })
        });
        let seconds = self.serialize_seconds(identity, sums, newest, changes);
        Update { now, seconds, first, end, has_changes, lists_again, reported, totals }
    }

    /// Serializes the listed nodes.
    pub(super) fn resources(&self) -> Frame {
        Frame::new(None, &ResourceList { resources: self.nodes.all() }, 1024)
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
                second.verdicts = Some(newest.verdicts);
                second.levels = Some(newest.levels);
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
        let (sums, changes, reported) = (Vec::new(), Changes::default(), Vec::new());
        Self { now, sums, newest: None, changes, is_first: false, first: 0, reported }
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
