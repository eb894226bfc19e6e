#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod clock;
pub mod engine;
pub mod lease;
mod limiter;
mod sync;

pub use clock::BootClock;
pub use engine::{Engine, EngineError, MemoryEngine};
#[cfg(feature = "redis")]
pub use engine::{RedisEngine, Warning};
pub use limiter::{
    LeaseCounts, LeaseState, LeasedLimiter, LimiterBuilder, ShareError, StartError, WhenAway,
};
