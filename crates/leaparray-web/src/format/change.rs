//! Changes, and the totals of a light stream.

use serde::{Deserialize, Serialize};

use super::verdict::{Finding, Level, Levels};

/// The changes that the server keeps, or those that were added to them.
///
/// The server keeps those of the last ten minutes, and at most 512. Changes are sent before the
/// seconds in which they were reported. A reader that resumes after a second misses none, and may
/// get some again, which it knows by [`Change::reported_at`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "changes")]
#[non_exhaustive]
pub struct Changes {
    /// The changes, the oldest first.
    pub changes: Vec<Change>,
}

/// A change of a resource, a breaker, or a process of a fleet.
///
/// ```
/// use leaparray_web::format::{Change, ChangeKind, Level};
///
/// let json = r#"{"t":1764039999,"kind":"trouble","name":"POST /pay","was":"quiet",
///     "level":"failing","findings":[["circuit","failing",0,0,null]],"breaker":"open"}"#;
/// let change: Change = serde_json::from_str(json)?;
/// let ChangeKind::Trouble { name, was, level, breaker, .. } = change.kind else {
///     panic!("it is about a resource")
/// };
/// assert_eq!((name.as_str(), was, level), ("POST /pay", Level::Quiet, Level::Failing));
/// assert_eq!(breaker.as_deref(), Some("open"));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// The number of the second of the change: the first one of the new state.
    pub t: u64,
    /// The number of the second in which the change was reported, if that was later: an alert
    /// resolves once its new state has lasted for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<u64>,
    /// What has changed.
    #[serde(flatten)]
    pub kind: ChangeKind,
}

impl Change {
    /// Returns the number of the second in which the change was reported. It never falls from one
    /// change to the next.
    ///
    /// ```
    /// use leaparray_web::format::Change;
    ///
    /// let mut change = Change::default();
    /// change.t = 1_764_039_999;
    /// assert_eq!(change.reported_at(), 1_764_039_999);
    /// change.reported = Some(1_764_040_009);
    /// assert_eq!(change.reported_at(), 1_764_040_009);
    /// ```
    #[must_use]
    pub fn reported_at(&self) -> u64 {
        self.reported.unwrap_or(self.t)
    }

    pub(crate) const fn new(t: u64, kind: ChangeKind) -> Self {
        Self { t, reported: None, kind }
    }
}

/// What has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ChangeKind {
    /// The alert of a resource. It fires at once, when the level rises or there are findings of
    /// another kind. It resolves once nothing of that was found for 10 s, and for twice as long
    /// after each relapse, up to 160 s.
    #[non_exhaustive]
    Trouble {
        /// The name of the resource.
        name: String,
        /// The context that the findings are about; `None` if they are about the resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// The level of the alert before.
        was: Level,
        /// The level of the alert now. Until it resolves, it can be higher than that of the
        /// findings.
        level: Level,
        /// The findings now, the worst one first.
        findings: Vec<Finding>,
        /// The state of a breaker of this name, if it has changed in the same second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        breaker: Option<String>,
        /// Whether it may have begun before: the server did not read the registry then.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        or_before: bool,
    },
    /// The state of a breaker, in a second in which its resource has no other change.
    #[non_exhaustive]
    Breaker {
        /// The name of the breaker.
        name: String,
        /// The meaning of the state for the resource.
        level: Level,
        /// The state now: `open`, `half-open`, `closed`, `drops` or `passes`.
        state: String,
        /// Why it has changed; `None` if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// The levels of further resources that have changed in the same second.
    #[non_exhaustive]
    More {
        /// How many have changed to each level.
        levels: Levels,
    },
    /// Resources were listed. Reported once in ten seconds at most.
    #[non_exhaustive]
    Listed {
        /// The name of the first one.
        name: String,
        /// How many.
        count: u64,
    },
    /// Resources were evicted or removed. Reported once in ten seconds at most.
    #[non_exhaustive]
    Gone {
        /// The name of the first one.
        name: String,
        /// How many.
        count: u64,
    },
    /// Processes of the fleet are in another state. Reported once in ten seconds at most for
    /// each state.
    #[non_exhaustive]
    Process {
        /// The name of the first one.
        name: String,
        /// How many.
        count: u64,
        /// The state: `live`, `left`, `lost`, or `gone` if the fleet lists it no longer.
        state: String,
    },
    /// The seconds before this one were not read.
    #[non_exhaustive]
    Unread {
        /// The first second that was not read.
        from: u64,
        /// Why.
        #[serde(default)]
        cause: UnreadCause,
    },
    /// Changes are missing, of which this second is the newest.
    #[non_exhaustive]
    Dropped {
        /// How many of the last ten minutes were dropped because there were more than 512. The
        /// server keeps those for longest that say that something fails. `None` if those of a
        /// reader that resumes are missing because they are older than ten minutes.
        count: Option<u64>,
    },
    /// A kind that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Why seconds were not read.
///
/// ```
/// use leaparray_web::format::{Change, ChangeKind, UnreadCause};
///
/// let json = r#"{"t":1764039999,"kind":"unread","from":1764039000,"cause":"no-viewer"}"#;
/// let change: Change = serde_json::from_str(json)?;
/// let ChangeKind::Unread { cause, .. } = change.kind else { panic!("it is a gap") };
/// assert_eq!(cause, UnreadCause::NoViewer);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UnreadCause {
    /// There was no viewer.
    NoViewer,
    /// There were viewers, and the process was suspended, had no processor, or its clock was set
    /// forward.
    Stalled,
    /// The code of the registry has panicked: see [`ByeReason::Failed`](super::ByeReason::Failed).
    Failed,
    /// A cause that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A second of a light stream, `/stream?only=totals`.
///
/// ```
/// use leaparray_web::format::{Message, Totals};
///
/// let json = r#"{"type":"totals","t":1764039999,"levels":[38,1,1]}"#;
/// let Some(Message::Totals(totals)) = Message::parse(json)? else {
///     panic!("its type is known")
/// };
/// assert_eq!((totals.levels.quiet, totals.levels.strained, totals.levels.failing), (38, 1, 1));
/// # Ok::<_, leaparray_web::format::ReadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "totals")]
#[non_exhaustive]
pub struct Totals {
    /// The number of the newest second.
    pub t: u64,
    /// How many resources there are of each level.
    pub levels: Levels,
}
