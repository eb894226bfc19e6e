//! Decisions on requests.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::request::Request;
use crate::config::Unit;

/// The decision on a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// Whether the request is over a limit: the overall code.
    pub over: bool,
    /// Whether the configuration has no such domain. Nothing is limited then.
    pub unknown_domain: bool,
    statuses: SmallVec<[Status; 2]>,
}

/// The status of a descriptor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The code of the descriptor.
    pub code: Code,
    /// The limit; `None` if no limit concerns the descriptor.
    pub limit: Option<CurrentLimit>,
    /// The hits that are left of the limit. `u64::MAX` without a limit, if it is `unlimited`, and
    /// 0 if no limit concerns the descriptor. While threads compete for a limit in memory, hits
    /// that others took in the same bucket may [still be among them][recent], unless the request
    /// has no hits.
    ///
    /// [recent]: leaparray::flow::SlidingWindowLimiter::recent_quota
    pub remaining: u64,
    /// The time until the whole limit is left, if no more is charged; `None` without a limit, and
    /// if it is not known.
    pub until_reset: Option<Duration>,
    /// The reason of the status, if it is not the limit alone.
    pub by: By,
    /// The hits that the caller may decide on by itself, if it may.
    pub quota: Option<Quota>,
    /// The limit of the configuration, for what is known of it beside: see
    /// [`Service::rule`](super::Service::rule).
    pub rule: Option<RuleId>,
}

/// The limit of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CurrentLimit {
    /// The name, if it has one.
    pub name: Option<Arc<str>>,
    /// The number of requests.
    pub requests_per_unit: u32,
    /// The unit.
    pub unit: Unit,
}

/// The code of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The descriptor is within its limit, or has none.
    Ok,
    /// The descriptor is over its limit.
    OverLimit,
}

/// The reason of the status of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum By {
    /// By the limit, or by the lack of one.
    #[default]
    Limit,
    /// It is over a limit in the shadow, so the code is [`Code::Ok`].
    Shadow,
    /// Another descriptor of the request [replaces](crate::config::RateLimit::replaces) the limit.
    Replaced,
    /// There was no room for a further key, so the [policy](super::Fallback) decided.
    NoRoom,
    /// The store of the limits is away, so the [policy](super::Fallback) decided.
    StoreAway,
    /// The permits in hand were too few, and [as many requests as
    /// may](super::Settings::max_waiting) waited for the store, so the [policy](super::Fallback)
    /// decided.
    TooManyWaiting,
}

/// The hits that a caller may decide on by itself, with the one of its request: see
/// [`requests_per_quota`](crate::config::RateLimit::requests_per_quota). They are charged, whether
/// they are used or not.
///
/// A quota is handed out with a decision that admits a request of one hit, if each descriptor of
/// the request has such a limit, and the limits have that many left. It is valid until the bucket
/// of the limit in which it is charged ends, a 50th of the unit after its beginning, less the
/// [clock skew](super::Settings::clock_skew). So each use is in the bucket of its charge, and no
/// interval has more than the limit, as if the caller asked for each request. The number of
/// requests is in proportion to the time that is left.
///
/// A caller with a quota that is used up, and still valid, refuses. Limits that several instances
/// share have no quotas: their permits in hand may end at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// The number of requests.
    pub requests: u32,
    /// The time for which they may be used, from the time of the decision on.
    pub valid_for: Duration,
}

/// The identity of a limit of the configuration. It stays while the configuration has the limit,
/// and is not given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(crate) u64);

impl Decision {
    pub(crate) const fn new(over: bool, statuses: SmallVec<[Status; 2]>) -> Self {
        Self { over, unknown_domain: false, statuses }
    }

    pub(crate) fn of_unknown_domain(request: &Request) -> Self {
        let statuses = request.descriptors.iter().map(|_| Status::without_limit()).collect();
        Self { over: false, unknown_domain: true, statuses }
    }

    /// Returns the status of each descriptor, in the order of the request.
    #[must_use]
    pub fn statuses(&self) -> &[Status] {
        &self.statuses
    }
}

impl Status {
    /// The status of a descriptor that no limit concerns.
    pub(crate) const fn without_limit() -> Self {
        Self {
            code: Code::Ok,
            limit: None,
            remaining: 0,
            until_reset: None,
            by: By::Limit,
            quota: None,
            rule: None,
        }
    }
}
