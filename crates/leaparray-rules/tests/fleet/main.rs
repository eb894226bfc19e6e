//! Limits over a fleet.
#![forbid(unsafe_code)]

mod engine;
mod leases;
mod redis;
#[path = "../sources/server.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod server;
mod text;

use std::time::Duration;

/// The time after which something has not happened.
const DEADLINE: Duration = Duration::from_secs(30);
