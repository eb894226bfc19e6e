//! The changes of the last ten minutes, for viewers that join later.

use std::collections::VecDeque;

use crate::format::{Change, ChangeKind};

/// For how many seconds a change is kept.
const KEPT: u64 = 600;
/// The most changes that are kept: the oldest is dropped. Each has one name and one context.
const MAX: usize = 512;

/// The changes that are kept. They stay after the task has ended, for the next viewer.
#[derive(Default)]
pub(super) struct ChangeLog {
    changes: VecDeque<Change>,
    /// The first second that was not read; 0 before the first reading.
    end: u64,
}

impl ChangeLog {
    /// Adds the changes of the seconds from `first` to before `end`. Returns those that are new: a
    /// task that has just begun reads the seconds again that the task before has read.
    pub(super) fn extend(&mut self, first: u64, end: u64, changes: Vec<Change>) -> Vec<Change> {
        let known = self.end;
        let is_gap = known > 0 && first > known;
        let gap = is_gap.then_some(Change { t: first, kind: ChangeKind::Unread { from: known } });
        let new = changes.into_iter().filter(|it| it.t >= known);
        let new: Vec<_> = gap.into_iter().chain(new).collect();
        self.end = known.max(end);
        self.changes.extend(new.iter().cloned());
        let oldest = self.end.saturating_sub(KEPT);
        let excess = self.changes.len().saturating_sub(MAX);
        let old = self.changes.iter().take_while(|it| it.t < oldest).count();
        self.changes.drain(..excess.max(old));
        new
    }

    /// Returns the changes that were found after a second.
    pub(super) fn after(&self, since: Option<u64>) -> Vec<Change> {
        let is_new = |it: &&Change| since.is_none_or(|since| it.t > since);
        self.changes.iter().filter(is_new).cloned().collect()
    }
}
