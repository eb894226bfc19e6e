#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// On docs.rs, which compiles with a nightly toolchain: each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(doc, doctest))))]

mod caller;
mod change;
mod changes;
mod client;
mod condition;
mod decide;
mod document;
mod enter_error;
mod explain;
#[cfg(feature = "fleet")]
mod fleet;
mod follow;
#[cfg(feature = "tower")]
mod key;
#[cfg(feature = "tower")]
mod layer_admission;
mod limit;
mod limiter;
pub mod machine;
mod overload;
mod part;
mod pattern;
mod plan;
mod priority;
mod problem;
#[cfg(feature = "prometheus")]
mod prometheus;
mod quantity;
mod rule;
mod rules;
#[cfg(feature = "sentinel")]
mod sentinel;
mod source;
mod tenants;
mod text;
#[cfg(feature = "tower")]
mod tower;
mod turn;
#[cfg(feature = "web")]
mod web;

pub use caller::Caller;
pub use changes::Changes;
pub use condition::{Condition, Values};
pub use document::{Document, Documents, Format};
pub use enter_error::EnterError;
pub use explain::{Concerned, Explanation, WhyNot};
#[cfg(feature = "fleet")]
pub use fleet::{Fleet, FleetLimit};
#[cfg(feature = "tower")]
pub use key::Key;
#[cfg(feature = "tower")]
pub use layer_admission::{LayerAdmission, LayerPermits};
pub use limit::{Breaker, Counted, Failures, Limit, Percent};
pub use limiter::RulePermits;
pub use limiter::{RuleClock, RulePermit};
pub use overload::Overload;
pub use pattern::Pattern;
pub use plan::Admission;
pub use priority::Priority;
pub use problem::{Fault, Problem, Problems};
#[cfg(feature = "prometheus")]
pub use prometheus::RulesCollector;
pub use quantity::{Per, QuantityError};
pub use rule::{KeySource, Rule, Traffic};
pub use rules::{RuleEntry, Rules};
#[cfg(feature = "sentinel")]
pub use sentinel::{Sentinel, SentinelKind, SentinelRules};
pub use source::{
    Event, Follow, FollowError, RulesStatus, Source, SourceError, SourceState, SourceStatus, Wake,
};
pub use tenants::Tenants;
pub use text::RuleSet;
#[cfg(feature = "axum")]
pub use tower::RuleLayer;
#[cfg(feature = "tower")]
pub use tower::{ClientAddress, RequestKeys, RuleLimits};
