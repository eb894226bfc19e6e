//! What has changed: alerts of resources and breakers, resources that appear or go, and processes
//! of a fleet.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;

use super::alert::{Alert, Conditions, KEEP_FIRING, Report};
use super::judge::Breaker;
use super::nodes::{Node, Nodes};
use super::rule::RECENT;
use crate::format::{
    Change, ChangeKind, Finding, FindingKind, Fleet, FleetProcessState, Level, Levels, Verdict,
};

/// The most resources and breakers that are named in a second. The others are counted.
const NAMED: usize = 8;
/// The time between two changes of lists, such as resources that were listed.
const BATCH: u64 = 10;

/// A resource with its contexts, or the name of a breaker without a resource.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Family {
    Resource(u64),
    Name(Box<str>),
}

/// The trouble of a resource and its contexts in one second.
struct Trouble {
    conditions: Conditions,
    /// The verdict with the level of the conditions: of the resource itself, if it has it.
    verdict: Verdict,
}

/// Names that are reported together.
#[derive(Default)]
struct Batch {
    first: String,
    count: u64,
    reported_at: Option<u64>,
}

impl Batch {
    fn add(&mut self, name: &str) {
        if self.count == 0 {
            name.clone_into(&mut self.first);
        }
        self.count += 1;
    }

    fn take(&mut self, t: u64) -> Option<(String, u64)> {
        let is_time = self.reported_at.is_none_or(|at| t.saturating_sub(at) >= BATCH);
        if self.count == 0 || !is_time {
            return None;
        }
        self.reported_at = Some(t);
        Some((std::mem::take(&mut self.first), std::mem::take(&mut self.count)))
    }
}

/// A change of the alert of a breaker.
struct BreakerReport<'a> {
    t: u64,
    breaker: &'a Breaker,
    report: Report,
}

/// The changes of the alerts of breakers by their names, each in the order of the breakers.
type BreakerReports<'a> = HashMap<&'a str, VecDeque<BreakerReport<'a>>, RandomState>;

impl BreakerReport<'_> {
    fn into_change(self) -> (Level, Change) {
        let Self { t, breaker, report } = self;
        let Breaker { name, state, cause, level, .. } = breaker.clone();
        (level, change(t, report, ChangeKind::Breaker { name: name.into(), level, state, cause }))
    }
}

/// The states of the processes of a fleet that are reported.
const PROCESS_STATES: [&str; 4] = ["lost", "gone", "left", "live"];

/// Finds the changes, second by second.
pub(super) struct Watch {
    /// Since when the seconds are known without a gap, and the breakers. What is found then may
    /// have begun before.
    since: Option<u64>,
    breakers_since: Option<u64>,
    /// The second in which the page was made.
    started: u64,
    families: HashMap<Family, Alert, RandomState>,
    breakers: HashMap<(Box<str>, FindingKind, u64), Alert, RandomState>,
    listed: Batch,
    gone: Batch,
    /// The names and states of the processes by their ids; `None` before the first reading.
    processes: Option<HashMap<String, (String, FleetProcessState), RandomState>>,
    process_batches: [Batch; PROCESS_STATES.len()],
}

impl Watch {
    pub(super) fn new(started: u64) -> Self {
        Self {
            since: None,
            breakers_since: None,
            started,
            families: HashMap::default(),
            breakers: HashMap::default(),
            listed: Batch::default(),
            gone: Batch::default(),
            processes: None,
            process_batches: Default::default(),
        }
    }

    /// Takes a resource that was listed.
    pub(super) fn resource_listed(&mut self, name: &str) {
        self.listed.add(name);
    }

    /// Takes a resource that was evicted or removed.
    pub(super) fn resource_gone(&mut self, name: &str) {
        self.gone.add(name);
    }

