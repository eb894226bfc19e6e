//! Simulations of limiters that adapt themselves, of a limit over a fleet, of one window over a
//! fleet, of quotas, of clients that come again, and of traces with the shape of real load. Nothing
//! here reads real time.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod backend;
pub mod fleet;
pub mod histories;
pub mod parallel;
pub mod published;
mod queue;
pub mod quotas;
pub mod report;
pub mod scenarios;
pub mod score;
pub mod shares;
pub mod storms;
mod table;
pub mod traces;
pub mod windows;
