//! What has changed: resources whose trouble begins or ends, breakers, resources that appear or go,
//! and processes of a fleet.
//!
//! A rise is told at once. A fall is told once it has lasted for a while, which doubles with each
//! relapse, so that a flapping resource adds few changes: see [`Told`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;

use super::judge::Breaker;
use super::nodes::{Node, Nodes};
use super::rule::RECENT;
use crate::format::{
    Change, ChangeKind, Finding, FindingKind, Fleet, FleetProcessState, Level, Levels, Verdict,
};

/// For how long a fall has to last before it is told, in seconds: for the first time.
const CALM: u64 = 10;
/// After this number of relapses, the time doubles no more: it is 160 s.
const MAX_DOUBLINGS: u32 = 4;
/// After so many seconds without a change, the relapses are forgotten.
const FORGIVEN: u64 = 600;
/// The most resources and breakers that are named in a second. The others are counted.
const NAMED: usize = 8;
/// The time between two changes of lists, such as resources that were listed.
const BATCH: u64 = 10;

/// The state that was told last of one thing that can flap, and when it will be told again.
#[derive(Default)]
struct Told {
    level: Level,
    /// The kinds of the findings, one bit for each.
    kinds: u8,
    /// Since when the state is another one that is no rise.
    calm_since: Option<u64>,
    /// Whether a fall was told.
    has_fallen: bool,
    relapses: u32,
    /// The last second in which something was told.
    at: u64,
}

impl Told {
    /// Takes the state in a second. Returns the level that was told before if the change is to be
    /// told. `calm` is the time that the first fall has to last.
    fn update(&mut self, t: u64, level: Level, kinds: u8, calm: u64) -> Option<Level> {
        let is_rise = level > self.level || kinds & !self.kinds != 0;
        if is_rise {
            if self.has_fallen {
                self.relapses = (self.relapses + 1).min(MAX_DOUBLINGS);
            }
            // Two kinds that take turns are no rise again and again.
            self.kinds |= kinds;
        } else if (level, kinds) == (self.level, self.kinds) {
            self.calm_since = None;
            return None;
        } else {
            let since = *self.calm_since.get_or_insert(t);
            let lasts = if self.relapses == 0 { calm } else { CALM << self.relapses };
            if t.saturating_sub(since) < lasts {
                return None;
            }
            self.kinds = kinds;
            self.has_fallen = true;
        }
        self.calm_since = None;
        self.at = t;
        let was = std::mem::replace(&mut self.level, level);
        // A fall to fewer kinds of the same level is known by the findings.
        Some(was)
    }

    fn is_over(&self, t: u64) -> bool {
        self.level == Level::Quiet && t.saturating_sub(self.at) >= FORGIVEN
    }
}

/// A resource with its contexts, or the name of a breaker without a resource.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Family {
    Resource(u64),
    Name(Box<str>),
}

/// The trouble of a resource and its contexts in one second.
struct Trouble {
    level: Level,
    kinds: u8,
    /// The verdict with that level: of the resource itself, if it has it.
    verdict: Verdict,
}

impl Trouble {
    const fn state(&self) -> (Level, u8) {
        (self.level, self.kinds)
    }
}

/// Names that are told together.
#[derive(Default)]
struct Batch {
    first: String,
    count: u64,
    told: Option<u64>,
}

impl Batch {
    fn add(&mut self, name: &str) {
        if self.count == 0 {
            name.clone_into(&mut self.first);
        }
        self.count += 1;
    }

    fn take(&mut self, t: u64) -> Option<(String, u64)> {
        let is_time = self.told.is_none_or(|told| t.saturating_sub(told) >= BATCH);
        if self.count == 0 || !is_time {
            return None;
        }
        self.told = Some(t);
        Some((std::mem::take(&mut self.first), std::mem::take(&mut self.count)))
    }
}

/// The states of the processes of a fleet that are told.
const PROCESS_STATES: [&str; 4] = ["lost", "gone", "left", "live"];

