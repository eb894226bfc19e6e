//! The states of limits that several instances share: leases over Redis.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{Ask, Limiter, Refusal, Retry};
use leaparray::{Clock, Timestamp};
use leaparray_redis::lease::{LeaseConfig, LeaseKeys};
use leaparray_redis::{
    BootClock, Engine, EngineError, LeaseState, LeasedLimiter, LimiterBuilder, MemoryEngine,
    RedisEngine, ShareError, StartError, WhenAway,
};
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::decision::By;
use super::settings::{Fallback, Settings};
use super::waiting::Waiting;
use crate::config::Unit;

/// A server that several instances share, and the name under which they share it: each instance
/// with both has the same limits.
///
/// Each limit, and each key of one, has a task in the Tokio runtime in which this was created,
/// which asks the server for leases while the limit is used: see [`LeasedLimiter`]. An instance
/// decides from the permits in hand, and asks the server only for further ones.
///
/// ```
/// use leaparray::{ManualClock, Timestamp};
/// use leaparray_envoy::config::Config;
/// use leaparray_envoy::service::{Descriptor, Leases, Request, Service, Settings, Store};
/// use leaparray_redis::MemoryEngine;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # let mut runtime = tokio::runtime::Builder::new_current_thread();
/// # runtime.enable_time().start_paused(true).build()?.block_on(async {
/// let config = Config::from_yaml(
///     "
/// domain: shop
/// descriptors:
///   - key: client
///     rate_limit: { unit: second, requests_per_unit: 2 }
/// ",
/// )?;
/// // A service takes a `RedisEngine`, and needs no clock of its own.
/// let clock = ManualClock::new(Timestamp::from_secs(3_600));
/// let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
/// let instances = [(); 2].map(|()| {
///     let leases = Leases::new("mesh", Arc::clone(&engine)).unwrap().with_clock(clock.clone());
///     Service::with_settings(&config, &Store::Redis(leases), Settings::default(), clock.clone())
/// });
/// let request = Request::new("shop", [Descriptor::new([("client", "ann")])]);
/// // What is new on its server begins with a quarantine.
/// assert!(instances[0].decide(&request, clock.now()).await.over);
/// clock.advance(Duration::from_secs(2));
/// # tokio::time::sleep(Duration::from_secs(2)).await;
/// let mut admitted = 0;
/// for instance in instances.iter().cycle().take(10) {
///     admitted += u64::from(!instance.decide(&request, clock.now()).await.over);
/// #   tokio::time::sleep(Duration::from_millis(1)).await;
/// }
/// assert_eq!(admitted, 2, "of both instances together");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # use leaparray::Clock;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Leases {
    name: Arc<str>,
    start: Arc<Start>,
    runtime: Handle,
    clock: LeaseClock,
    away: Option<WhenAway>,
}

/// Starts the limiter of a limit.
type Start = dyn Fn(LimiterBuilder<LeaseClock>) -> Result<Leased, StartError> + Send + Sync;

/// The part of this instance of a limit.
pub(super) type Leased = LeasedLimiter<LeaseClock>;

/// The clock by which leases end.
#[derive(Clone)]
pub(super) enum LeaseClock {
    Boot(BootClock),
    Given(Arc<dyn Clock + Send + Sync>),
}

impl Clock for LeaseClock {
    fn now(&self) -> Timestamp {
        match self {
            Self::Boot(clock) => clock.now(),
            Self::Given(clock) => clock.now(),
        }
    }
}

impl Leases {
    /// The longest name, in bytes. A brace and a `%` count as three.
    pub const MAX_NAME_LEN: usize = 64;

