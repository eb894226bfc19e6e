//! Simulations of limiters that adapt themselves. Nothing here reads real time.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod backend;
pub mod report;
pub mod scenarios;
pub mod score;