/// Finds the changes, second by second.
pub(super) struct Watch {
    /// Since when the seconds are known without a gap, and the breakers. What is found then may
    /// have begun before.
    since: Option<u64>,
    breakers_since: Option<u64>,
    /// The second in which the page was made.
    started: u64,
    families: HashMap<Family, Told, RandomState>,
    breakers: HashMap<(Box<str>, FindingKind, u64), Told, RandomState>,
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
            // Of one that has left or was lost, it was told.
            if !is_listed && matches!(state, FleetProcessState::Live | FleetProcessState::Unknown) {
                gone.add(name);
            }
        }
    }

    /// Takes the verdicts of a second, and adds what has changed. Returns how many resources in
    /// trouble there are of each level. `is_newest` tells whether the breakers were read with this
    /// second. For an earlier one, those of the reading before are told.
    pub(super) fn second(
        &mut self,
        t: u64,
        nodes: &Nodes,
        verdicts: &[Verdict],
        (breakers, is_newest): (&[Breaker], bool),
        changes: &mut Vec<Change>,
    ) -> Levels {
        self.since.get_or_insert(t);
        if is_newest {
            self.breakers_since.get_or_insert(t);
        }
        let troubles = troubles(nodes, verdicts, breakers);
        let mut levels = Levels::default();
        for trouble in troubles.values() {
            *levels.of_mut(trouble.level) += 1;
        }
        let mut told = if is_newest { self.told_of_breakers(t, breakers) } else { Vec::new() };
        let mut found = self.told_of_families(t, nodes, troubles, &mut told);
        found.extend(told.into_iter().map(|it| {
            let Breaker { name, state, cause, level, .. } = it.clone();
            (level, ChangeKind::Breaker { name: name.into(), level, state, cause })
        }));
        add_named(t, found, changes);
        self.add_batches(t, changes);
        levels
    }

    /// Forgets what was known before a gap.
    pub(super) fn restart(&mut self) {
        (self.since, self.breakers_since) = (None, None);
    }

    fn told_of_breakers<'a>(&mut self, t: u64, breakers: &'a [Breaker]) -> Vec<&'a Breaker> {
        let mut told = Vec::new();
        for breaker in breakers {
            let key = (breaker.name.clone(), breaker.kind, breaker.index);
            let known = self.breakers.entry(key).or_default();
            // The first steps back of a breaker are told at once.
            if known.update(t, breaker.level, 0, 0).is_some() {
                told.push(breaker);
            }
            if known.is_over(t) {
                known.has_fallen = false;
                known.relapses = 0;
            }
        }
        told
    }

    /// Returns the changes of resources, and takes the breakers that are told with them.
    fn told_of_families(
        &mut self,
        t: u64,
        nodes: &Nodes,
        mut troubles: HashMap<Family, Trouble, RandomState>,
        breakers: &mut Vec<&Breaker>,
    ) -> Vec<(Level, ChangeKind)> {
        let mut new = Vec::new();
        for family in troubles.keys().filter(|it| !self.families.contains_key(it)) {
            new.push(family.clone());
        }
        self.families.extend(new.into_iter().map(|family| (family, Told::default())));
        let begun = (self.may_have_begun(t), self.breakers_since == Some(t) && t > self.started);
        let mut found = Vec::new();
        self.families.retain(|family, told| {
            let trouble = troubles.remove(family);
            let node = match family {
                Family::Resource(id) => nodes.get(*id),
                Family::Name(_) => None,
            };
            // That a resource is gone is told.
            if matches!(family, Family::Resource(_)) && node.is_none_or(Node::is_gone) {
                return trouble.is_some();
            }
            let (level, kinds) = trouble.as_ref().map_or_else(Default::default, Trouble::state);
            if let Some(was) = told.update(t, level, kinds, CALM) {
                let name = match family {
                    Family::Name(name) => name,
                    Family::Resource(_) => node.map_or("", Node::name),
                };
                let breaker = breakers.iter().position(|it| *it.name == *name);
                let breaker = breaker.map(|it| breakers.remove(it).state.clone());
                let findings = trouble.as_ref().map_or(&[][..], |it| &it.verdict.findings);
                let of_breaker = findings.first().is_some_and(Finding::is_of_breaker);
                let or_before = level > Level::Quiet && if of_breaker { begun.1 } else { begun.0 };
                let context = trouble.as_ref().and_then(|it| nodes.get(it.verdict.id)?.context());
                found.push((
                    level,
                    ChangeKind::Trouble {
                        name: name.to_owned(),
                        context: context.map(Into::into),
                        was,
                        level,
                        findings: findings.to_vec(),
                        breaker,
                        or_before,
                    },
                ));
            }
            !told.is_over(t)
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
            changes.push(Change { t, kind: ChangeKind::Listed { name, count } });
        }
        if let Some((name, count)) = self.gone.take(t) {
            changes.push(Change { t, kind: ChangeKind::Gone { name, count } });
        }
        for (state, batch) in PROCESS_STATES.into_iter().zip(&mut self.process_batches) {
            let Some((name, count)) = batch.take(t) else { continue };
            changes
                .push(Change { t, kind: ChangeKind::Process { name, count, state: state.into() } });
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
    let level = verdict.level();
    let kinds = verdict.findings.iter().fold(0, |kinds, it| kinds | bit_of(it));
    match troubles.entry(family) {
        Entry::Vacant(entry) => {
            entry.insert(Trouble { level, kinds, verdict: verdict.clone() });
        }
        Entry::Occupied(mut entry) => {
            let known = entry.get_mut();
            known.kinds |= kinds;
            if level > known.level || (level == known.level && is_parent) {
                known.level = level;
                known.verdict = verdict.clone();
            }
        }
    }
}

/// Returns the bit of a kind. A breaker has none: its own state is told.
const fn bit_of(finding: &Finding) -> u8 {
    match finding.kind {
        FindingKind::Failures => 1,
        FindingKind::Refusals => 2,
        FindingKind::Times => 4,
        _ => 0,
    }
}

fn name_of(kind: &ChangeKind) -> &str {
    match kind {
        ChangeKind::Trouble { name, .. } | ChangeKind::Breaker { name, .. } => name,
        _ => "",
    }
}

/// Adds the changes of one second, the worst first: some by name, the others by their number.
fn add_named(t: u64, mut found: Vec<(Level, ChangeKind)>, changes: &mut Vec<Change>) {
    found.sort_by(|(level, kind), (other, of_other)| {
        other.cmp(level).then_with(|| name_of(kind).cmp(name_of(of_other)))
    });
    let mut levels = Levels::default();
    let excess = found.split_off(found.len().min(NAMED));
    for (level, _) in &excess {
        *levels.of_mut(*level) += 1;
    }
    changes.extend(found.into_iter().map(|(_, kind)| Change { t, kind }));
    if levels != Levels::default() {
        changes.push(Change { t, kind: ChangeKind::More { levels } });
    }
}
