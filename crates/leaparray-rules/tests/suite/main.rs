//! The rules, alone and together with each feature. One program, since each further one takes more
//! time to build than to run.
#![forbid(unsafe_code)]

#[cfg(feature = "axum")]
mod axum;
mod callers;
mod changes;
mod files;
#[cfg(feature = "fleet")]
mod fleet;
mod follow;
mod keyed_priorities;
#[cfg(feature = "axum")]
mod layer_twins;
mod modes;
mod overload;
mod patterns;
mod priorities;
mod program;
#[cfg(feature = "prometheus")]
mod prometheus;
mod round_trip;
#[cfg(feature = "sentinel")]
mod sentinel;
#[cfg(any(feature = "etcd", feature = "fleet", feature = "http", feature = "redis"))]
mod server;
mod sources;
mod tenants;
#[cfg(feature = "tower")]
mod tonic;
mod twins;
#[cfg(feature = "web")]
mod web;

use std::time::Duration;

/// The time after which something has not happened.
const DEADLINE: Duration = Duration::from_secs(30);
