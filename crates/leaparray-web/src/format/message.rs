//! The messages of the stream.

use serde::{Deserialize, Serialize};

use super::change::{Changes, Totals};
use super::controller::Controller;
use super::detail::Detail;
use super::direction::Direction;
use super::fleet::FleetUpdate;
use super::positional::positional;
use super::row::{Counts, RefusedRow, Row};
use super::rules::RulesUpdate;
use super::verdict::{Levels, Verdict};

/// One message of the stream. It serializes as the message itself.
///
/// ```
/// use leaparray_web::format::{Bye, Message};
///
/// let json = r#"{"type":"bye","reason":"expired"}"#;
/// let message = Message::parse(json)?.expect("its type is known");
/// assert!(matches!(message, Message::Bye(Bye { .. })));
/// assert_eq!(serde_json::to_string(&message)?, json);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a reader has one message at a time")]
pub enum Message {
    /// The first message: the server.
    Hello(Hello),
    /// The second message: the nodes that are known.
    Resources(ResourceList),
    /// A complete second of all nodes.
    Second(Second),
    /// The details of the node that the reader asked for.
    Detail(Detail),
    /// The fleet, if the page has one.
    Fleet(Box<FleetUpdate>),
    /// The rules, if the page has them.
    Rules(Box<RulesUpdate>),
    /// What has changed.
    Changes(Changes),
    /// A second of a light stream.
    Totals(Totals),
    /// The last message: why the stream ends.
    Bye(Bye),
}

/// The first message of a stream: the server, and the version of the format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "hello")]
#[non_exhaustive]
pub struct Hello {
    /// The version of the format: [`VERSION`](super::VERSION).
    pub version: u32,
    /// The identity of the server's page. After a restart of the server, it is another one.
    pub instance: String,
    /// The name of the service.
    pub name: String,
    /// The name of the host.
    pub host: String,
    /// The number of the process.
    pub pid: u32,
    /// When the page was made, in seconds since the Unix epoch by the server's clock, as are all
    /// times.
    pub started: f64,
    /// When this message was made.
    pub now: f64,
    /// The number of seconds before now of which the server has messages.
    pub history: u32,
    /// Whether there will be seconds. A registry whose long window is too short, a second for
    /// example, has no complete one.
    pub has_seconds: bool,
    /// The names of the reasons of refusals, in the order of the counts in [`RefusedRow`].
    pub reasons: Vec<String>,
}

/// The second message of a stream: the nodes that are listed, or were listed during the last
/// minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "resources")]
#[non_exhaustive]
pub struct ResourceList {
    /// The nodes.
    pub resources: Vec<Listed>,
}

positional! {
    /// A node: a resource, or one of its contexts. Serialized as an array in this order.
    ///
    /// ```
    /// use leaparray_web::format::{Direction, Listed};
    ///
    /// let json = r#"[7,"GET /orders","web","in",null,"added later"]"#;
    /// let listed: Listed = serde_json::from_str(json)?;
    /// assert_eq!((listed.id, listed.context.as_deref()), (7, Some("web")));
    /// assert_eq!(listed.direction, Direction::In);
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Listed {
        /// The id, which no other node of the [instance](Hello::instance) has had.
        pub id: u64,
        /// The name of the resource.
        pub name: String,
        /// The name of the context; `None` for the requests without a context.
        pub context: Option<String>,
        /// The direction.
        pub direction: Direction,
        /// The number of the first second in which the node was no longer listed; `None` if it is
        /// listed.
        pub gone: Option<u64>,
    }
}

/// A complete second of all nodes. A second without a message is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "second")]
#[non_exhaustive]
pub struct Second {
    /// The number of the second since the Unix epoch.
    pub t: u64,
    /// The nodes that were listed since the message before. May repeat known ones.
    pub new: Vec<Listed>,
    /// The ids of the nodes that were evicted or removed since the message before. They may have
    /// rows in this second.
    pub gone: Vec<u64>,
    /// All nodes together. The quantiles are those of all requests.
    pub total: Counts,
    /// The nodes in which something was recorded in this second, and those with requests in flight.
    pub rows: Vec<Row>,
    /// The refused requests of this second by reason, of the nodes that have refused requests;
    /// `None` if it is not known. The reasons of a node add up to the refused requests of its row,
    /// or to less: some have no reason.
    /// They are read a moment after the end of the second, so refusals of that moment with other
    /// reasons may change the proportion. Of a node that was evicted or removed since the reading
    /// before, the reasons are not known: its row has the number of its refused requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Vec<RefusedRow>>,
    /// The states of the controllers when the second was read; `None` if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controllers: Option<Vec<Controller>>,
    /// Where every count is, as far as it was known when the second was read: see
    /// [`LedgerSums::age`]; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerSums>,
    /// The nodes in trouble, and why; `None` in a second of the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<Vec<Verdict>>,
    /// How many resources there are of each level; `None` in a second of the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
}

/// Where every count is: `recorded` is the sum of the four others. An event is a pass, a success,
/// an exception, a cancelled request or a refused one.
///
/// ```
/// use leaparray_web::format::LedgerSums;
///
/// let ledger: LedgerSums = serde_json::from_str(
///     r#"{"in_window":5,"expired":1,"late":0,"delisted":2,"recorded":8,"age":0}"#,
/// )?;
/// let LedgerSums { in_window, expired, late, delisted, recorded, .. } = ledger;
/// assert_eq!(in_window + expired + late + delisted, recorded);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LedgerSums {
    /// The events in the long windows of the nodes.
    pub in_window: u64,
    /// The events in buckets that the windows have left.
    pub expired: u64,
    /// The events that were recorded with a time whose bucket was replaced already.
    pub late: u64,
    /// The events of resources that are listed no longer.
    pub delisted: u64,
    /// All events.
    pub recorded: u64,
    /// The seconds since the oldest reading of a node in these sums: the ledgers of many nodes are
    /// read in turn.
    pub age: u64,
}

/// The last message of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "bye")]
#[non_exhaustive]
pub struct Bye {
    /// Why the stream ends.
    pub reason: ByeReason,
}

/// Why a stream ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ByeReason {
    /// The server ends.
    Closing,
    /// The reader did not take the messages in time.
    Slow,
    /// The stream has lived as long as a stream may. Connect again.
    Expired,
    /// The server could not read its registry, because its code has panicked. Wait before
    /// connecting again.
    Failed,
    /// A reason that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}
