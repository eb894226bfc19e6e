//! The state of a limiter as a monitor shows it.

use std::sync::{Arc, Weak};

use crate::flow::combined::shadow::{Mode, ShadowCounts};
use crate::flow::contract::{Limiter, Quota};
use crate::flow::feedback::circuit::{CircuitSnapshot, CircuitState, Transition};
use crate::flow::keyed::{Keyed, KeyedCounts, PerKey, RefusedKey};
use crate::time::Timestamp;

/// A limiter that a registry can [watch](crate::Registry::watch): every [`Limiter`] (so
/// `Arc<CircuitBreaker>` and `Arc<ConcurrencyLimiter>`), a [`Keyed`] limiter in an `Arc`, and a
/// [`Weak`] reference to one of them.
///
/// The state of limiters in an [`AllOf`](crate::flow::AllOf) is its tightest quota. To show each of
/// them, watch each under a name of its own.
pub trait Watch {
    /// Returns the state now, by the clock of the limiter; `None` if it no longer exists.
    fn watched(&self) -> Option<WatchedState>;
}

/// The number of keys in [`WatchedState::Keyed`].
const TOP: usize = 10;

/// The state of a [watched](crate::Registry::watch) limiter at one time: plain data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchedState {
    /// It has no numbers to show.
    Nothing,
    /// A limit with its remaining permits.
    Quota(Quota),
    /// An adaptive breaker.
    #[non_exhaustive]
    Breaker {
        /// The probability with which it refuses a request: 0 while it admits every request.
        drop_probability: f64,
    },
    /// A circuit breaker.
    #[non_exhaustive]
    Circuit {
        /// The time of the reading.
        at: Timestamp,
        /// The state.
        snapshot: CircuitSnapshot,
        /// The last transition; `None` if there was none yet. Read after the state, so it may be a
        /// later one.
        last: Option<Transition>,
    },
    /// A limiter of keys.
    #[non_exhaustive]
    Keyed {
        /// The counts of all keys together.
        counts: KeyedCounts,
        /// The ten keys with the most refused requests while they were stored, the most refused
        /// first.
        top_refused: Vec<RefusedKey<String>>,
    },
    /// A limiter whose decisions are carried out in part, or not at all.
    #[non_exhaustive]
    Shadow {
        /// How far it is enforced.
        mode: Mode,
        /// What it would refuse or delay, and what it does refuse or delay.
        counts: ShadowCounts,
        /// The state of the limiter.
        limiter: Box<WatchedState>,
    },
    /// Its code has panicked.
    Panicked,
}

/// A number of a [`WatchedState`], by which exporters name a metric: a gauge, or a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchedMetric {
    /// The limit of a quota.
    Limit,
    /// The remaining permits of a quota.
    LimitRemaining,
    /// The probability with which an adaptive breaker refuses a request.
    BreakerDropProbability,
    /// For each state of a circuit breaker, with the label `state`: 1 for the present one.
    CircuitState,
    /// The number of stored keys of a limiter of keys.
    LimiterKeys,
    /// The refused requests of a key, with the label `key`, of those that were refused most.
    LimiterKeyRefusals,
    /// For each [mode](crate::flow::shadow::Mode) of a limiter in the shadow, with the label
    /// `mode`: 1 for the present one.
    ShadowMode,
    /// The share of requests, or of keys, for which a limiter in the shadow is enforced, from 0 to
    /// 1.
    ShadowEnforcedShare,
    /// The requests that went ahead although a limiter in the shadow would refuse them. They are in
    /// no count of refused requests.
    ShadowWouldRefuse,
    /// The requests that went ahead at once although a limiter in the shadow would delay them.
    ShadowWouldDelay,
    /// The requests that a limiter in the shadow has refused or delayed, as far as it is enforced.
    ShadowEnforced,
}

impl WatchedMetric {
    /// Every metric.
    pub const ALL: &[Self] = &[
        Self::Limit,
        Self::LimitRemaining,
        Self::BreakerDropProbability,
        Self::CircuitState,
        Self::LimiterKeys,
        Self::LimiterKeyRefusals,
        Self::ShadowMode,
        Self::ShadowEnforcedShare,
        Self::ShadowWouldRefuse,
        Self::ShadowWouldDelay,
        Self::ShadowEnforced,
    ];

    /// Returns whether it is a count that grows while the limiter exists, and not a gauge. An
    /// exporter names it as a counter.
    ///
    /// ```
    /// use leaparray::flow::watch::WatchedMetric;
    ///
    /// assert!(WatchedMetric::ShadowWouldRefuse.is_counter());
    /// // The count of a key that comes back after its eviction begins at 0.
    /// assert!(!WatchedMetric::LimiterKeyRefusals.is_counter());
    /// ```
    #[must_use]
    pub const fn is_counter(self) -> bool {
        matches!(self, Self::ShadowWouldRefuse | Self::ShadowWouldDelay | Self::ShadowEnforced)
    }