    /// Takes the processes of the fleet.
    pub(super) fn fleet(&mut self, fleet: &Fleet) {
        let now = fleet.processes.iter();
        let now: HashMap<_, _, _> =
            now.map(|it| (it.id.clone(), (it.name.clone(), it.state))).collect();
        let Some(before) = self.processes.replace(now) else { return };
        let now = self.processes.iter().flatten();
        let [lost, gone, left, live] = &mut self.process_batches;
        for (id, (name, state)) in now {
            let was = before.get(id).map(|(_, state)| *state);
            match state {
                _ if was == Some(*state) => {}
                FleetProcessState::Lost => lost.add(name),
                FleetProcessState::Left => left.add(name),
                FleetProcessState::Live => live.add(name),
                FleetProcessState::Unknown => {}
            }
        }
        for (id, (name, state)) in &before {
            let is_listed = self.processes.as_ref().is_some_and(|it| it.contains_key(id));
            // That one has left or was lost is reported.
            if !is_listed && matches!(state, FleetProcessState::Live | FleetProcessState::Unknown) {
                gone.add(name);
            }
        }
    }

    /// Takes the verdicts of a second, and adds what has changed. Returns how many resources in
    /// trouble there are of each level. `is_newest` tells whether the breakers were read with this
    /// second. For an earlier one, the alerts of breakers stay as they are.
    pub(super) fn second(
        &mut self,
        t: u64,
        nodes: &Nodes,
        verdicts: &[Verdict],
        (breakers, is_newest): (&[Breaker], bool),
        changes: &mut Vec<Change>,
    ) -> Levels {
        self.since.get_or_insert(t);
        let troubles = troubles(nodes, verdicts, breakers);
        let mut levels = Levels::default();
        for trouble in troubles.values() {
            *levels.of_mut(trouble.conditions.level()) += 1;
        }
        let mut of_breakers = HashMap::default();
        if is_newest {
            of_breakers = self.update_breakers(t, breakers);
        }
        let mut found = self.update_families(t, nodes, troubles, &mut of_breakers);
        found.extend(of_breakers.into_values().flatten().map(BreakerReport::into_change));
        add_named(t, found, changes);
        self.add_batches(t, changes);
        levels
    }

    /// Forgets what was known before a gap.
    pub(super) fn restart(&mut self) {
        (self.since, self.breakers_since) = (None, None);
    }

    /// Returns the reports about breakers by their names.
    fn update_breakers<'a>(&mut self, t: u64, breakers: &'a [Breaker]) -> BreakerReports<'a> {
        let known = *self.breakers_since.get_or_insert(t);
        let mut reports = BreakerReports::default();
        for breaker in breakers {
            let key = (breaker.name.clone(), breaker.kind, breaker.index);
            let alert = self.breakers.entry(key).or_default();
            // A breaker does not flap from second to second: before a relapse, it resolves at once.
            let report = alert.update(t, Conditions::of_level(breaker.level), 0, known);
            if let Some(report) = report {
                let reports = reports.entry(&*breaker.name).or_default();
                reports.push_back(BreakerReport { t, breaker, report });
            }
            if alert.is_over(t) {
                *alert = Alert::default();
            }
        }
        reports
    }

    /// Returns the reports about resources, and takes those about breakers that belong to them.
    fn update_families(
        &mut self,
        t: u64,
        nodes: &Nodes,
        mut troubles: HashMap<Family, Trouble, RandomState>,
        breakers: &mut BreakerReports<'_>,
    ) -> Vec<(Level, Change)> {
        for family in troubles.keys() {
            if !self.families.contains_key(family) {
                self.families.insert(family.clone(), Alert::default());
            }
        }
        let known = self.since.unwrap_or(t);
        let begun = (self.may_have_begun(t), self.breakers_since == Some(t) && t > self.started);
        let mut found = Vec::new();
        self.families.retain(|family, alert| {
            let trouble = troubles.remove(family);
            let node = match family {
                Family::Resource(id) => nodes.get(*id),
                Family::Name(_) => None,
            };
            // That a resource is gone is reported in a batch.
            if matches!(family, Family::Resource(_)) && node.is_none_or(Node::is_gone) {
                return trouble.is_some();
            }
            let now = trouble.as_ref().map_or_else(Default::default, |it| it.conditions);
            if let Some(report) = alert.update(t, now, KEEP_FIRING, known) {
                let Report { was, level, resolved } = report;
                let name = match family {
                    Family::Name(name) => name,
                    Family::Resource(_) => node.map_or("", Node::name),
                };
                let breaker = breakers.get_mut(name).and_then(|it| Some(it.pop_front()?.breaker));
                let findings = trouble.as_ref().map_or(&[][..], |it| &it.verdict.findings);
                let of_breaker = findings.first().is_some_and(Finding::is_of_breaker);
                let has_begun = if of_breaker { begun.1 } else { begun.0 };
                let context = trouble.as_ref().and_then(|it| nodes.get(it.verdict.id)?.context());
                let kind = ChangeKind::Trouble {
                    name: name.to_owned(),
                    context: context.map(Into::into),
                    was,
                    level,
                    findings: findings.to_vec(),
                    breaker: breaker.map(|it| it.state.clone()),
                    or_before: resolved.map_or(has_begun, |(_, or_before)| or_before),
                };
                found.push((level, change(t, report, kind)));
            }
            !alert.is_over(t)
        });
        found
    }

    /// Returns whether what is found in a second may have begun before the seconds that were read.
    /// Of a page that is older or younger than these, not all is known.
    fn may_have_begun(&self, t: u64) -> bool {
        self.since.is_some_and(|since| since != self.started && t < since + RECENT)
    }

    fn add_batches(&mut self, t: u64, changes: &mut Vec<Change>) {
        if let Some((name, count)) = self.listed.take(t) {
            changes.push(Change::new(t, ChangeKind::Listed { name, count }));
        }
        if let Some((name, count)) = self.gone.take(t) {
            changes.push(Change::new(t, ChangeKind::Gone { name, count }));
        }
        for (state, batch) in PROCESS_STATES.into_iter().zip(&mut self.process_batches) {
            let Some((name, count)) = batch.take(t) else { continue };
            let state = state.into();
            changes.push(Change::new(t, ChangeKind::Process { name, count, state }));
        }
    }
}

