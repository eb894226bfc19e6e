//! The program behind the real Envoy, with load by h2load and an audit by the upstream's clock.
#![cfg(all(feature = "server", unix))]
#![forbid(unsafe_code)]

mod audit;
#[cfg(feature = "redis")]
mod fleet;
mod memory;
mod program;
mod python;
mod world;
