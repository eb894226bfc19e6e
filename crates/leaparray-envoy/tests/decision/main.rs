//! Decisions in memory.
#![forbid(unsafe_code)]

mod charges;
mod quotas;
mod search;
mod world;
