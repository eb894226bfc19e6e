//! Limits over a fleet.

mod engine;
mod leases;
mod redis;
mod text;
