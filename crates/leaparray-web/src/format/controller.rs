//! The states of limiters and breakers.

use serde::{Deserialize, Serialize};

use super::verdict::Level;

/// The state of a limiter or a breaker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Controller {
    /// The name: the name of a resource if the controller belongs to one.
    pub resource: String,
    /// The name under which it is watched; `None` if that is the name of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The state.
    #[serde(flatten)]
    pub state: ControllerState,
    /// What the state of a breaker means for its resource, also if no resource has its name. An
    /// adaptive breaker drops from 1 % on, and until it is below 0.5 %. `Quiet` in `/snapshot`.
    #[serde(default, skip_serializing_if = "Level::is_quiet")]
    pub level: Level,
    /// How far it is enforced, and what it would refuse, if it is in a
    /// [shadow](leaparray::flow::shadow::Shadow).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowState>,
}

/// The shadow of a limiter or a breaker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShadowState {
    /// The name of its [mode](leaparray::flow::shadow::Mode).
    pub mode: String,
    /// The share of requests, or of keys, for which it is enforced, from 0 to 1.
    pub enforced_share: f64,
    /// The requests that went ahead although it would refuse them. No resource counts them as
    /// refused.
    pub would_refuse: u64,
    /// The requests that went ahead at once although it would delay them.
    pub would_delay: u64,
}

/// A key of a limiter of keys, and the number of its refused requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyRefusals {
    /// The key.
    pub key: String,
    /// The refused requests while the key was stored.
    pub refusals: u64,
}

/// The state of a limiter or a breaker at one time, by its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ControllerState {
    /// A circuit breaker.
    #[non_exhaustive]
    Circuit {
        /// The state, such as `closed` or `half-open`: see
        /// [`CircuitState`](leaparray::flow::circuit::CircuitState).
        state: String,
        /// The seconds until an open breaker admits a probe.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        probe_in: Option<f64>,
        /// The cause of the last change of the state; `None` if there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// A limiter.
    #[non_exhaustive]
    Limit {
        /// The number of permits that can be taken at once when all remain.
        limit: u64,
        /// The number of permits that can be taken now.
        remaining: u64,
    },
    /// An adaptive breaker.
    #[non_exhaustive]
    Drop {
        /// The probability with which it refuses a request.
        probability: f64,
    },
    /// A limiter of keys.
    #[non_exhaustive]
    Keyed {
        /// The number of stored keys.
        keys: u64,
        /// The keys with the most refused requests while they were stored, the most refused first.
        top_refused: Vec<KeyRefusals>,
    },
    /// A kind that this version does not know, or a controller whose code has panicked.
    #[serde(other)]
    Unknown,
}