/// Adds up the verdicts of each resource and its contexts.
fn troubles(
    nodes: &Nodes,
    verdicts: &[Verdict],
    breakers: &[Breaker],
) -> HashMap<Family, Trouble, RandomState> {
    let mut troubles: HashMap<Family, Trouble, RandomState> = HashMap::default();
    for verdict in verdicts {
        let Some(parent) = nodes.family_of(verdict.id) else { continue };
        add(&mut troubles, Family::Resource(parent), verdict, parent == verdict.id);
    }
    for breaker in breakers.iter().filter(|it| it.level > Level::Quiet) {
        if nodes.resources_named(&breaker.name).next().is_none() {
            let verdict = Verdict { id: 0, findings: vec![breaker.finding()] };
            add(&mut troubles, Family::Name(breaker.name.clone()), &verdict, true);
        }
    }
    troubles
}

fn add(
    troubles: &mut HashMap<Family, Trouble, RandomState>,
    family: Family,
    verdict: &Verdict,
    is_parent: bool,
) {
    let conditions = Conditions::of(&verdict.findings);
    match troubles.entry(family) {
        Entry::Vacant(entry) => {
            entry.insert(Trouble { conditions, verdict: verdict.clone() });
        }
        Entry::Occupied(mut entry) => {
            let known = entry.get_mut();
            let (level, before) = (conditions.level(), known.conditions.level());
            known.conditions = known.conditions.union(conditions);
            if level > before || (level == before && is_parent) {
                known.verdict = verdict.clone();
            }
        }
    }
}

/// Returns a change that an alert reports in a second.
fn change(t: u64, report: Report, kind: ChangeKind) -> Change {
    let since = report.resolved.map_or(t, |(since, _)| since);
    Change { t: since, reported: (since < t).then_some(t), kind }
}

fn name_of(kind: &ChangeKind) -> &str {
    match kind {
        ChangeKind::Trouble { name, .. } | ChangeKind::Breaker { name, .. } => name,
        _ => "",
    }
}

/// Adds the changes of one second, the worst first: some by name, the others by their number.
fn add_named(t: u64, mut found: Vec<(Level, Change)>, changes: &mut Vec<Change>) {
    found.sort_by(|(level, change), (other, of_other)| {
        other.cmp(level).then_with(|| name_of(&change.kind).cmp(name_of(&of_other.kind)))
    });
    let mut levels = Levels::default();
    let excess = found.split_off(found.len().min(NAMED));
    for (level, _) in &excess {
        *levels.of_mut(*level) += 1;
    }
    changes.extend(found.into_iter().map(|(_, change)| change));
    if levels != Levels::default() {
        changes.push(Change::new(t, ChangeKind::More { levels }));
    }
}
