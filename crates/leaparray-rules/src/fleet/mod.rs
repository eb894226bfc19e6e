//! Limits that the processes of a fleet share.

mod limit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leaparray::{Clock, Registry, Timestamp};
use leaparray_redis::lease::{LeaseConfig, LeaseKeys, LeaseNameError};
use leaparray_redis::{
    BootClock, Engine, LeaseState, LeasedLimiter, LimiterBuilder, MemoryEngine, StartError,
};
use tokio::runtime::Handle;

use crate::limiter::{RuleClock, RuleLimiter};
use crate::rules::Rules;
pub use limit::FleetLimit;

/// The fleet of which this process is a part: the processes with one server and one name share
/// each limit of a rule with `over = "fleet"`.
///
/// The limit of a rule is known on the server by the name of the fleet and the name of the rule. In
/// each process, it has a task in the Tokio runtime in which the fleet was created, which asks the
/// server for leases: see [`LeasedLimiter`].
///
/// ```
/// use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
/// use leaparray_redis::lease::LeaseConfig;
/// use leaparray_redis::{LeaseState, MemoryEngine};
/// use leaparray_rules::{Fleet, RuleSet};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # let mut runtime = tokio::runtime::Builder::new_current_thread();
/// # runtime.enable_time().start_paused(true).build()?.block_on(async {
/// // A service takes a `RedisEngine`, and needs no clock of its own.
/// let clock = ManualClock::new(Timestamp::from_secs(3_600));
/// let engine = MemoryEngine::with_clock(clock.clone());
/// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
/// let rules = Fleet::new("shop", engine)?.with_clock(clock.clone()).rules(Arc::new(registry));
/// rules.apply(&RuleSet::parse(
///     r#"
///     [[rule]]
///     name = "orders"
///     resource = "GET /orders"
///     limit = "1000 per second"
///     over = "fleet"
///     "#,
/// )?);
/// // A limit that is new on its server begins with a quarantine.
/// assert!(rules.try_enter("GET /orders", ()).is_err());
/// # tokio::time::sleep(Duration::from_millis(1)).await;
/// assert_eq!(rules.leases()[0].1.name(), "quarantine");
/// clock.advance(LeaseConfig::new(1_000, Duration::from_secs(1))?.quarantine());
/// # tokio::time::sleep(Duration::from_secs(2)).await;
/// # let _ = rules.try_enter("GET /orders", ());
/// # tokio::time::sleep(Duration::from_secs(2)).await;
/// assert!(rules.try_enter("GET /orders", ()).is_ok());
/// assert_eq!(rules.leases(), [("orders".into(), LeaseState::Leasing)]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Fleet {
    /// As a part of the names of limits.
    name: Arc<str>,
    start: Arc<Start>,
    runtime: Handle,
    clock: FleetClock,
}

/// Starts the limiter of a limit.
type Start = dyn Fn(LimiterBuilder<FleetClock>) -> Result<Leases, StartError> + Send + Sync;

/// The part of this process of a limit.
pub(crate) type Leases = LeasedLimiter<FleetClock>;

/// The clock by which leases end.
#[derive(Clone)]
pub(crate) enum FleetClock {
    Boot(BootClock),
    Given(Arc<dyn Clock + Send + Sync>),
}

impl Clock for FleetClock {
    fn now(&self) -> Timestamp {
        match self {
            Self::Boot(clock) => clock.now(),
            Self::Given(clock) => clock.now(),
        }
    }
}

impl Fleet {
    /// The longest name of a fleet, in bytes. A brace, a `%` and a `/` count as three.
    pub const MAX_NAME_LEN: usize = 64;

    /// The longest name of a rule over a fleet, in bytes. A brace and a `%` count as three.
    pub const MAX_RULE_NAME_LEN: usize = LeaseKeys::MAX_NAME_LEN - Self::MAX_NAME_LEN - 1;

