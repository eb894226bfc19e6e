//! Limits that clients decide on by assignments of `leaparray-envoy`, by steps of virtual time.
//!
//! Clients report to a server, which assigns them token buckets with a time to live. The simulation
//! runs `Quotas` of one or several instances, whose shares come from a store. Messages take up to
//! the delivery time, streams break, and buckets are abandoned. A run depends on its [`Scenario`]
//! and its seed alone.
//!
//! | module | contents |
//! |---|---|
//! | `scenario` | the limit, its clients, and their faults |
//! | `client` | a client, which decides as Envoy does |
//! | `store` | the shares of the instances |
//! | `audit` | the requests that were admitted, and the differences |
//! | `run` | the loop |
//! | `happen` | what happens to clients, instances and limits |
//! | `search` | random scenarios |

mod audit;
mod client;
mod happen;
mod run;
mod scenario;
pub mod search;
mod store;

pub use audit::Violation;
pub use run::simulate;
pub use scenario::{Faults, Load, Scenario};
