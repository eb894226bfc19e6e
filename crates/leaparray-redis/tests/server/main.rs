//! The script and the limiter on a real server, on loopback.
#![forbid(unsafe_code)]

mod addresses;
mod audit;
mod faults;
mod network;
mod processes;
mod script;
mod server;
mod worker;
