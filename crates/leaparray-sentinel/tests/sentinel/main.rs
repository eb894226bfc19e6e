//! The command centre answers as the captured client does, and the dashboard's stand-in stores each
//! second once.

mod access;
mod captured;
mod dashboard;
mod heartbeat;
mod log;
mod nodes;
mod rules;
mod server;
mod service;
