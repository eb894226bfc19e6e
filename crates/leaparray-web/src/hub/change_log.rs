//! The changes of the last ten minutes, for viewers that join later.

use std::collections::{BTreeMap, VecDeque};

use crate::format::{Change, ChangeKind, Level, UnreadCause};

/// For how many seconds a change is kept.
const KEPT: u64 = 600;
/// The most changes that are kept. Each has one name and one context.
const MAX: usize = 512;

/// The changes that are kept. They stay after the task has ended, for the next viewer.
#[derive(Debug)]
pub(super) struct ChangeLog {
    /// By the second in which they were reported.
    changes: VecDeque<Change>,
    /// The first second that was not read.
    end: u64,
    /// The newest second with a change that was dropped for its age.
    expired: Option<u64>,
    /// How many changes of each of the kept seconds were dropped for the bound.
    dropped: BTreeMap<u64, u64>,
}

impl ChangeLog {
    /// Begins with the second in which the page was made.
    pub(super) const fn new(started: u64) -> Self {
        Self { changes: VecDeque::new(), end: started, expired: None, dropped: BTreeMap::new() }
    }

    /// Adds the changes of the seconds from `first` to before `end`. Returns those that are new: a
    /// task that has just begun reads the seconds again that the task before has read. If seconds
    /// before `first` were not read, `cause` is why.
    pub(super) fn extend(
        &mut self,
        first: u64,
        end: u64,
        cause: UnreadCause,
        changes: Vec<Change>,
    ) -> Vec<Change> {
        let known = self.end;
        let unread = ChangeKind::Unread { from: known, cause };
        let gap = (first > known).then(|| Change::new(first, unread));
        let new = changes.into_iter().filter(|it| it.reported_at() >= known);
        let new: Vec<_> = gap.into_iter().chain(new).collect();
        self.end = known.max(end);
        self.changes.extend(new.iter().cloned());
        self.drop_old();
        while self.changes.len() > MAX {
            self.drop_least();
        }
        new
    }

    fn drop_old(&mut self) {
        let oldest = self.end.saturating_sub(KEPT);
        while let Some(t) = self.changes.front().map(Change::reported_at).filter(|t| *t < oldest) {
            self.changes.pop_front();
            self.expired = Some(t);
        }
        self.dropped = self.dropped.split_off(&oldest);
    }

    /// Drops the oldest of the changes that say the least.
    fn drop_least(&mut self) {
        let least = (0..self.changes.len()).min_by_key(|&it| importance(&self.changes[it]));
        if let Some(change) = least.and_then(|it| self.changes.remove(it)) {
            *self.dropped.entry(change.reported_at()).or_default() += 1;
        }
    }

    /// Returns the changes that were found after a second, and which are missing among them.
    pub(super) fn after(&self, since: Option<u64>) -> Vec<Change> {
        let first = since.map_or(0, |since| since.saturating_add(1));
        let new = self.changes.iter().filter(|it| it.reported_at() >= first);
        let mut changes: Vec<_> = new.cloned().collect();
        let mut mark = |t, count| {
            let at = changes.partition_point(|it| it.reported_at() <= t);
            changes.insert(at, Change::new(t, ChangeKind::Dropped { count }));
        };
        if let Some((&t, _)) = self.dropped.range(first..).next_back() {
            mark(t, Some(self.dropped.range(first..).map(|(_, count)| count).sum()));
        }
        // A viewer without a second expects no more than those of ten minutes.
        if let Some(t) = self.expired.filter(|t| since.is_some() && *t >= first) {
            mark(t, None);
        }
        changes
    }
}

/// Returns the order in which changes are kept: those that begin an incident for longest.
const fn importance(change: &Change) -> u8 {
    match change.kind {
        // It resolves.
        _ if change.reported.is_some() => 0,
        ChangeKind::Trouble { level, .. } | ChangeKind::Breaker { level, .. } => match level {
            Level::Quiet => 0,
            Level::Strained => 2,
            Level::Failing => 3,
        },
        ChangeKind::Listed { .. } | ChangeKind::Gone { .. } => 1,
        _ => 3,
    }
}
