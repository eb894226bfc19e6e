//! Engines: where the state of a limit is kept, and how an ask gets there.

mod error;
pub mod fleet;
mod memory;
#[cfg(feature = "redis")]
mod redis;
pub mod script;

use std::future::Future;

use crate::lease::{Answer, Ask, LeaseConfig, LeaseKeys};

pub use error::EngineError;
pub use fleet::{FleetEngine, MemoryFleet};
pub use memory::MemoryEngine;
#[cfg(feature = "redis")]
pub use redis::{RedisEngine, Warning};

/// The server of a limit, or a client of it.
///
/// [`RedisEngine`] asks a Redis server, or one that speaks its protocol and runs its scripts.
/// [`MemoryEngine`] is for tests. Another client can be used by an implementation of this trait:
/// the module [`script`] has all that it sends and receives.
pub trait Engine: Send + Sync + 'static {
    /// Sends an ask of a node of a limit, and returns the answer.
    ///
    /// The future may be dropped before it is ready, and the ask may then arrive or not. An ask may
    /// be sent again, with the same [number](Ask::seq). There is no need for a bound in time: the
    /// limiter waits no longer than
    /// [`LimiterBuilder::with_answer_timeout`](crate::LimiterBuilder::with_answer_timeout) says.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if no answer arrives.
    fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> impl Future<Output = Result<Answer, EngineError>> + Send;
}

impl<E: Engine> Engine for std::sync::Arc<E> {
    fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> impl Future<Output = Result<Answer, EngineError>> + Send {
        (**self).lease(keys, config, ask)
    }
}