    /// Creates the fleet with that name, whose limits are kept by `engine`: by a
    /// [`RedisEngine`](https://docs.rs/leaparray-redis/latest/leaparray_redis/struct.RedisEngine.html),
    /// or a [`MemoryEngine`] in tests. Does not wait for the server, which may be away.
    ///
    /// Call it in the Tokio runtime that is to ask for leases. It has to be driven for as long as
    /// the rules are in force: while it is not, the server counts as away.
    ///
    /// # Errors
    ///
    /// Returns a [`StartError`] outside of a Tokio runtime with timers, if the name is empty or
    /// longer than [`MAX_NAME_LEN`](Self::MAX_NAME_LEN), or if the operating system has no random
    /// number.
    ///
    /// ```
    /// use leaparray_redis::{MemoryEngine, StartError};
    /// use leaparray_rules::Fleet;
    ///
    /// let error = Fleet::new("shop", MemoryEngine::new()).unwrap_err();
    /// assert_eq!(error, StartError::NoRuntime);
    /// ```
    pub fn new(name: &str, engine: impl Engine) -> Result<Self, StartError> {
        let name = escaped(name).replace('/', "%2F");
        if name.is_empty() || name.len() > Self::MAX_NAME_LEN {
            let (len, max) = (name.len(), Self::MAX_NAME_LEN);
            return Err(StartError::Name(LeaseNameError::Length { len, max }));
        }
        // A limiter of another server tells whether those of this one will start.
        let config = LeaseConfig::new(1, Duration::from_secs(1))
            .map_err(|error| StartError::Share(leaparray_redis::ShareError::Config(error)))?;
        drop(LeasedLimiter::builder(&name, config).start(MemoryEngine::new())?);
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (engine, clock) = (Arc::new(engine), FleetClock::Boot(BootClock::new()));
        let start = move |it: LimiterBuilder<FleetClock>| it.start(Arc::clone(&engine));
        Ok(Self { name: name.into(), start: Arc::new(start), runtime, clock })
    }

    /// Sets the clock by which leases end. It must not go back, and must run while the machine is
    /// suspended. By default, it is a [`BootClock`], also if the registry has another clock.
    #[must_use]
    pub fn with_clock(self, clock: impl Clock + Send + Sync + 'static) -> Self {
        Self { clock: FleetClock::Given(Arc::new(clock)), ..self }
    }

    /// Creates rules for the resources of a registry, as [`Rules::new`] does: at first none.
    #[must_use]
    pub fn rules<C: RuleClock>(&self, registry: Arc<Registry<C>>) -> Rules<C> {
        Rules::of_fleet(registry, Some(self.clone()))
    }

    /// Starts the part of this process of the limit of a rule.
    pub(crate) fn lease(&self, rule: &str, limit: &FleetLimit) -> Result<Leases, StartError> {
        let config = limit
            .config()
            .map_err(|error| StartError::Share(leaparray_redis::ShareError::Config(error)))?;
        let builder = LeasedLimiter::builder(&format!("{}/{}", self.name, escaped(rule)), config);
        // The rules may be changed by a thread outside of the runtime.
        let _entered = self.runtime.enter();
        (self.start)(builder.with_when_away(limit.away).with_clock(self.clock.clone()))
    }
}

/// Returns a name without the characters that a limit cannot have. Different names stay different.
fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('{', "%7B").replace('}', "%7D")
}

/// Returns whether a rule with that name can limit over a fleet.
pub(crate) fn is_rule_name(name: &str) -> bool {
    escaped(name).len() <= Fleet::MAX_RULE_NAME_LEN
}

impl<C: RuleClock> Rules<C> {
    /// Returns the state of the leases of each rule over the fleet, in the order of the rules. One
    /// that [has none](crate::Changes::not_started) is not listed.
    #[must_use]
    pub fn leases(&self) -> Vec<(Arc<str>, LeaseState)> {
        self.each(RuleLimiter::lease_state)
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("name", &self.name).finish_non_exhaustive()
    }
}
