#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod clock;
pub mod engine;
pub mod fleet;
mod fork;
pub mod lease;
mod limiter;
mod random;
mod runtime;
mod sync;
mod window;

pub use clock::BootClock;
pub use engine::{Engine, EngineError, FleetEngine, MemoryEngine, MemoryFleet};
#[cfg(feature = "redis")]
pub use engine::{RedisEngine, Warning};
pub use limiter::{
    LeaseCounts, LeaseState, LeasedLimiter, LimiterBuilder, ShareError, StartError, WhenAway,
};
#[cfg(feature = "prometheus")]
pub use window::FleetCollector;
pub use window::{
    FleetReader, FleetReaderBuilder, FleetReporter, FleetReporterBuilder, FleetStartError,
    FleetState,
};
