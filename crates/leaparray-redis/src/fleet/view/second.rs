//! One second of the fleet.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;

use super::super::ProcessId;
use super::super::codec::FormatError;
use super::super::counts::FleetCounts;
use super::super::names::PooledKey;
use super::super::second::{DecodedRow, DecodedSecond};
use super::sum::Sum;

/// The part of a process in a second.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// The process has delivered nothing of it, and will not.
    Missing,
    /// Names of its rows are not known yet.
    Unnamed(Box<DecodedSecond>),
    /// The sum of its rows. They are in the sums of the second.
    Added(Box<Sum>),
}

/// The sums of the resources, in a list: a map of them has room for twice as many.
#[derive(Clone, Debug, Default)]
pub(super) struct Resources {
    positions: HashMap<PooledKey, usize, RandomState>,
    sums: Vec<ResourceSum>,
}

impl Resources {
    pub(super) fn get(&self, key: &PooledKey) -> Option<&ResourceSum> {
        self.sums.get(*self.positions.get(key)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PooledKey, &ResourceSum)> {
        self.positions.iter().map(|(key, at)| (key, &self.sums[*at]))
    }

    /// Returns the sum of a resource, which is zero at first.
    fn get_mut(&mut self, key: &PooledKey) -> &mut ResourceSum {
        let at = self.positions.get(key).copied().unwrap_or_else(|| {
            let at = self.sums.len();
            self.positions.insert(key.clone(), at);
            self.sums.push(ResourceSum::default());
            at
        });
        &mut self.sums[at]
    }
}

/// The sum of a resource.
#[derive(Clone, Debug, Default)]
pub(super) struct ResourceSum {
    pub(super) sum: Sum,
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
    parts: HashMap<ProcessId, Part, RandomState>,
    /// The processes with rows whose names are not known.
    unnamed: BTreeSet<ProcessId>,
    /// The processes that had delivered it by the last survey, and of which it was not read.
    unread: BTreeSet<ProcessId>,
    resources: Resources,
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
            parts: HashMap::default(),
            unnamed: BTreeSet::new(),
            unread: BTreeSet::new(),
            resources: Resources::default(),
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

    /// Adds what was read of a process, once. `names` are those of its rows, as far as they are
    /// known; `None` if the process is not known.
    pub(super) fn insert(
        &mut self,
        process: ProcessId,
        read: Result<Option<&mut DecodedSecond>, FormatError>,
        names: Option<&[PooledKey]>,
    ) -> Result<(), FormatError> {
        if self.parts.contains_key(&process) {
            return Ok(());
        }
        let part = match read {
            Ok(Some(read)) => self.add(read, names),
            Ok(None) => Ok(Part::Missing),
            Err(error) => Err(error),
        };
        let result = part.as_ref().map_or_else(|error| Err(*error), |_| Ok(()));
        let part = part.unwrap_or(Part::Missing);
        if matches!(part, Part::Unnamed(_)) {
            self.unnamed.insert(process);
        }
        self.parts.insert(process, part);
        result
    }

    /// Adds the rows of a process to the sums, if all names are known by now.
    pub(super) fn name(&mut self, process: ProcessId, names: &[PooledKey]) {
        let Some(Part::Unnamed(read)) = self.parts.get_mut(&process) else { return };
        if names.len() < read.names() as usize {
            return;
        }
        let mut read = std::mem::take(&mut **read);
        self.unnamed.remove(&process);
        // Checked when it was read.
        if let Ok(part) = self.add(&mut read, Some(names)) {
            self.parts.insert(process, part);
        }
    }

    /// Adds the rows of a process to the sums, if all names are known.
    fn add(
        &mut self,
        read: &mut DecodedSecond,
        names: Option<&[PooledKey]>,
    ) -> Result<Part, FormatError> {
        let rows = read.rows.checked()?;
        let Some(names) = names.filter(|it| it.len() >= read.names() as usize) else {
            return Ok(Part::Unnamed(read.take().into()));
        };
        let sum = Sum::of(read.sum.clone(), rows.of_sum(&read.sum));
        for DecodedRow { name, counts, histogram } in rows.iter() {
            let it = self.resources.get_mut(&names[name as usize]);
            it.sum.add(counts, histogram);
            it.processes += 1;
        }
        if let Some(it) = read.left_out.take() {
            self.left_out.counts.add(&it.sum);
            let LeftOutSum { rows, unnamed, .. } = &mut self.left_out;
            *rows = rows.saturating_add(it.count);
            *unnamed = unnamed.saturating_add(it.count - it.names.len() as u64);
            for name in it.names {
                self.resources.get_mut(&names[name as usize]).left_out += 1;
            }
        }
        Ok(Part::Added(sum.into()))
    }

    pub(super) const fn resources(&self) -> &Resources {
        &self.resources
    }

    pub(super) const fn left_out(&self) -> &LeftOutSum {
        &self.left_out
    }
}
