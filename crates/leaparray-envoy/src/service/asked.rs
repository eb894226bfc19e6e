//! The limit of a descriptor, as a request asks it.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{self, Account, Ask, Limiter, Reason};
use leaparray::{Clock, Timestamp};
use smallvec::SmallVec;

use super::counts::Outcomes;
use super::decision::{By, Code, CurrentLimit, Quota, Status};
#[cfg(feature = "redis")]
use super::leases::{self, Leased};
use super::settings::Charging;
use super::state::State;
use super::table::{Window, set_limit};
use super::tree::Rule;
use crate::config::Unit;

pub(super) type Rules<C> = Rule<Arc<State<C>>>;

/// The limit of a descriptor, as far as it is known for the request.
pub(super) struct Asked<'t, C> {
    pub(super) rule: Option<&'t Rules<C>>,
    pub(super) requests: u32,
    pub(super) unit: Unit,
    pub(super) hits: u64,
    pub(super) by: By,
    pub(super) is_refused: bool,
    /// Whether the hits are charged.
    pub(super) is_taken: bool,
    /// When they were charged, or before: leases give back what was taken since.
    #[cfg(feature = "redis")]
    pub(super) since: Timestamp,
    /// Whether the next answer of the store may admit it.
    #[cfg(feature = "redis")]
    pub(super) awaits: bool,
    pub(super) limit: Found<'t, C>,
    /// The permits that were left when it was asked without a charge.
    pub(super) left: Option<Left>,
    /// The quota that was handed out.
    pub(super) quota: Option<Quota>,
}

/// The hits that are left of a limit, and when all are.
#[derive(Clone, Copy)]
pub(super) struct Left {
    remaining: u64,
    reset: Option<Timestamp>,
}

impl From<flow::Quota> for Left {
    fn from(quota: flow::Quota) -> Self {
        Self { remaining: quota.remaining, reset: quota.reset }
    }
}

/// Where the hits of a descriptor are counted.
pub(super) enum Found<'t, C> {
    /// No limit concerns the descriptor.
    Nothing,
    Unlimited,
    /// Nowhere: the fallback decides.
    Fallback,
    One(&'t Window<C>),
    /// In the table of windows, where it is not looked up yet.
    InTable,
    Key(Arc<Window<C>>),
    /// In the table of windows, where it was asked: what is left after the request.
    Read(Left),
    #[cfg(feature = "redis")]
    Lease(Leased),
    /// Nowhere: a limit of 0, of which nothing can be leased.
    #[cfg(feature = "redis")]
    Closed,
}

pub(super) type AllAsked<'t, C> = SmallVec<[Asked<'t, C>; 2]>;

impl<C> Asked<'_, C> {
    /// Creates the question for the hits of a descriptor, before its limit is found.
    #[inline]
    pub(super) const fn new(hits: u64) -> Self {
        Self {
            rule: None,
            requests: 0,
            unit: Unit::Second,
            hits,
            by: By::Limit,
            is_refused: false,
            is_taken: false,
            #[cfg(feature = "redis")]
            since: Timestamp::from_nanos(0),
            #[cfg(feature = "redis")]
            awaits: false,
            limit: Found::Nothing,
            left: None,
            quota: None,
        }
    }
}

