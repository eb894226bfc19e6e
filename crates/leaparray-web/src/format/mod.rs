//! The messages of `/stream`: plain data that can be read and written, and a [`Reader`] of them for other programs.

mod controller;
mod detail;
mod message;
mod positional;
mod read;
mod row;

pub use controller::{Controller, ControllerState};
pub use detail::{
    Bin, Detail, Geometry, Lifetime, NodeDetail, NodeLedger, SecondBins, WindowGeometry,
};
pub use message::{Bye, ByeReason, Direction, Hello, Ledger, Listed, Message, Resources, Second};
pub use read::{ReadError, Reader};
pub use row::{Counts, Refused, Row};

/// The version of the format.
pub const VERSION: u32 = 1;

/// The names of the reasons of refusals, in the order of their counts.
pub const REASONS: [&str; 6] =
    ["limit reached", "wait too long", "more than limit", "backend failing", "other", "queue full"];
