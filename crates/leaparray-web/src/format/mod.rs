//! The messages of `/stream`, version 2: plain data that can be read and written, and a [`Reader`]
//! of them for other programs.
//!
//! Each message is a JSON object with a `type`. As JSON lines, each message is a line. As
//! server-sent events, it is the data of an event, and the id of the event of a second, or of its
//! totals, is `INSTANCE.SECOND`. Empty lines and comments keep the connection alive.
//!
//! | message | when |
//! |---|---|
//! | [`Hello`] | first: the server, and the version of the format |
//! | [`ResourceList`] | second: the nodes that are listed, or were listed during the last minute; again if they have changed and no second says so |
//! | [`Second`] | for each complete second, first those of the last minute without a pause, and then one each second |
//! | [`Detail`] | after each second, if the address has a `resource` |
//! | [`FleetUpdate`] | each second, and first after those of the last minute, if the page has a [fleet](crate::Page::fleet) |
//! | [`RulesUpdate`] | each second, and first after those of the last minute, if the page has [rules](crate::Page::rules) |
//! | [`Changes`] | those of the last ten minutes before the first second, if there are any; then before each second that has some |
//! | [`Totals`] | each second in place of all others but [`Hello`], [`Changes`] and [`Bye`], if the address has `only=totals` |
//! | [`Bye`] | last, if the server ends the stream |
//!
//! ```
//! use leaparray::MetricEvent;
//! use leaparray_web::format::{Message, Reader};
//!
//! let stream = concat!(
//!     r#"{"type":"hello","version":2,"instance":"9f3c","name":"orders-api","host":"web-3","#,
//!     r#""pid":4127,"started":1764035000.25,"now":1764040000.02,"history":60,"#,
//!     r#""has_seconds":true,"reasons":["limit reached","wait too long","more than limit","#,
//!     r#""backend failing","other","queue full"]}"#,
//!     "\n",
//!     r#"{"type":"resources","resources":[[1,"GET /orders",null,"in",null],"#,
//!     r#"[2,"database",null,"out",null]]}"#,
//!     "\n",
//!     r#"{"type":"second","t":1764039999,"new":[],"gone":[],"total":[3,2,0,0,1,1,2,2,"#,
//!     r#"9000000,4000000,4000000,5000000,5000000,5000000,5000000],"rows":[[1,3,2,0,0,1,1,2,"#,
//!     r#"2,9000000,4000000,4000000,5000000,5000000,5000000,5000000]]}"#,
//!     "\n",
//!     r#"{"type":"bye","reason":"closing"}"#,
//!     "\n",
//! );
//! let mut succeeded = 0;
//! for message in Reader::new(stream.as_bytes()) {
//!     match message? {
//!         Message::Hello(hello) => assert_eq!(hello.name, "orders-api"),
//!         Message::Second(second) => succeeded += second.total.events[MetricEvent::Success],
//!         _ => {}
//!     }
//! }
//! assert_eq!(succeeded, 2);
//! # Ok::<_, leaparray_web::format::ReadError>(())
//! ```
//!
//! # Rules
//!
//! - All times are of the server's clock. Seconds are numbered from the Unix epoch, and durations
//!   are integers of nanoseconds.
//! - A second without a message is not known. It does not mean that nothing happened.
//! - A node without a row had no event and nothing in flight in that second.
//! - What is not known is null, or its field is absent: the requests in flight in the seconds from
//!   before the first viewer, or the quantiles of a node without a histogram.
//! - The sum of the rows of all seconds is what was counted, but for the seconds that are not
//!   known, and for a thread that has recorded in a second more than 50 ms after its end. Of a
//!   resource whose own long window is less than two seconds, counts may be missing. The
//!   [`LedgerSums`] has all counts.
//! - A second of a fleet may lack processes: its window says how many of them are in it, and
//!   whether it is final. The seconds of a fleet are those of the clocks of its processes.
//! - An id is not used again for another node in an [instance](Hello::instance). After a minute
//!   without viewers, a node may have another id, so a reader that connects again takes the ids
//!   from [`ResourceList`].
//! - A row is an array. A later version appends elements and adds fields and types, all of which a
//!   reader of this version ignores. What cannot be ignored raises [`VERSION`].

use leaparray::flow::Reason;

mod change;
mod controller;
mod detail;
mod direction;
mod events;
mod fleet;
mod message;
mod positional;
mod read;
mod row;
mod rules;
mod verdict;

pub use change::{Change, ChangeKind, Changes, Totals, UnreadCause};
pub use controller::{Controller, ControllerState, KeyRefusals, ShadowState};
pub use detail::{Bin, Detail, Geometry, NodeDetail, NodeLedger, SecondBins, WindowGeometry};
pub use direction::Direction;
pub use events::EventTotals;
pub use fleet::{
    Fleet, FleetLedger, FleetProcess, FleetProcessRow, FleetProcessState, FleetResourceRow,
    FleetStanding, FleetSum, FleetUpdate,
};
pub use message::{Bye, ByeReason, Hello, LedgerSums, Listed, Message, ResourceList, Second};
pub use read::{ReadError, Reader};
pub(crate) use row::nanos;
pub use row::{Counts, RefusedRow, Row};
pub use rules::{RuleList, RuleRow, RuleSourceState, RulesUpdate};
pub use verdict::{Finding, FindingKind, Level, Levels, Verdict};

/// The version of the format. Version 1 had no [`Second::verdicts`]: by its messages, a reader that
/// relies on them would take all resources for quiet.
///
/// ```
/// assert_eq!(leaparray_web::format::VERSION, 2);
/// ```
pub const VERSION: u32 = 2;

/// Returns the names of the reasons of refusals, in the order of their counts in [`RefusedRow`],
/// which is the order of [`Reason::ALL`].
///
/// ```
/// use leaparray::flow::Reason;
/// use leaparray_web::format::{RefusedRow, reasons};
///
/// let refused: RefusedRow = serde_json::from_str("[7,0,0,0,4,0,0]")?;
/// assert_eq!((&*reasons()[3], refused.counts[Reason::Failing]), ("backend failing", 4));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[must_use]
pub fn reasons() -> Vec<String> {
    let words = |reason: &Reason| match reason {
        Reason::Failing => "backend failing".to_owned(),
        Reason::Custom(_) => "other".to_owned(),
        reason => reason.name().replace('_', " "),
    };
    Reason::ALL.iter().map(words).collect()
}
