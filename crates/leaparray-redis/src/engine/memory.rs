//! An engine in memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use leaparray::{Clock, MonotonicClock};

use super::{Engine, EngineError};
use crate::lease::{Answer, Ask, Group, LeaseConfig, LeaseKeys, Ledger};

/// An engine that keeps the state of limits in memory, for tests without a server: the limits of
/// one process, in time of the clock that it is given.
///
/// ```
/// use leaparray::{ManualClock, Timestamp};
/// use leaparray_redis::lease::{Ask, LeaseConfig, LeaseKeys};
/// use leaparray_redis::{Engine, MemoryEngine};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let engine = MemoryEngine::with_clock(clock.clone());
/// let config = LeaseConfig::of_buckets(100, 10, Duration::from_secs(1))?;
/// let keys = LeaseKeys::new("orders", &config)?;
/// let ask = |seq| Ask {
///     node: 7,
///     seq,
///     nonce: seq,
///     epoch: None,
///     seen: 0,
///     want: 5,
///     validity: 2,
///     horizon: 0,
///     weight: 0,
///     moves: vec![],
/// };
/// // The limit is new, and begins with a quarantine.
/// assert_eq!(engine.lease(&keys, &config, &ask(1)).await?.granted, 0);
/// clock.advance(config.quarantine());
/// assert_eq!(engine.lease(&keys, &config, &ask(2)).await?.granted, 5);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryEngine<C = MonotonicClock> {
    clock: C,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of restarts.
    identity: u64,
    ledgers: HashMap<LeaseKeys, Ledger>,
    groups: HashMap<String, Group>,
}

impl MemoryEngine {
    /// Creates an engine with no limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<C: Clock> MemoryEngine<C> {
    /// Creates an engine with no limits, in time of `clock`.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Loses all state, as a server does that restarts without a dump.
    pub fn restart(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.identity += 1;
        state.ledgers.clear();
        state.groups.clear();
    }
}

impl<C: Clock + Send + Sync + 'static> Engine for MemoryEngine<C> {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { identity, ledgers, groups } = &mut *state;
        let ledger = ledgers.entry(keys.clone()).or_insert_with(|| Ledger::new(*config));
        // The keys have the rest of the parameters.
        ledger.set_limit_of(config);
        let time = self.clock.now().as_micros();
        Ok(match keys.group() {
            Some(group) => ledger.lease_in(groups.entry(group).or_default(), time, *identity, ask),
            None => ledger.lease(time, *identity, ask),
        })
    }
}
