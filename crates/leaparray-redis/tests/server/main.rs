//! The script and the limiter on a real server, on loopback.
#![forbid(unsafe_code)]

mod script;
mod server;
