//! A server in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leaparray::{Clock, MonotonicClock};

use super::{EngineError, FleetEngine};
use crate::fleet::{
    Archive, Delivery, FleetConfig, FleetKeys, NamesFetch, ProcessId, Receipt, Survey,
};

/// An engine that keeps fleets in memory, for tests without a server: the processes are in one
/// process, and a clock gives the time of the server.
///
/// ```
/// use leaparray::{ManualClock, Timestamp};
/// use leaparray_redis::engine::{FleetEngine, MemoryFleet};
/// use leaparray_redis::fleet::{FleetConfig, FleetKeys};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let engine = MemoryFleet::with_clock(ManualClock::new(Timestamp::from_secs(60)));
/// let config = FleetConfig::default();
/// let survey = engine.survey(&FleetKeys::new("shop", &config)?, &config).await?;
/// assert_eq!((survey.now, survey.processes), (60_000_000, vec![]));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryFleet<C = MonotonicClock> {
    clock: C,
    fleets: Mutex<HashMap<FleetKeys, Archive>>,
}

impl MemoryFleet {
    /// Creates an engine without a fleet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<C: Clock> MemoryFleet<C> {
    /// Creates an engine without a fleet, in time of `clock`.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        Self { clock, fleets: Mutex::default() }
    }

    /// Loses all data, as a server does that restarts without a dump.
    pub fn restart(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FleetKeys, Archive>> {
        self.fleets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        f: impl FnOnce(&mut Archive, u64) -> T,
    ) -> T {
        let mut fleets = self.lock();
        let archive = fleets.entry(keys.clone()).or_insert_with(|| Archive::new(*config));
        f(archive, self.clock.now().as_micros())
    }
}

impl<C: Clock + Send + Sync + 'static> FleetEngine for MemoryFleet<C> {
    async fn deliver(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        delivery: &Delivery,
    ) -> Result<Receipt, EngineError> {
        Ok(self.with(keys, config, |archive, now| archive.deliver(now, delivery)))
    }

    async fn survey(&self, keys: &FleetKeys, config: &FleetConfig) -> Result<Survey, EngineError> {
        Ok(self.with(keys, config, Archive::survey))
    }

    async fn second(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        second: u64,
        processes: &[ProcessId],
    ) -> Result<Vec<Option<Vec<u8>>>, EngineError> {
        Ok(self.with(keys, config, |archive, now| archive.second(now, second, processes)))
    }

    async fn names(
        &self,
        keys: &FleetKeys,
        fetches: &[NamesFetch],
    ) -> Result<Vec<Vec<Vec<u8>>>, EngineError> {
        let fleets = self.lock();
        let Some(archive) = fleets.get(keys) else { return Ok(vec![Vec::new(); fetches.len()]) };
        Ok(fetches.iter().map(|it| archive.names(it.process, it.from, it.count)).collect())
    }
}
