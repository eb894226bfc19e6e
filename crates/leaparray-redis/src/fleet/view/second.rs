//! One second of the fleet.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::super::ProcessId;
use super::super::counts::FleetCounts;
use super::super::names::PooledKey;
use super::super::second::ProcessSecond;

/// The part of a process in a second.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// The process has delivered nothing of it, and will not.
    Missing,
    /// Names of its rows are not known yet.
    Unnamed(Box<ProcessSecond>),
    /// The sum of its rows. They are in the sums of the second.
    Added(Box<FleetCounts>),
}

/// The sum of a resource.
#[derive(Clone, Debug)]
pub(super) struct ResourceSum {
    pub(super) counts: FleetCounts,
    /// The number of processes with a row.
    pub(super) processes: u64,
    /// The number of processes that have left it out.
    pub(super) left_out: u64,
}

/// The sum of the resources without a row.
#[derive(Clone, Debug)]
pub(super) struct LeftOutSum {
    pub(super) counts: FleetCounts,
    /// How often a process had no row for a resource.
    pub(super) rows: u64,
    /// How often of these the process has not said for which resource.
    pub(super) unnamed: u64,
}

/// One second of the fleet.
#[derive(Clone, Debug)]
pub(super) struct SecondOfFleet {
    second: u64,
    parts: HashMap<ProcessId, Part>,
    /// The processes with rows whose names are not known.
    unnamed: BTreeSet<ProcessId>,
    /// The processes that had delivered it by the last survey, and of which it was not read.
    unread: BTreeSet<ProcessId>,
    resources: HashMap<PooledKey, ResourceSum>,
    left_out: LeftOutSum,
    /// Whether it was final before the last survey.
    was_final: bool,
    /// Whether it was closed before the last survey.
    was_closed: bool,
}

impl SecondOfFleet {
    pub(super) fn new(second: u64) -> Self {
        Self {
            second,
            parts: HashMap::new(),
            unnamed: BTreeSet::new(),
            unread: BTreeSet::new(),
            resources: HashMap::new(),
            left_out: LeftOutSum { counts: FleetCounts::new(second), rows: 0, unnamed: 0 },
            was_final: false,
            was_closed: false,
        }
    }

    pub(super) const fn second(&self) -> u64 {
        self.second
    }

    pub(super) const fn was_final(&self) -> bool {
        self.was_final
    }

    pub(super) const fn set_final(&mut self) {
        self.was_final = true;
    }

    pub(super) const fn was_closed(&self) -> bool {
        self.was_closed
    }

    pub(super) const fn set_closed(&mut self) {
        self.was_closed = true;
    }

    pub(super) fn part(&self, process: ProcessId) -> Option<&Part> {
        self.parts.get(&process)
    }

    pub(super) const fn unread(&self) -> &BTreeSet<ProcessId> {
        &self.unread
    }

    /// Sets the processes that have delivered it. Those of which it was read are not read again.
    pub(super) fn set_delivered(&mut self, by: impl Iterator<Item = ProcessId>) {
        self.unread = by.filter(|it| !self.parts.contains_key(it)).collect();
    }

    /// Returns whether everything was added that had been delivered of it by the last survey. A
    /// process that was lost when the second was final may have come back, with a part to read.
    pub(super) fn is_read(&self) -> bool {
        self.unread.is_empty() && self.unnamed.is_empty()
    }

    pub(super) fn set_read(&mut self, processes: &[ProcessId]) {
        for it in processes {
            self.unread.remove(it);
        }
    }

    /// Returns the processes with rows whose names are not known, and the number of names that each
    /// needs.
    pub(super) fn unnamed(&self) -> impl Iterator<Item = (ProcessId, u32)> {
        self.unnamed.iter().filter_map(|process| match self.parts.get(process) {
            Some(Part::Unnamed(second)) => Some((*process, second.names())),
            _ => None,
        })
    }

    /// Adds what is known of a process, once.
    pub(super) fn insert(&mut self, process: ProcessId, part: Part) {
        if let Entry::Vacant(entry) = self.parts.entry(process) {
            if matches!(part, Part::Unnamed(_)) {
                self.unnamed.insert(process);
            }
            entry.insert(part);
        }
    }

    /// Adds the rows of a process to the sums, if all names are known.
    pub(super) fn name(&mut self, process: ProcessId, names: &[PooledKey]) {
        let Some(part @ Part::Unnamed(_)) = self.parts.get_mut(&process) else { return };
        let Part::Unnamed(second) = part else { return };
        if second.names() as usize > names.len() {
            return;
        }
        let ProcessSecond { rows, left_out, sum } = std::mem::take(&mut **second);
        *part = Part::Added(sum.into());
        self.unnamed.remove(&process);
        for row in rows {
            let key = &names[row.name as usize];
            if let Some(it) = self.resources.get_mut(key) {
                it.counts.add(&row.counts);
                it.processes += 1;
            } else {
                let sum = ResourceSum { counts: row.counts, processes: 1, left_out: 0 };
                self.resources.insert(key.clone(), sum);
            }
        }
        if let Some(it) = left_out {
            self.left_out.counts.add(&it.sum);
            let LeftOutSum { rows, unnamed, .. } = &mut self.left_out;
            *rows = rows.saturating_add(it.count);
            *unnamed = unnamed.saturating_add(it.count - it.names.len() as u64);
            for name in it.names {
                let counts = FleetCounts::new(self.second);
                let none = || ResourceSum { counts, processes: 0, left_out: 0 };
                let key = names[name as usize].clone();
                self.resources.entry(key).or_insert_with(none).left_out += 1;
            }
        }
    }

    pub(super) const fn resources(&self) -> &HashMap<PooledKey, ResourceSum> {
        &self.resources
    }

    pub(super) const fn left_out(&self) -> &LeftOutSum {
        &self.left_out
    }
}
