//! The scripts, the limiter and the fleet on a real server, on loopback.
#![forbid(unsafe_code)]

mod addresses;
mod audit;
#[cfg(feature = "cluster")]
mod cluster;
mod connections;
mod faults;
mod fleet;
mod fleet_scripts;
mod herd;
mod network;
mod processes;
mod proxy;
mod restored;
mod script;
mod server;
mod slow_link;
mod uneven_network;
mod worker;
