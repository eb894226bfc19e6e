//! The fleet: all processes of a service together.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::direction::Direction;
use super::events::EventTotals;
use super::positional::positional;
use super::row::Counts;

/// The fleet as the server knew it when it was asked, once a second: see
/// [`Page::fleet`](crate::Page::fleet).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "fleet")]
#[non_exhaustive]
pub struct FleetUpdate {
    /// When the fleet was asked for, in seconds since the Unix epoch by the server's clock.
    pub now: f64,
    /// The fleet; `None` if the server has no figures of it now.
    #[serde(default)]
    pub fleet: Option<Fleet>,
}

/// All processes of a service together, as one of them reads them from a server that all of them
/// report to: plain data, with public fields that the caller sets.
///
/// ```
/// use leaparray::EventCounts;
/// use leaparray::MetricEvent::{Pass, Success};
/// use leaparray_web::format::{
///     Counts, Fleet, FleetProcess, FleetProcessRow, FleetProcessState, FleetResourceRow,
///     FleetStanding, FleetSum,
/// };
///
/// let mut counts = Counts::default();
/// counts.events = EventCounts::from([(Pass, 7), (Success, 7)]);
///
/// let mut second = FleetSum::new(60..61, FleetStanding::Final);
/// (second.present, second.expected) = (1, 2);
/// second.total = counts.clone();
/// second.resources.push(FleetResourceRow::new("GET /orders", counts.clone()));
/// let mut row = FleetProcessRow::new("00000000000000ff", counts);
/// row.present = 1;
/// second.processes.push(row);
///
/// let mut fleet = Fleet::new("orders");
/// fleet.server = "connected".into();
/// fleet.newest_final = Some(60);
/// fleet.last_second = Some(second);
/// fleet.processes.push(FleetProcess::new(
///     "00000000000000ff",
///     "web-1",
///     FleetProcessState::Live,
/// ));
/// fleet.processes.push(FleetProcess::new(
///     "0000000000000100",
///     "web-2",
///     FleetProcessState::Lost,
/// ));
///
/// let json = serde_json::to_string(&fleet)?;
/// assert_eq!(serde_json::from_str::<Fleet>(&json)?, fleet);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fleet {
    /// The name of the fleet.
    pub name: String,
    /// The state of the connection to the server of the fleet, in words, such as `connected`.
    pub server: String,
    /// The newest second that is final: every live process has delivered it. `None` if there is
    /// none yet. A later second is not final, whatever its [standing](FleetSum::standing) says.
    pub newest_final: Option<u64>,
    /// The last second; `None` if there is none yet.
    pub last_second: Option<FleetSum>,
    /// The last minute; `None` if there is none yet.
    pub last_minute: Option<FleetSum>,
    /// The processes.
    pub processes: Vec<FleetProcess>,
    /// How many records and seconds of processes could not be read so far: they are of another
    /// version of the format, or damaged. If it is not 0, the windows may lack what was in them.
    pub unreadable: u64,
}

impl Fleet {
    /// Creates a fleet of which nothing but the name is known.
    ///
    /// ```
    /// use leaparray_web::format::Fleet;
    ///
    /// let fleet = Fleet::new("orders");
    /// assert_eq!((fleet.name.as_str(), fleet.newest_final), ("orders", None));
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// Some seconds of a [`Fleet`], added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FleetSum {
    /// The number of the first second since the Unix epoch.
    pub start: u64,
    /// The number of the first second after the window.
    pub end: u64,
    /// How complete the least complete second is.
    pub standing: FleetStanding,
    /// The number of processes of which all seconds are in the sums.
    pub present: u64,
    /// The number of processes that had a second.
    pub expected: u64,
    /// The sum of all resources in all processes.
    pub total: Counts,
    /// The refused requests of the total by reason, in the order of [`reasons`](super::reasons);
    /// empty if there are none.
    pub refusals: Vec<u64>,
    /// The resources, and their contexts.
    pub resources: Vec<FleetResourceRow>,
    /// The processes that had a second.
    pub processes: Vec<FleetProcessRow>,
    /// The sum of what is in no row of a resource, because a process had no room for the row. It is
    /// in the total, and in the row of the process.
    pub left_out: Counts,
    /// How often that happened: once for each resource, process and second. The number of resources
    /// is not known.
    pub left_out_rows: u64,
    /// How often of these the name of the resource is not known either. If it is not 0, any row may
    /// lack requests and response times.
    pub left_out_unnamed: u64,
}

impl FleetSum {
    /// Creates a window without counts.
    ///
    /// ```
    /// use leaparray_web::format::{FleetStanding, FleetSum};
    ///
    /// let minute = FleetSum::new(0..60, FleetStanding::Closed);
    /// assert_eq!((minute.start, minute.end, minute.present), (0, 60, 0));
    /// ```
    #[must_use]
    pub fn new(seconds: Range<u64>, standing: FleetStanding) -> Self {
        Self { start: seconds.start, end: seconds.end, standing, ..Self::default() }
    }
}

/// How complete a second of a fleet is.
///
/// ```
/// use leaparray_web::format::FleetStanding;
///
/// assert_eq!(serde_json::to_string(&FleetStanding::Waiting)?, r#""waiting""#);
/// assert!(FleetStanding::Closed.is_final() && !FleetStanding::Waiting.is_final());
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FleetStanding {
    /// A live process has not delivered it yet.
    Waiting,
    /// Every live process has delivered it. A lost process may still do so.
    Final,
    /// Nothing can change any more.
    Closed,
    /// A standing that this version does not know. It does not count as final.
    #[default]
    #[serde(other)]
    Unknown,
}

