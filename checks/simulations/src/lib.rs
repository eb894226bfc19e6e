//! Simulations of limiters that adapt themselves, of a limit over a fleet, and of one window over a
//! fleet. Nothing here reads real time.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod backend;
pub mod fleet;
pub mod histories;
pub mod parallel;
mod queue;
pub mod report;
pub mod scenarios;
pub mod score;
mod table;
pub mod windows;
