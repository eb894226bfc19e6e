//! Tests that need no server: the protocols with given times, and the tasks in simulated time with
//! a server in memory. One program, since each further one takes more time to build than to run.
#![forbid(unsafe_code)]

mod config;
mod fleet;
mod holdings;
mod ledger;
mod limiter;
mod node;
mod settings;
mod simulated;
#[cfg(feature = "web")]
mod web;
mod window;
