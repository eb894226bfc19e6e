//! The decision engine.

mod alone;
mod asked;
mod counts;
mod decision;
mod engine;
mod find;
mod handout;
mod kept;
mod key;
#[cfg(feature = "redis")]
mod leases;
mod request;
mod settings;
mod state;
mod table;
mod texts;
mod tree;
#[cfg(feature = "redis")]
mod waiting;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use leaparray::{Clock, MonotonicClock, Registry, RegistryConfig, Timestamp};

use crate::config::{Config, Metadata};
pub use decision::{By, Code, CurrentLimit, Decision, Quota, RuleId, Status};
use kept::Newest;
#[cfg(feature = "redis")]
pub use leases::Leases;
pub use request::{Descriptor, LimitOverride, Request};
pub use settings::{Charging, Fallback, Settings};
use state::{State, States};
use tree::Tree;

/// Where the limits are kept.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Store {
    /// In this process.
    #[default]
    Memory,
    /// On a server that several instances share.
    #[cfg(feature = "redis")]
    Redis(Leases),
}

/// Decides on requests. Clones are cheap, and share all state.
///
/// ```
/// use leaparray::{ManualClock, Timestamp};
/// use leaparray_envoy::config::Config;
/// use leaparray_envoy::service::{Descriptor, Request, Service, Settings, Store};
/// use std::time::Duration;
///
/// let config = Config::from_yaml(
///     "
/// domain: shop
/// descriptors:
///   - key: path
///     value: /buy
///     rate_limit: { unit: second, requests_per_unit: 3 }
///   - key: client
///     rate_limit: { unit: minute, requests_per_unit: 2 }
/// ",
/// )?;
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let service =
///     Service::with_settings(&config, &Store::Memory, Settings::default(), clock.clone());
/// let buy = |client| {
///     let descriptors = [[("path", "/buy")], [("client", client)]].map(Descriptor::new);
///     service.decide_at(&Request::new("shop", descriptors), service.now())
/// };
/// assert!(!buy("ann").over && !buy("ann").over);
/// let refused = buy("ann");
/// assert!(refused.over);
/// assert_eq!(refused.statuses()[0].remaining, 1, "the path was charged nothing");
/// assert_eq!(refused.statuses()[1].until_reset, Some(Duration::from_millis(61_200)));
/// assert!(!buy("bob").over, "each client has its limit");
/// assert!(buy("bob").over, "the path has none left");
/// # Ok::<_, leaparray_envoy::config::ConfigError>(())
/// ```
pub struct Service<C: Clock = MonotonicClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C: Clock> {
    tree: Newest<Tree<Arc<State<C>>>>,
    states: States<C>,
    registry: Arc<Registry<C>>,
    /// Held by the thread that changes the configuration.
    changing: Mutex<()>,
    clock: C,
}

/// The state of a limit of the configuration. Plain data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuleInfo {
    /// Its identity.
    pub id: RuleId,
    /// The domain, and the keys and values down to the limit: `shop.path_/buy.client`.
    pub path: String,
    /// Data for the dynamic metadata of a response.
    pub metadata: Option<Metadata>,
    /// Whether it is in the shadow.
    pub is_shadow: bool,
    /// Whether it is a quota.
    pub is_quota: bool,
}

/// The answer of a limit of the configuration to entries.
#[cfg(feature = "server")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryLimit {
    Enforced {
        requests: u32,
        unit: crate::config::Unit,
    },
    /// It is unlimited, or in the shadow.
    Open,
}

impl<C: Clock> Clone for Service<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl Service {
    /// Creates a service with default [`Settings`] and a clock of its own.
    #[must_use]
    pub fn new(config: &Config, store: &Store) -> Self {
        Self::with_settings(config, store, Settings::default(), MonotonicClock::new())
    }
}