impl<C: Clock> Asked<'_, C> {
    fn limiter(&self) -> Option<&dyn Limiter<Permit = ()>> {
        match &self.limit {
            Found::One(window) => Some(*window),
            Found::Key(window) => Some(&**window),
            #[cfg(feature = "redis")]
            Found::Lease(leased) => Some(leased),
            _ => None,
        }
    }

    /// Returns the window in memory, if the hits are counted in one.
    pub(super) fn window(&self) -> Option<&Window<C>> {
        match &self.limit {
            Found::One(window) => Some(window),
            Found::Key(window) => Some(window),
            _ => None,
        }
    }

    /// Returns whether both are counted in one window in memory.
    pub(super) fn has_window_of(&self, other: &Self) -> bool {
        let windows = self.window().zip(other.window());
        windows.is_some_and(|(window, other)| std::ptr::eq(window, other))
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.rule.is_some_and(|rule| rule.is_shadow)
    }

    pub(super) fn is_quota(&self) -> bool {
        self.rule.is_some_and(|rule| rule.is_quota && !rule.is_shadow)
    }

    /// Returns whether hits are handed out with its decisions.
    pub(super) fn has_quotas(&self) -> bool {
        self.rule.is_some_and(|rule| rule.requests_per_quota.is_some())
    }

    /// Returns the time of the limiter: leases end by a clock of their own.
    #[inline]
    #[cfg_attr(not(feature = "redis"), expect(clippy::unused_self, reason = "there are no leases"))]
    fn time(&self, now: Timestamp) -> Timestamp {
        #[cfg(feature = "redis")]
        if let Found::Lease(leased) = &self.limit {
            return leased.clock().now();
        }
        now
    }

    /// Asks without a charge. A request without hits asks whether one is left. A lease that
    /// cannot tell counts as one that does not refuse.
    pub(super) fn peek(&mut self, now: Timestamp) {
        // The status needs the same reading of all buckets.
        self.left = self.window().map(|window| self.left_in(window, now));
        if self.left.is_some_and(|left| left.remaining >= self.hits.max(1)) {
            self.is_refused = false;
            return;
        }
        let ask = Ask::at(self.time(now)).many(self.hits.max(1));
        if let Some(limiter) = self.limiter() {
            self.is_refused = limiter.peek(&ask).is_some_and(|it| it.is_refused());
        }
    }

    #[inline]
    pub(super) fn take(&mut self, now: Timestamp) {
        match &self.limit {
            #[cfg(feature = "redis")]
            Found::Closed => {}
            Found::Nothing | Found::Unlimited | Found::Fallback => {}
            Found::InTable | Found::Read(_) => {}
            #[cfg(feature = "redis")]
            Found::Lease(leased) => {
                self.since = leased.clock().now();
                let (by, refusal) = leases::take(leased, self.hits);
                self.by = by;
                self.is_refused = refusal.is_some();
                self.awaits = refusal.is_some_and(|awaits| awaits);
            }
            Found::One(_) | Found::Key(_) if self.hits == 0 => self.peek(now),
            Found::One(window) => {
                self.is_refused = window.decide(&Ask::at(now).many(self.hits)).is_refused();
            }
            Found::Key(window) => {
                self.is_refused = window.decide(&Ask::at(now).many(self.hits)).is_refused();
            }
        }
        self.is_taken = !self.is_refused;
    }

    /// Takes the hits from a window of the table, of a request with no other descriptor.
    #[inline]
    pub(super) fn take_in(&mut self, window: &Window<C>, charging: Charging, now: Timestamp) {
        set_limit(window, self.requests);
        let mut one = Asked { limit: Found::One(window), ..Asked::new(self.hits) };
        one.take(now);
        if charging == Charging::Each {
            one.take_rest(now);
        }
        (self.is_refused, self.is_taken) = (one.is_refused, one.is_taken);
        self.limit = Found::Read(one.left.unwrap_or_else(|| self.left_in(window, now)));
    }

    /// Reads what is left of a window: exactly for a request without hits, which asks just that. It
    /// takes nothing, so a recent reading of its thread would stay as it is.
    #[inline]
    fn left_in(&self, window: &Window<C>, now: Timestamp) -> Left {
        let exact = if self.hits == 0 { window.quota(now) } else { None };
        exact.unwrap_or_else(|| window.recent_quota(now)).into()
    }

    /// Takes what is left, if it was refused.
    pub(super) fn take_rest(&self, now: Timestamp) {
        let refused = self.limiter().filter(|_| self.is_refused && self.hits > 1);
        let Some(limiter) = refused else { return };
        let now = self.time(now);
        // Another request may take a part of it at the same time. Then less is left.
        while let Some(quota) = limiter.account().quota(now)
            && let rest @ 1.. = quota.remaining.min(self.hits)
        {
            if limiter.decide(&Ask::at(now).many(rest)).is_admitted() {
                break;
            }
        }
    }

    /// Returns what became of the hits. Those that a limit in the shadow refuses were admitted.
    pub(super) fn outcome(&self, over: bool) -> Outcomes {
        match self.by {
            _ if !self.is_refused && (self.is_taken || !over) => Outcomes::Admitted,
            _ if self.is_shadow() && !over => Outcomes::Admitted,
            _ if !self.is_refused || self.is_shadow() => Outcomes::Uncharged,
            By::NoRoom => Outcomes::Refused(Reason::NO_ROOM_FOR_KEY),
            By::StoreAway => Outcomes::Refused(Reason::Custom("the store of the limits is away")),
            By::TooManyWaiting => {
                Outcomes::Refused(Reason::Custom("too many requests wait for the store"))
            }
            _ => Outcomes::Refused(Reason::LimitReached),
        }
    }

    /// Returns the permits that are left after the request, by the reading before its charge.
    fn left_after(&self, now: Timestamp) -> Option<Left> {
        let mut left = self.left?;
        if self.is_taken && self.hits > 0 {
            left.remaining = left.remaining.saturating_sub(self.hits);
            let config = self.window()?.config();
            let whole = config.bucket_start(now).saturating_add(config.interval());
            left.reset = left.reset.map(|reset| reset.max(whole));
        }
        Some(left)
    }

    /// Returns the permits that are left, by a reading after the charge.
    #[inline]
    fn left_now(&self, now: Timestamp) -> Option<Left> {
        if let Found::Read(left) = &self.limit {
            return Some(*left);
        }
        match self.window() {
            Some(window) => Some(self.left_in(window, now)),
            None => Some(self.limiter()?.account().quota(now)?.into()),
        }
    }

    pub(super) fn give_back(&mut self, now: Timestamp) {
        let is_taken = std::mem::replace(&mut self.is_taken, false);
        if let Some(limiter) = self.limiter().filter(|_| is_taken && self.hits > 0) {
            #[cfg(feature = "redis")]
            let now = if matches!(self.limit, Found::Lease(_)) { self.since } else { now };
            let ask = Ask::at(now).many(self.hits);
            let _: bool = limiter.account().refund(&ask, Duration::ZERO);
        }
    }
}

/// Returns the status of a descriptor.
pub(super) fn status<C: Clock>(one: &Asked<'_, C>, now: Timestamp) -> Status {
    let by = match one.by {
        By::Limit if one.is_refused && one.is_shadow() => By::Shadow,
        by => by,
    };
    let is_over = one.is_refused && !one.is_shadow();
    let mut status = Status {
        code: if is_over { Code::OverLimit } else { Code::Ok },
        by,
        rule: one.rule.map(|rule| rule.id),
        quota: one.quota.clone(),
        ..Status::without_limit()
    };
    match &one.limit {
        Found::Nothing => return status,
        Found::Unlimited => {
            status.remaining = u64::MAX;
            return status;
        }
        _ => {}
    }
    status.limit = Some(CurrentLimit {
        name: one.rule.and_then(|rule| rule.name.clone()),
        requests_per_unit: one.requests,
        unit: one.unit,
    });
    let now = one.time(now);
    if let Some(left) = one.left_after(now).or_else(|| one.left_now(now)) {
        status.remaining = left.remaining;
        status.until_reset = left.reset.map(|reset| reset.saturating_since(now));
    }
    status
}
