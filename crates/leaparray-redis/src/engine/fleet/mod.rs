//! Engines of a window over a fleet.

mod memory;
#[cfg(feature = "redis")]
mod prepared;
pub mod script;

use std::future::Future;

use super::EngineError;
use crate::fleet::{Delivery, FleetConfig, FleetKeys, NamesFetch, ProcessId, Receipt, Survey};

pub use memory::MemoryFleet;
#[cfg(feature = "redis")]
pub(super) use prepared::FleetScripts;

/// The server of a window over a fleet, or a client of it.
///
/// [`RedisEngine`](crate::RedisEngine) asks a Redis server. [`MemoryFleet`] is for tests. Another
/// client can be used by an implementation of this trait: the module [`script`] has all that it
/// sends and receives.
///
/// A future may be dropped before it is ready, and the message may then arrive or not. A message
/// may arrive twice, or late.
pub trait FleetEngine: Send + Sync + 'static {
    /// Sends a delivery, and returns the receipt.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if no answer arrives.
    fn deliver(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<Receipt, EngineError>> + Send;

    /// Returns what is known of all processes.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if no answer arrives.
    fn survey(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
    ) -> impl Future<Output = Result<Survey, EngineError>> + Send;

    /// Returns what processes have delivered of a second: as many items as there are processes.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if no answer arrives.
    fn second(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        second: u64,
        processes: &[ProcessId],
    ) -> impl Future<Output = Result<Vec<Option<Vec<u8>>>, EngineError>> + Send;

    /// Returns names of the resources of processes: a list for each item of `fetches`, with fewer
    /// names if there are no more.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if no answer arrives.
    fn names(
        &self,
        keys: &FleetKeys,
        fetches: &[NamesFetch],
    ) -> impl Future<Output = Result<Vec<Vec<Vec<u8>>>, EngineError>> + Send;
}

impl<E: FleetEngine> FleetEngine for std::sync::Arc<E> {
    fn deliver(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<Receipt, EngineError>> + Send {
        (**self).deliver(keys, config, delivery)
    }

    fn survey(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
    ) -> impl Future<Output = Result<Survey, EngineError>> + Send {
        (**self).survey(keys, config)
    }

    fn second(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        second: u64,
        processes: &[ProcessId],
    ) -> impl Future<Output = Result<Vec<Option<Vec<u8>>>, EngineError>> + Send {
        (**self).second(keys, config, second, processes)
    }

    fn names(
        &self,
        keys: &FleetKeys,
        fetches: &[NamesFetch],
    ) -> impl Future<Output = Result<Vec<Vec<Vec<u8>>>, EngineError>> + Send {
        (**self).names(keys, fetches)
    }
}
