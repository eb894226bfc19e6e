//! The tasks of a window over a fleet: one delivers the seconds of a process, and one reads those
//! of the fleet.

mod backoff;
mod error;
#[cfg(feature = "prometheus")]
mod prometheus;
mod reader;
mod reporter;
mod state;
#[cfg(feature = "web")]
mod web;

pub use error::FleetStartError;
#[cfg(feature = "prometheus")]
pub use prometheus::FleetCollector;
pub use reader::{FleetReader, FleetReaderBuilder};
pub use reporter::{FleetReporter, FleetReporterBuilder};
pub use state::FleetState;