impl<C: Clock + Clone + Send + Sync + 'static> Service<C> {
    /// Creates a service.
    #[must_use]
    pub fn with_settings(config: &Config, store: &Store, settings: Settings, clock: C) -> Self {
        let states = States::new(store, settings, clock.clone());
        let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
        let tree = Newest::new(states.tree(config));
        Self { inner: Arc::new(Inner { tree, states, registry, changing: Mutex::new(()), clock }) }
    }

    /// Replaces the configuration, at one moment: a request is decided by the old one or by the new
    /// one. A limit of the same descriptors and the same unit keeps its state, also with another
    /// number and other modes.
    ///
    /// While a request that has begun by the old configuration is in flight, it may set the number
    /// of a window back for its own decision.
    pub fn reconfigure(&self, config: &Config) {
        // One after the other, so that no older tree replaces a newer one.
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.tree.set(self.inner.states.tree(config));
    }

    /// Returns the time of the clock.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Returns the registry with the counts of the limits, for exporters and for the page of
    /// `leaparray-web`.
    ///
    /// Each limit that is used is a resource, which passes the hits that were admitted and blocks
    /// those that it has refused. It has the name that the reference server gives its counts:
    /// `domain.key_value.key`, with the values of the request where `detailed_metric` or
    /// `value_to_metric` says so.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry<C>> {
        &self.inner.registry
    }

    /// Returns what a limit of the configuration says of entries; `None` if none concerns them.
    /// Nothing is counted, and no key gets a state.
    #[cfg(feature = "server")]
    pub(crate) fn limit(&self, domain: &str, entries: &[(String, String)]) -> Option<EntryLimit> {
        self.inner.tree.with(|tree| {
            let rule = tree.domain(domain)?.find(entries, &mut key::Key::new())?;
            Some(match rule.requests {
                Some((requests, unit)) if !rule.is_shadow => {
                    EntryLimit::Enforced { requests, unit }
                }
                _ => EntryLimit::Open,
            })
        })
    }

    /// Returns what is known of a limit of the configuration in force.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<RuleInfo> {
        self.inner.tree.with(|tree| tree.rule(id).map(|rule| rule.info()))
    }

    /// Returns the limits of the configuration in force, by their paths.
    #[must_use]
    pub fn rules(&self) -> Vec<RuleInfo> {
        let infos = |tree: &Tree<_>| tree.rules().map(|rule| rule.info()).collect();
        let mut rules: Vec<_> = self.inner.tree.with(infos);
        rules.sort_by(|a, b| a.path.cmp(&b.path));
        rules
    }

    /// Returns the number of keys that have a state of their own.
    #[must_use]
    pub fn keys(&self) -> usize {
        #[cfg(feature = "redis")]
        if let Some(leases) = &self.inner.states.leases {
            return leases.len();
        }
        self.inner.states.table.len()
    }

    /// Decides on a request at `now`, a time of the [clock](Self::now). Waits for answers of the
    /// store, for up to 200 ms, if it is not in memory, and the permits in hand are too few. The
    /// memory of the requests that wait is [bounded](Settings::max_waiting).
    ///
    /// If the future is dropped while it waits, the request is charged to no limit. With
    /// [`Charging::Each`], the limits that did not wait stay charged: the hits may have been told
    /// after the fact.
    #[cfg_attr(not(feature = "redis"), expect(clippy::unused_async, reason = "no store waits"))]
    pub async fn decide(&self, request: &Request, now: Timestamp) -> Decision {
        #[cfg(feature = "redis")]
        if let Some(leases) = &self.inner.states.leases {
            let Inner { tree, states, registry, .. } = &*self.inner;
            let Settings { charging, fallback, .. } = states.settings;
            let tree = tree.get();
            let Some(level) = tree.domain(&request.domain) else {
                return Decision::of_unknown_domain(request);
            };
            let mut asked = find::find(level, request, states, now);
            let mut over = engine::charge(request, &mut asked, charging, now);
            if over && engine::awaits(&asked) {
                over = match leases.waiting.enter(request) {
                    Some(_place) => {
                        engine::charge_after_answers(request, &mut asked, charging, now).await
                    }
                    None => engine::charge_by(fallback, request, &mut asked, charging, now),
                };
            }
            // Leases have no quotas.
            return engine::answer(registry, request, &asked, over, now);
        }
        self.decide_at(request, now)
    }

    /// Decides on a request at `now`, a time of the [clock](Self::now), without a wait.
    #[must_use]
    pub fn decide_at(&self, request: &Request, now: Timestamp) -> Decision {
        let Inner { tree, states, registry, .. } = &*self.inner;
        tree.with(|tree| {
            let Some(level) = tree.domain(&request.domain) else {
                return Decision::of_unknown_domain(request);
            };
            if let [descriptor] = &*request.descriptors {
                return alone::decide(level, request, descriptor, states, registry, now);
            }
            let mut asked = find::find(level, request, states, now);
            let over = engine::charge(request, &mut asked, states.settings.charging, now);
            if !over {
                handout::hand_out(&mut asked, states.settings.clock_skew, now);
            }
            engine::answer(registry, request, &asked, over, now)
        })
    }
}

impl<S> tree::Rule<S> {
    fn info(&self) -> RuleInfo {
        let Self { id, is_shadow, is_quota, .. } = *self;
        let (path, metadata) = (self.path.clone(), self.metadata.clone());
        RuleInfo { id, path, metadata, is_shadow, is_quota }
    }
}

impl<C: Clock> fmt::Debug for Service<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}
