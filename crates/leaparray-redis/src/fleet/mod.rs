//! The protocol of a window over a fleet, without a server and without a clock.
//!
//! Each process delivers each finished second of its registry once. Processes that monitor the
//! fleet read the seconds back, and add them up.
//!
//! # Delivery
//!
//! The server has a *record* for each process: how far its seconds are decided, the sums of the
//! delivered and of the missed ones, and its lifetime totals. A record has a version, which only
//! grows. A [`Delivery`] has the next version, and with it the seconds in between. The server takes
//! a delivery if the version that it builds on is the one that it has, and then stores the record
//! and all seconds, or else nothing ([`Archive::deliver`]). So it does not matter whether a
//! delivery is lost, arrives twice or late, or whether its answer is lost: a process that is told
//! of another version reads from that record what became of its seconds ([`Outbox::on_receipt`]).
//!
//! | the server | the process |
//! |---|---|
//! | has the version that the delivery builds on | both take the next version |
//! | has a later version, of the same process: an answer was lost | takes the record of the server, and builds on it |
//! | has an earlier version, or none: it has lost data | is right, and the server takes its record |
//!
//! # Which seconds are final
//!
//! A process numbers its seconds by its own clock. The server takes a second until its *deadline*,
//! by its own clock. Until then, a reader counts for which processes a second is there. A second is
//! final once every live process has delivered a later one, or this one. A process that joins
//! cannot add to a second that may be final: its first second is at most
//! [`grace`](FleetConfig::grace) before the time of the server. See [`Standing`].
//!
//! # Conservation
//!
//! For each process, at each delivery: lifetime = delivered + missed + late + waiting + unfinished.
//! Each is a sum of counts:
//!
//! - *delivered*: in seconds that the server has taken;
//! - *missed*: in seconds that the server did not get before the deadline, or that left the
//!   registry's window unread;
//! - *late*: recorded after their second had been read;
//! - *waiting*: in seconds that will be delivered;
//! - *unfinished*: in seconds that are not over.
//!
//! After the last delivery of a process that was closed, nothing is waiting or unfinished.

mod archive;
mod budget;
mod codec;
mod collect;
mod config;
mod counts;
mod error;
mod keys;
mod message;
mod names;
mod outbox;
mod record;
mod refused;
mod second;
mod view;

pub use archive::Archive;
pub use budget::Budget;
pub use codec::FormatError;
pub use collect::Collector;
pub use config::FleetConfig;
pub use counts::FleetCounts;
pub use error::FleetConfigError;
pub use keys::FleetKeys;
pub use message::{Delivery, Known, Outcome, Receipt, SecondBytes, Survey};
pub use names::ResourceKey;
pub use outbox::{Outbox, Undelivered};
pub use record::{ProcessId, Record};
pub(crate) use second::DecodedSecond;
pub use second::{LeftOut, ProcessSecond, Row};
pub(crate) use view::decode;
pub use view::{
    Fetch, FleetView, FleetWindow, NamesFetch, Presence, ProcessRow, ProcessState, ResourceRow,
    Standing,
};

/// Microseconds of a second.
pub(crate) const MICROS: u64 = 1_000_000;
