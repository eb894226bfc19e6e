//! One window over a fleet of processes, by discrete events.
//!
//! Processes deliver their seconds to a server, and readers add them up. The simulation runs
//! `Outbox`, `Archive` and `FleetView` of `leaparray-redis`. A run depends on its [`Scenario`] and
//! its seed alone. What each process records in each second is a function of the seed, so that each
//! check compares with the truth.
//!
//! | module | contents |
//! |---|---|
//! | `scenario` | the fleet, its faults, and the rules that can be broken |
//! | `truth`, `violations` | what the processes record, and the differences that the checks find |
//! | `network` | the fates of messages |
//! | `process`, `server`, `reader` | the three parties |
//! | `decided`, `ledger` | which seconds were delivered and missed, by the process and by the server |
//! | `shown`, `finals` | the checks of what a reader shows |
//! | `run`, `observed` | the loop, and the results |
//! | `cases`, `report` | the runs, and their section of the page |
//! | `search` | random scenarios |

mod cases;
mod decided;
mod finals;
mod ledger;
mod network;
mod observed;
mod process;
mod reader;
pub mod report;
mod run;
mod scenario;
pub mod search;
mod server;
mod shown;
mod truth;
mod violations;

pub use cases::{Case, Results, all, run as run_all};
pub use observed::Observed;
pub use run::simulate;
pub use scenario::{After, Broken, Clocks, Faults, Outage, Scenario};
pub use violations::{Check, Violations};

/// Microseconds of a second.
const MICROS: u64 = 1_000_000;

/// The time of the server at the start of a run, in seconds.
const START: u64 = 1_700_000_000;
