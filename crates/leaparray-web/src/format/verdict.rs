//! Which resources are in trouble, and why.

use serde::{Deserialize, Serialize};

use super::positional::positional;

/// How a resource or a context is doing.
///
/// ```
/// use leaparray_web::format::Level;
///
/// assert!(Level::Failing > Level::Strained && Level::Strained > Level::Quiet);
/// assert_eq!(serde_json::to_string(&Level::Failing)?, r#""failing""#);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Level {
    /// No trouble is found.
    #[default]
    Quiet,
    /// Some requests fail or are refused, or they take longer than before.
    Strained,
    /// Many requests fail, most are refused, or a breaker is open.
    Failing,
}

impl Level {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) const fn is_quiet(&self) -> bool {
        matches!(self, Self::Quiet)
    }
}

/// The subject of a [`Finding`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FindingKind {
    /// Requests failed: `part` of `whole` that ended in 10 s.
    Failures,
    /// Requests were refused: `part` of `whole` that asked in 10 s.
    Refusals,
    /// Response times are longer than before: p99 of the last 10 s is `part` nanoseconds, and that
    /// of the 45 s before they became longer was `whole`. It stays until p99 is below half of the
    /// thresholds, or the resource has no request for a minute.
    Times,
    /// A circuit breaker is open or half-open: among the circuit breakers with the name of the
    /// resource, the one with the index `part`, in the order of the controllers.
    Circuit,
    /// An adaptive breaker drops requests: `part` is its index, as with `Circuit`.
    Drop,
    /// A kind that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

positional! {
    /// One reason why a resource is in trouble. Serialized as an array in this order.
    ///
    /// ```
    /// use leaparray_web::format::{Finding, FindingKind, Level};
    ///
    /// let finding: Finding = serde_json::from_str(r#"["refusals","strained",36,900,3]"#)?;
    /// assert_eq!((finding.kind, finding.level), (FindingKind::Refusals, Level::Strained));
    /// assert_eq!((finding.part, finding.whole, finding.reason), (36, 900, Some(3)));
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Finding {
        /// The subject.
        pub kind: FindingKind,
        /// The level that it stands for.
        pub level: Level,
        /// See [`FindingKind`].
        pub part: u64,
        /// See [`FindingKind`].
        pub whole: u64,
        /// Of refusals, the most frequent reason: its index in [`reasons`](super::reasons); `None`
        /// if no reason is known.
        pub reason: Option<u64>,
    }
}

positional! {
    /// The findings about one node that is in trouble. Serialized as an array in this order.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Verdict {
        /// The id of the node: see [`Listed`](super::Listed).
        pub id: u64,
        /// The findings, the worst one first: its level is the level of the node.
        pub findings: Vec<Finding>,
    }
}

impl Finding {
    /// Returns whether it is about a breaker.
    pub(crate) const fn is_of_breaker(&self) -> bool {
        matches!(self.kind, FindingKind::Circuit | FindingKind::Drop)
    }
}

impl Verdict {
    /// Returns the level of the node.
    #[must_use]
    pub fn level(&self) -> Level {
        self.findings.first().map_or(Level::Quiet, |it| it.level)
    }
}

positional! {
    /// How many resources there are of each level. A resource has the worst level of itself and its
    /// contexts. A limiter or breaker without a resource of its name is counted as one. Serialized
    /// as an array in this order.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Levels {
        /// The resources without trouble.
        pub quiet: u64,
        /// The strained resources.
        pub strained: u64,
        /// The failing resources.
        pub failing: u64,
    }
}

impl Levels {
    /// Returns the counter of a level.
    pub(crate) const fn of_mut(&mut self, level: Level) -> &mut u64 {
        match level {
            Level::Quiet => &mut self.quiet,
            Level::Strained => &mut self.strained,
            Level::Failing => &mut self.failing,
        }
    }
}
