//! The alert of a resource or a breaker: when it fires, and when it resolves.
//!
//! An alert has [conditions](Conditions): the levels that are reached, and the kinds of the
//! findings. It fires at once when a condition is met that is not firing. A condition keeps firing
//! for a while after it was last met, as with `keep_firing_for` of Prometheus. The alert resolves
//! to the conditions that are left, once these have the level of the newest second: a recovery
//! over several levels is one report. Each relapse doubles the time, so a flapping resource adds
//! few reports.

use crate::format::{Finding, FindingKind, Level};

/// For how many seconds a condition keeps firing, before the first relapse.
pub(super) const KEEP_FIRING: u64 = 10;
/// After this number of relapses, the time doubles no more: it is 160 s.
const MAX_DOUBLINGS: u32 = 4;
/// After this number of seconds without a report, the relapses are forgotten.
const RELAPSES_FORGOTTEN: u64 = 600;

const STRAINED: u8 = 1;
const FAILING: u8 = 2;
/// The number of conditions.
const COUNT: usize = 5;

/// A set of conditions, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions(u8);

impl Conditions {
    /// Returns the conditions of a level: it includes those of the levels below.
    pub(super) const fn of_level(level: Level) -> Self {
        Self(match level {
            Level::Quiet => 0,
            Level::Strained => STRAINED,
            Level::Failing => STRAINED | FAILING,
        })
    }

    /// Returns the conditions of findings, with the level of the worst one.
    pub(super) fn of(findings: &[Finding]) -> Self {
        findings.iter().fold(Self::default(), |all, it| {
            let kind = match it.kind {
                FindingKind::Failures => 4,
                FindingKind::Refusals => 8,
                FindingKind::Times => 16,
                // A breaker has an alert of its own.
                _ => 0,
            };
            Self(all.0 | kind | Self::of_level(it.level).0)
        })
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn level(self) -> Level {
        match self.0 {
            it if it & FAILING != 0 => Level::Failing,
            it if it & STRAINED != 0 => Level::Strained,
            _ => Level::Quiet,
        }
    }

    fn indices(self) -> impl Iterator<Item = usize> {
        (0..COUNT).filter(move |index| self.0 & (1 << index) != 0)
    }
}

/// A change of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// The level before.
    pub(super) was: Level,
    /// The level now.
    pub(super) level: Level,
    /// When it has resolved: the first second without the conditions that have ended, and whether
    /// it may have been before, in seconds that were not read. `None` if it fires.
    pub(super) resolved: Option<(u64, bool)>,
}

/// The alert of a resource with its contexts, or of a breaker.
#[derive(Debug, Default)]
pub(super) struct Alert {
    /// The conditions that were reported and keep firing.
    firing: Conditions,
    /// The last second in which each condition was met.
    met: [u64; COUNT],
    has_resolved: bool,
    relapses: u32,
    /// The second of the last report.
    reported_at: u64,
}

impl Alert {
    /// Takes the conditions of a second, and returns what has changed. Before the first relapse,
    /// conditions keep firing for `keep_firing` seconds. All seconds from `known` on were read: of
    /// the time before, it is not known for how long a condition was met.
    pub(super) fn update(
        &mut self,
        t: u64,
        now: Conditions,
        keep_firing: u64,
        known: u64,
    ) -> Option<Report> {
        now.indices().for_each(|it| self.met[it] = t);
        let was = self.firing.level();
        if !now.without(self.firing).is_empty() {
            if self.has_resolved {
                self.relapses = (self.relapses + 1).min(MAX_DOUBLINGS);
            }
            self.firing = self.firing.union(now);
            self.reported_at = t;
            return Some(Report { was, level: self.firing.level(), resolved: None });
        }
        let keep_firing =
            if self.relapses == 0 { keep_firing } else { KEEP_FIRING << self.relapses };
        let (mut ended, mut since) = (Conditions::default(), (0, false));
        for index in self.firing.without(now).indices() {
            let after = self.met[index] + 1;
            let from = (after.max(known), after < known);
            if t.saturating_sub(from.0) >= keep_firing {
                ended.0 |= 1 << index;
                since = since.max(from);
            }
        }
        let left = self.firing.without(ended);
        if ended.is_empty() || left.level() != now.level() {
            return None;
        }
        self.firing = left;
        self.has_resolved = true;
        self.reported_at = t;
        Some(Report { was, level: left.level(), resolved: Some(since) })
    }

    /// Returns whether nothing fires, and nothing was reported for so long that relapses no longer
    /// count.
    pub(super) const fn is_over(&self, t: u64) -> bool {
        self.firing.is_empty() && t.saturating_sub(self.reported_at) >= RELAPSES_FORGOTTEN
    }
}