    /// Creates the leases of the instances with that name, whose limits are kept by `engine`, such
    /// as a [`RedisEngine`](leaparray_redis::RedisEngine). Does not wait for the server, which may
    /// be away.
    ///
    /// Call it in the Tokio runtime that is to ask for leases. It has to be driven for as long as
    /// the service is used.
    ///
    /// # Errors
    ///
    /// Returns a [`StartError`] outside of a Tokio runtime with timers, if the name is empty or
    /// longer than [`MAX_NAME_LEN`](Self::MAX_NAME_LEN), or if the operating system has no random
    /// number.
    ///
    /// ```
    /// use leaparray_envoy::service::Leases;
    /// use leaparray_redis::{MemoryEngine, StartError};
    ///
    /// let error = Leases::new("mesh", MemoryEngine::new()).unwrap_err();
    /// assert_eq!(error, StartError::NoRuntime);
    /// ```
    pub fn new(name: &str, engine: impl Engine) -> Result<Self, StartError> {
        let name = name.replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
        if name.len() > Self::MAX_NAME_LEN {
            let (len, max) = (name.len(), Self::MAX_NAME_LEN);
            let error = leaparray_redis::lease::LeaseNameError::Length { len, max };
            return Err(StartError::Name(error));
        }
        // A limiter of another server tells whether those of this one will start.
        let config = LeaseConfig::new(1, Unit::Second.interval())
            .map_err(|error| StartError::Share(ShareError::Config(error)))?;
        drop(LeasedLimiter::builder(&name, config).in_group(&name).start(MemoryEngine::new())?);
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (engine, clock) = (Arc::new(engine), LeaseClock::Boot(BootClock::new()));
        let start = move |it: LimiterBuilder<LeaseClock>| it.start(Arc::clone(&engine));
        Ok(Self { name: name.into(), start: Arc::new(start), runtime, clock, away: None })
    }

    /// Sets the clock by which leases end. It must not go back, and must run while the machine is
    /// suspended. By default, it is a [`BootClock`].
    #[must_use]
    pub fn with_clock(self, clock: impl Clock + Send + Sync + 'static) -> Self {
        Self { clock: LeaseClock::Given(Arc::new(clock)), ..self }
    }

    /// Sets what becomes of requests while the server is away. By default, it is the
    /// [fallback](super::Settings::fallback) of the settings. A [`WhenAway::Share`] admits from a
    /// share that each instance owns. A limit that is too small to be shared has the fallback.
    #[must_use]
    pub fn with_when_away(self, away: WhenAway) -> Self {
        Self { away: Some(away), ..self }
    }

    /// Declares a mesh as new on a server: its limits begin without a quarantine. Returns for how
    /// many units of time it was new. What the server knows stays as it is.
    ///
    /// Call it only when a mesh is first started, and never because the server has lost its state:
    /// see [`RedisEngine::begin_group`]. Otherwise, up to each limit may be used once beyond it.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if the server does not answer.
    pub async fn begin_new(&self, engine: &RedisEngine) -> Result<usize, EngineError> {
        let mut begun = 0;
        for config in Unit::ALL.into_iter().filter_map(|unit| lease_config(1, unit)) {
            if let Ok(keys) = LeaseKeys::in_group(&self.name, "any", &config) {
                begun += usize::from(engine.begin_group(&keys).await?);
            }
        }
        Ok(begun)
    }

    /// Starts the part of this instance of a limit.
    fn lease(&self, name: &str, config: LeaseConfig, fallback: WhenAway) -> Option<Leased> {
        // The caller may be a thread outside of the runtime.
        let _entered = self.runtime.enter();
        let start = |away| {
            let builder = LeasedLimiter::builder(name, config).in_group(&self.name);
            (self.start)(builder.with_when_away(away).with_clock(self.clock.clone()))
        };
        match self.away.map(start) {
            Some(Err(StartError::Share(_))) | None => start(fallback).ok(),
            Some(result) => result.ok(),
        }
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("name", &self.name).finish_non_exhaustive()
    }
}

fn lease_config(requests: u32, unit: Unit) -> Option<LeaseConfig> {
    LeaseConfig::new(requests.into(), unit.interval()).ok()
}

/// The leases of all limits and keys, up to a number of them. If there are more, the ones that were
/// used least give their permits back, and lease others when they are used again.
pub(super) struct LeaseTable {
    leases: Leases,
    cache: Cache<Box<[u8]>, Entry>,
    /// The requests that wait for answers.
    pub(super) waiting: Waiting,
    away: WhenAway,
}

#[derive(Clone)]
struct Entry {
    requests: u32,
    leased: Leased,
}

impl LeaseTable {
    pub(super) fn new(leases: Leases, settings: &Settings) -> Self {
        let away = match settings.fallback {
            Fallback::Closed => WhenAway::Closed,
            Fallback::Open => WhenAway::Open,
        };
        let (cache, waiting) =
            (Cache::new(settings.max_keys.max(1)), Waiting::new(settings.max_waiting));
        Self { leases, cache, waiting, away }
    }

