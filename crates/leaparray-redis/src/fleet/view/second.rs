//! One second of the fleet.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::super::ProcessId;
use super::super::counts::FleetCounts;
use super::super::names::ResourceKey;
use super::super::second::ProcessSecond;

/// The part of a process in a second.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// The process has delivered nothing of it, and will not.
    Missing,
    /// Names of its rows are not known yet.
    Unnamed(ProcessSecond),
    /// The sum of its rows. They are in the sums of the second.
    Added(FleetCounts),
}

/// One second of the fleet.
#[derive(Clone, Debug)]
pub(super) struct SecondOfFleet {
    second: u64,
    parts: HashMap<ProcessId, Part>,
    /// The processes with rows whose names are not known.
    unnamed: BTreeSet<ProcessId>,
    /// Whether all was read that the last survey had of it.
    is_read: bool,
    /// The sum of each resource, and the number of processes that it has.
    resources: HashMap<ResourceKey, (FleetCounts, u64)>,
    left_out: FleetCounts,
    left_out_count: u64,
    left_out_names: Vec<ResourceKey>,
    /// Whether it was final before the last survey.
    was_final: bool,
}

impl SecondOfFleet {
    pub(super) fn new(second: u64) -> Self {
        Self {
            second,
            parts: HashMap::new(),
            unnamed: BTreeSet::new(),
            is_read: false,
            resources: HashMap::new(),
            left_out: FleetCounts::new(second),
            left_out_count: 0,
            left_out_names: Vec::new(),
            was_final: false,
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

    pub(super) fn has(&self, process: ProcessId) -> bool {
        self.parts.contains_key(&process)
    }

    pub(super) fn part(&self, process: ProcessId) -> Option<&Part> {
        self.parts.get(&process)
    }

    pub(super) const fn is_read(&self) -> bool {
        self.is_read
    }

    pub(super) const fn set_read(&mut self, is_read: bool) {
        self.is_read = is_read;
    }

    /// Returns the first process with rows whose names are not known.
    pub(super) fn unnamed(&self) -> Option<ProcessId> {
        self.unnamed.first().copied()
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
    pub(super) fn name(&mut self, process: ProcessId, names: &[ResourceKey]) {
        let Some(part @ Part::Unnamed(_)) = self.parts.get_mut(&process) else { return };
        let Part::Unnamed(second) = part else { return };
        let left_out = second.left_out.iter().flat_map(|it| it.names.iter().copied());
        let mut used = second.rows.iter().map(|it| it.name).chain(left_out);
        if used.any(|it| it as usize >= names.len()) {
            return;
        }
        let mut sum = FleetCounts::new(self.second);
        for row in &second.rows {
            sum.add(&row.counts);
            let name = &names[row.name as usize];
            if let Some((counts, processes)) = self.resources.get_mut(name) {
                counts.add(&row.counts);
                *processes += 1;
            } else {
                self.resources.insert(name.clone(), (row.counts.clone(), 1));
            }
        }
        if let Some(it) = &second.left_out {
            sum.add(&it.sum);
            self.left_out.add(&it.sum);
            self.left_out_count += it.count;
            for name in &it.names {
                let name = &names[*name as usize];
                if !self.left_out_names.contains(name) && self.left_out_names.len() < 256 {
                    self.left_out_names.push(name.clone());
                }
            }
        }
        *part = Part::Added(sum);
        self.unnamed.remove(&process);
    }

    pub(super) const fn resources(&self) -> &HashMap<ResourceKey, (FleetCounts, u64)> {
        &self.resources
    }

    /// Returns the sum of the resources without a row, how often there was one, and some of their names.
    pub(super) fn left_out(&self) -> (&FleetCounts, u64, &[ResourceKey]) {
        (&self.left_out, self.left_out_count, &self.left_out_names)
    }
}
