//! Simulations of limiters that adapt themselves, and of a limit over a fleet. Nothing here reads real time.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod backend;
pub mod fleet;
pub mod parallel;
pub mod report;
pub mod scenarios;
pub mod score;