impl FleetStanding {
    /// Returns whether every live process has delivered the second.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Final | Self::Closed)
    }
}

positional! {
    /// A resource, or one of its contexts, in a [`FleetSum`]. Serialized as an array in this
    /// order.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FleetResourceRow {
        /// The name of the resource.
        pub name: String,
        /// The name of the context; `None` for the requests without a context.
        pub context: Option<String>,
        /// The direction.
        pub direction: Direction,
        /// The number of processes that have the resource; 0 if it is not known.
        pub processes: u64,
        /// The sum of all processes.
        pub counts: Counts,
        /// The refused requests by reason, in the order of [`reasons`](super::reasons); empty if
        /// there are none.
        pub refusals: Vec<u64>,
        /// How often a process had no room for a row of the resource in one of the seconds. If it
        /// is not 0, the counts are lower bounds, and the response times are those of the other
        /// processes and seconds.
        pub left_out: u64,
    }
}

impl FleetResourceRow {
    /// Creates the row of a resource without a context, for calls to the service.
    ///
    /// ```
    /// use leaparray_web::format::{Counts, Direction, FleetResourceRow};
    ///
    /// let row = FleetResourceRow::new("GET /orders", Counts::default());
    /// assert_eq!((row.context, row.direction, row.processes), (None, Direction::In, 0));
    /// assert_eq!((row.refusals.len(), row.left_out), (0, 0));
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, counts: Counts) -> Self {
        Self { name: name.into(), counts, ..Self::default() }
    }
}

positional! {
    /// A process in a [`FleetSum`]. Serialized as an array in this order.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FleetProcessRow {
        /// The id of the process: see [`FleetProcess`].
        pub id: String,
        /// The number of its seconds that are in the sums.
        pub present: u64,
        /// The number of its seconds that are missing, and are not waited for.
        pub missing: u64,
        /// The number of its seconds that are still to come.
        pub waiting: u64,
        /// The sum of its resources.
        pub counts: Counts,
    }
}

impl FleetProcessRow {
    /// Creates the row of a process with no second.
    ///
    /// ```
    /// use leaparray_web::format::{Counts, FleetProcessRow};
    ///
    /// let row = FleetProcessRow::new("00000000000000ff", Counts::default());
    /// assert_eq!((row.present, row.missing, row.waiting), (0, 0, 0));
    /// ```
    #[must_use]
    pub fn new(id: impl Into<String>, counts: Counts) -> Self {
        Self { id: id.into(), counts, ..Self::default() }
    }
}

positional! {
    /// A process of a [`Fleet`]. Serialized as an array in this order.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FleetProcess {
        /// The id, which no other process of the fleet has.
        pub id: String,
        /// The name, which several processes may have.
        pub name: String,
        /// The state of the process.
        pub state: FleetProcessState,
        /// Where everything is that it has recorded.
        pub ledger: FleetLedger,
    }
}

impl FleetProcess {
    /// Creates a process that has recorded nothing.
    ///
    /// ```
    /// use leaparray_web::format::{FleetProcess, FleetProcessState};
    ///
    /// let process = FleetProcess::new("00000000000000ff", "web-1", FleetProcessState::Live);
    /// assert!(process.ledger.lifetime.counts.is_zero());
    /// ```
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, state: FleetProcessState) -> Self {
        Self { id: id.into(), name: name.into(), state, ..Self::default() }
    }
}

/// The state of a process of a fleet.
///
/// ```
/// use leaparray_web::format::FleetProcessState;
///
/// assert_eq!(
///     serde_json::from_str::<FleetProcessState>(r#""lost""#)?,
///     FleetProcessState::Lost
/// );
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FleetProcessState {
    /// It delivers.
    Live,
    /// It was closed, and has delivered everything.
    Left,
    /// It has stopped delivering without being closed.
    Lost,
    /// A state that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

positional! {
    /// Where everything is that a process of a fleet has recorded: `lifetime` is the sum of the
    /// five others. Serialized as an array in this order.
    ///
    /// ```
    /// use leaparray::MetricEvent;
    /// use leaparray_web::format::FleetLedger;
    ///
    /// let json = "[[5,4,1,0,0,0], [1,1,0,0,0,0], [0,0,0,0,0,0],
    ///     [2,2,0,0,0,1], [1,0,0,0,1,0], [9,7,1,0,1,1]]";
    /// let ledger: FleetLedger = serde_json::from_str(json)?;
    /// let FleetLedger { delivered, missed, late, waiting, unfinished, lifetime, .. } = ledger;
    /// let parts = [delivered, missed, late, waiting, unfinished];
    /// let passes = parts.iter().map(|it| it.counts[MetricEvent::Pass]);
    /// assert_eq!(passes.sum::<u64>(), lifetime.counts[MetricEvent::Pass]);
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FleetLedger {
        /// The counts in delivered seconds.
        pub delivered: EventTotals,
        /// The counts in seconds that will not be delivered.
        pub missed: EventTotals,
        /// The counts recorded after their second had been read.
        pub late: EventTotals,
        /// The counts in seconds that will be delivered.
        pub waiting: EventTotals,
        /// The counts in unfinished seconds.
        pub unfinished: EventTotals,
        /// All that was recorded.
        pub lifetime: EventTotals,
    }
}