    /// Returns the leases of a limit by its key in this process, and by what it is in all; `None`
    /// if it cannot be leased.
    ///
    /// Another number is another lease of the same limit: its charges stay on the server. It
    /// replaces the lease of this key.
    #[inline]
    pub(super) fn get(
        &self,
        key: &[u8],
        (requests, unit): (u32, Unit),
        name: impl FnOnce(&mut Name),
    ) -> Option<Leased> {
        let entry = self.cache.get(key);
        if let Some(entry) = entry.filter(|entry| entry.requests == requests) {
            return Some(entry.leased);
        }
        self.start(key, requests, unit, name)
    }

    #[cold]
    fn start(
        &self,
        key: &[u8],
        requests: u32,
        unit: Unit,
        name: impl FnOnce(&mut Name),
    ) -> Option<Leased> {
        let mut of = Name { start: String::new(), digest: Sha256::new() };
        of.part(unit.name());
        name(&mut of);
        let leased = self.leases.lease(&of.finish(), lease_config(requests, unit)?, self.away)?;
        // If another thread was faster, its leases are replaced, and give their permits back.
        self.cache.insert(key.into(), Entry { requests, leased: leased.clone() });
        Some(leased)
    }

    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }
}

impl fmt::Debug for LeaseTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseTable").field("leases", &self.leases).finish_non_exhaustive()
    }
}

/// The name of a limit on the server: its beginning for a reader, and a digest of all of it.
pub(super) struct Name {
    start: String,
    digest: Sha256,
}

impl Name {
    /// The most bytes of the beginning.
    const START: usize = 80;

    /// Adds bytes that no reader needs. Their length is digested before them, so that no two lists
    /// of parts are the same.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.digest.update((bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
    }

    /// Adds keys and values that a path has already.
    pub(super) fn entries(&mut self, entries: &[(String, String)]) {
        for (key, value) in entries {
            self.bytes(key.as_bytes());
            self.bytes(value.as_bytes());
        }
    }

    /// Adds a part.
    pub(super) fn part(&mut self, part: &str) {
        self.bytes(part.as_bytes());
        let rest = Self::START.saturating_sub(self.start.len());
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-./:_".contains(it);
        self.start.extend(part.chars().take(rest).map(|it| if is_plain(it) { it } else { '_' }));
        if self.start.len() < Self::START {
            self.start.push(',');
        }
    }

    fn finish(self) -> String {
        let digest: [u8; 32] = self.digest.finalize().into();
        let (half, _) = digest.as_chunks::<16>();
        format!("{}{:032x}", self.start, u128::from_be_bytes(half[0]))
    }
}

/// Takes hits from the permits in hand. Returns what the decision is by, and whether an answer of
/// the server may change it, if it is a refusal.
///
/// A request without hits asks whether one is left.
pub(super) fn take(leased: &Leased, hits: u64) -> (By, Option<bool>) {
    let state = leased.state();
    let ask = Ask::at(leased.clock().now()).many(hits.max(1));
    let decision = leased.decide(&ask);
    if hits == 0 && decision.is_admitted() {
        let _: bool = leased.account().refund(&ask, Duration::ZERO);
    }
    let is_new = state == LeaseState::Connecting;
    let by = if state.is_away() { By::StoreAway } else { By::Limit };
    let awaits = |refusal: Refusal| {
        is_new || !state.is_away() && !matches!(refusal.retry(), Retry::Never | Retry::At(_))
    };
    (by, decision.refusal().map(awaits))
}

/// Returns the time until which a request may wait for answers from now on.
pub(super) fn wait_end() -> Instant {
    Instant::now() + MAX_WAIT
}

/// Takes hits, and waits for answers of the server, until a time. Returns what the decision is by,
/// and whether it is a refusal.
pub(super) async fn acquire(leased: &Leased, hits: u64, until: Instant) -> (By, bool) {
    // A refund gives back what was taken since.
    let since = leased.clock().now();
    let acquired = timeout_at(until, leased.acquire_many(hits.max(1))).await;
    let is_admitted = matches!(acquired, Ok(Ok(())));
    if hits == 0 && is_admitted {
        let _: bool = leased.account().refund(&Ask::at(since).many(1), Duration::ZERO);
    }
    let by = if leased.state().is_away() { By::StoreAway } else { By::Limit };
    (by, !is_admitted)
}

/// The longest time for which a request waits for answers.
const MAX_WAIT: Duration = Duration::from_millis(200);
