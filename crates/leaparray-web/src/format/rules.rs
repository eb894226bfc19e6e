//! The rules of a service.

use serde::{Deserialize, Serialize};

/// The rules as the server knew them when it was asked, once a second: see
/// [`Page::rules`](crate::Page::rules).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "rules")]
#[non_exhaustive]
pub struct RulesUpdate {
    /// When the rules were asked for, in seconds since the Unix epoch by the server's clock.
    pub now: f64,
    /// The rules; `None` if the server does not know them now.
    #[serde(default)]
    pub rules: Option<RuleList>,
}

/// The rules of a service, in their order: plain data, with public fields that the caller sets.
///
/// ```
/// use leaparray_web::format::{RuleList, RuleRow, RuleSourceState};
///
/// let mut rules = RuleList::default();
/// rules.source = Some("limits.toml".into());
/// rules.state = RuleSourceState::Wrong;
/// rules.rules.push(RuleRow::new("orders", "GET /orders", "limit = \"1000 per second\""));
/// let json = serde_json::to_string(&rules)?;
/// assert_eq!(serde_json::from_str::<RuleList>(&json)?, rules);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RuleList {
    /// The name of the source; `None` if the program sets the rules.
    #[serde(default)]
    pub source: Option<String>,
    /// The state of the source.
    #[serde(default)]
    pub state: RuleSourceState,
    /// The time since which the source is in that state, in seconds since the Unix epoch.
    #[serde(default)]
    pub since: Option<f64>,
    /// Why the source is away or wrong.
    #[serde(default)]
    pub why: Option<String>,
    /// The number of times that rules were applied.
    #[serde(default)]
    pub version: u64,
    /// The time at which rules were applied last, in seconds since the Unix epoch.
    #[serde(default)]
    pub changed_at: Option<f64>,
    /// The rules, or the first of them.
    pub rules: Vec<RuleRow>,
    /// The number of rules that are not among these.
    #[serde(default)]
    pub left_out: u64,
}

/// The state of the source of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RuleSourceState {
    /// Its last text is in force.
    Good,
    /// It returns no text. The last good rules are in force.
    Away,
    /// Its text has problems. The last good rules are in force.
    Wrong,
    /// There is no source, or a state that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RuleRow {
    /// Its name.
    pub name: String,
    /// The resources that it concerns, as text.
    pub resource: String,
    /// Its limiter, as text.
    pub limit: String,
    /// Its mode, as text.
    #[serde(default)]
    pub mode: String,
    /// The state of its limiter, as text, such as `closed` of a circuit breaker.
    #[serde(default)]
    pub state: String,
    /// The share of the requests of its resources that it has refused in the last minute, from 0 to
    /// 1; `None` if there were no requests, or it is not known.
    #[serde(default)]
    pub refused: Option<f64>,
}

impl RuleRow {
    /// Creates a row of a rule.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        resource: impl Into<String>,
        limit: impl Into<String>,
    ) -> Self {
        let (name, resource, limit) = (name.into(), resource.into(), limit.into());
        Self { name, resource, limit, ..Self::default() }
    }
}