    /// Returns the name in snake case, without a prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::LimitRemaining => "limit_remaining",
            Self::BreakerDropProbability => "breaker_drop_probability",
            Self::CircuitState => "circuit_state",
            Self::LimiterKeys => "limiter_keys",
            Self::LimiterKeyRefusals => "limiter_key_refusals",
            Self::ShadowMode => "shadow_mode",
            Self::ShadowEnforcedShare => "shadow_enforced_share",
            Self::ShadowWouldRefuse => "shadow_would_refuse",
            Self::ShadowWouldDelay => "shadow_would_delay",
            Self::ShadowEnforced => "shadow_enforced",
        }
    }

    /// Returns a description for the readers of a metric.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Limit => "Permits that a limiter gives out at once when all remain",
            Self::LimitRemaining => "Permits that a limiter can give out now",
            Self::BreakerDropProbability => "Probability with which a breaker refuses a request",
            Self::CircuitState => {
                "1 for the state of a circuit breaker, and 0 for the other states"
            }
            Self::LimiterKeys => "Stored keys of a limiter of keys",
            Self::LimiterKeyRefusals => {
                "Refused requests of the keys of a limiter that were refused most"
            }
            Self::ShadowMode => {
                "1 for the mode of a limiter in the shadow, and 0 for the other modes"
            }
            Self::ShadowEnforcedShare => {
                "Share of requests or keys for which a limiter in the shadow is enforced"
            }
            Self::ShadowWouldRefuse => {
                "Requests that went ahead although a limiter in the shadow would refuse them"
            }
            Self::ShadowWouldDelay => {
                "Requests that went ahead although a limiter in the shadow would delay them"
            }
            Self::ShadowEnforced => {
                "Requests that a limiter in the shadow has refused or delayed in fact"
            }
        }
    }
}

/// The states of a circuit breaker, with their labels.
const STATES: [(CircuitState, &str); 6] = [
    (CircuitState::Closed, "closed"),
    (CircuitState::Open, "open"),
    (CircuitState::HalfOpen, "half_open"),
    (CircuitState::ForcedOpen, "forced_open"),
    (CircuitState::Disabled, "disabled"),
    (CircuitState::MetricsOnly, "metrics_only"),
];

impl WatchedState {
    /// Calls `visit` with each number, and with the name and the value of a label for those that
    /// have several values.
    ///
    /// ```
    /// use leaparray::flow::ConcurrencyLimiter;
    /// use leaparray::flow::watch::{Watch, WatchedMetric};
    /// use std::sync::Arc;
    ///
    /// let limiter = Arc::new(ConcurrencyLimiter::new(20));
    /// let state = limiter.watched().expect("it exists");
    /// let mut values = Vec::new();
    /// state.for_each_metric(&mut |metric, label, value| values.push((metric, label, value)));
    /// let expected = [WatchedMetric::Limit, WatchedMetric::LimitRemaining];
    /// assert_eq!(values, expected.map(|metric| (metric, None, 20.0)));
    /// ```
    pub fn for_each_metric<'a>(
        &'a self,
        visit: &mut dyn FnMut(WatchedMetric, Option<(&'static str, &'a str)>, f64),
    ) {
        match self {
            Self::Nothing | Self::Panicked => {}
            Self::Quota(quota) => {
                visit(WatchedMetric::Limit, None, float(quota.limit));
                visit(WatchedMetric::LimitRemaining, None, float(quota.remaining));
            }
            Self::Breaker { drop_probability } => {
                visit(WatchedMetric::BreakerDropProbability, None, *drop_probability);
            }
            Self::Circuit { snapshot, .. } => {
                for (state, label) in STATES {
                    let value = f64::from(u8::from(state == snapshot.state));
                    visit(WatchedMetric::CircuitState, Some(("state", label)), value);
                }
            }
            Self::Keyed { counts, top_refused } => {
                visit(WatchedMetric::LimiterKeys, None, float(counts.keys as u64));
                for RefusedKey { key, refusals } in top_refused {
                    let label = Some(("key", key.as_str()));
                    visit(WatchedMetric::LimiterKeyRefusals, label, float(*refusals));
                }
            }
            Self::Shadow { mode, counts, limiter } => {
                for name in Mode::NAMES {
                    let value = f64::from(u8::from(name == mode.name()));
                    visit(WatchedMetric::ShadowMode, Some(("mode", name)), value);
                }
                let parts = mode.enforced().parts_per_million();
                visit(WatchedMetric::ShadowEnforcedShare, None, f64::from(parts) / 1e6);
                visit(WatchedMetric::ShadowWouldRefuse, None, float(counts.would_refuse));
                visit(WatchedMetric::ShadowWouldDelay, None, float(counts.would_delay));
                visit(WatchedMetric::ShadowEnforced, None, float(counts.enforced));
                limiter.for_each_metric(visit);
            }
        }
    }
}

impl<L: Limiter> Watch for L {
    fn watched(&self) -> Option<WatchedState> {
        let account = self.account();
        Some(account.watched_at(account.now()))
    }
}

impl<K, L, S> Watch for Arc<Keyed<K, L, S>>
where
    K: Clone + ToString,
    L: PerKey,
{
    fn watched(&self) -> Option<WatchedState> {
        let mut top_refused: Vec<RefusedKey<String>> = Vec::new();
        for RefusedKey { key, refusals } in self.top_refused(TOP) {
            let key = key.to_string();
            // Exporters need distinct texts.
            match top_refused.iter_mut().find(|it| it.key == key) {
                Some(same) => same.refusals = same.refusals.saturating_add(refusals),
                None => top_refused.push(RefusedKey { key, refusals }),
            }
        }
        Some(WatchedState::Keyed { counts: self.counts(), top_refused })
    }
}

impl<T: ?Sized> Watch for Weak<T>
where
    Arc<T>: Watch,
{
    fn watched(&self) -> Option<WatchedState> {
        self.upgrade()?.watched()
    }
}

/// Returns a count as the nearest floating-point number. It is exact up to 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "gauges are floating-point numbers")]
const fn float(count: u64) -> f64 {
    count as f64
}
