//! Quotas in simulated time, with clients that decide as Envoy does.
#![forbid(unsafe_code)]

mod client;
mod fleet;
mod promise;
mod shares;
mod world;
