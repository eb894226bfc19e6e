//! The collector of a fleet.
#![forbid(unsafe_code)]
#![expect(clippy::float_cmp, reason = "the numbers are counts, or exposed as they are")]

mod exposition;
mod prometheus;
mod server;
#[path = "../suite/simulated/mod.rs"]
mod simulated;
