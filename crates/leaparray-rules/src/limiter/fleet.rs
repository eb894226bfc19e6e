//! The limiter of a limit over a fleet.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use arc_swap::{ArcSwap, ArcSwapOption};
use leaparray::flow::{Account, Ask, Decision, Limiter, Quota, Reason, Refusal, Retry};
use leaparray::{Clock, Timestamp};
use leaparray_redis::{LeaseState, WhenAway};

use super::RuleClock;
use crate::fleet::{Fleet, FleetLimit, Leases};

/// The part of this process of a limit over the fleet.
///
/// The server keeps the charges of the limit by the name of the rule. So the limiter
/// gets other numbers by other leases of the same limit. Until the server has answered to these,
/// the former leases decide.
pub(crate) struct OverFleet<C: RuleClock> {
    /// The clock of the rules. Leases end by another one.
    clock: C,
    state: ArcSwap<State>,
    /// The fleet, and the name of the rule.
    home: OnceLock<(Fleet, Arc<str>)>,
}

enum State {
    /// There are no leases. It decides as if the server was away.
    Alone { is_open: bool },
    Leasing {
        now: Leases,
        /// The former leases, until the new ones have begun.
        before: ArcSwapOption<Leases>,
    },
    /// The rule is gone. A decision that finds this is by a former plan and is not used: it admits
    /// the request, which the newest plan then decides on.
    Ended,
}

impl State {
    const fn alone(limit: &FleetLimit) -> Self {
        Self::Alone { is_open: matches!(limit.away, WhenAway::Open) }
    }

    const fn leases(&self) -> Option<&Leases> {
        if let Self::Leasing { now, .. } = self { Some(now) } else { None }
    }
}

impl<C: RuleClock> OverFleet<C> {
    pub(super) fn new(limit: &FleetLimit, clock: C) -> Self {
        let state = ArcSwap::from_pointee(State::alone(limit));
        Self { clock, state, home: OnceLock::new() }
    }

    /// Begins to lease, if there is a fleet.
    pub(super) fn start(&self, fleet: Option<&Fleet>, rule: &Arc<str>, limit: &FleetLimit) {
        if let Some(fleet) = fleet {
            self.home.get_or_init(|| (fleet.clone(), Arc::clone(rule)));
            self.set(limit);
        }
    }

    /// Changes the numbers.
    pub(super) fn set(&self, limit: &FleetLimit) {
        let Some((fleet, rule)) = self.home.get() else {
            return self.state.store(Arc::new(State::alone(limit)));
        };
        let state = match fleet.lease(rule, limit) {
            Ok(now) => State::Leasing { now, before: ArcSwapOption::new(self.latest()) },
            Err(_) => State::alone(limit),
        };
        self.state.store(Arc::new(state));
    }

    /// Returns the leases that decide at present.
    fn latest(&self) -> Option<Arc<Leases>> {
        match &**self.state.load() {
            State::Leasing { now, before } => {
                // Those that have not begun have no permits.
                Some(before.load_full().unwrap_or_else(|| Arc::new(now.clone())))
            }
            _ => None,
        }
    }

    /// Gives the leases back.
    pub(super) fn end(&self) {
        self.state.store(Arc::new(State::Ended));
    }

    pub(super) fn is_started(&self) -> bool {
        !matches!(**self.state.load(), State::Alone { .. })
    }

    pub(super) fn lease_state(&self) -> Option<LeaseState> {
        self.state.load().leases().map(Leases::state)
    }
}

/// The answers after which new leases follow the demand.
const ANSWERS: u64 = 16;

/// Decides while leases replace former ones.
fn hand_over(
    now: &Leases,
    before: &ArcSwapOption<Leases>,
    former: &Leases,
    ask: &Ask<'_>,
) -> Decision {
    let (state, answers) = (now.state(), now.counts().answers);
    // In any case, so that they ask for permits.
    let decision = now.decide(ask);
    let is_over = match (state, decision.refusal()) {
        // Not by a policy for a server that is away, as one is that has not answered yet.
        (LeaseState::Connecting, _) => false,
        (LeaseState::Leasing, None) => return decision,
        // If the server has told when to ask again, the new limit is used up.
        (LeaseState::Leasing, Some(refusal)) => {
            answers >= ANSWERS || matches!(refusal.retry(), Retry::At(_))
        }
        _ => true,
    };
    if is_over {
        before.store(None);
        return decision;
    }
    former.decide(ask)
}

impl<C: RuleClock> Limiter for OverFleet<C> {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        let state = self.state.load();
        let State::Leasing { now, before } = &**state else {
            return match **state {
                State::Alone { is_open: false } => {
                    Decision::Refused(Refusal::new(Reason::Custom(ALONE), Retry::Unknown))
                }
                _ => Decision::Admitted(()),
            };
        };
        let at = now.clock().now();
        let leased = by_clock(ask, at);
        let decision = match &*before.load() {
            None => now.decide(&leased),
            Some(former) => hand_over(now, before, former, &leased),
        };
        match decision {
            Decision::Refused(refusal) => Decision::Refused(of_clock(refusal, at, ask.now())),
            admitted => admitted,
        }
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        let state = self.state.load();
        let State::Leasing { now, before } = &**state else {
            let is_closed = matches!(**state, State::Alone { is_open: false });
            return (!is_closed).then_some(Decision::Admitted(()));
        };
        let ask = by_clock(ask, now.clock().now());
        now.peek(&ask).or_else(|| before.load().as_ref()?.peek(&ask))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl<C: RuleClock> Account for OverFleet<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn quota(&self, _now: Timestamp) -> Option<Quota> {
        let state = self.state.load();
        let leases = state.leases()?;
        // It has no time of the other clock.
        leases.account().quota(leases.clock().now())
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        let state = self.state.load();
        let State::Leasing { now, before } = &**state else { return false };
        let former = before.load();
        let is_former = former.as_ref().is_some_and(|it| it.wake_on_answer(waker));
        now.wake_on_answer(waker) | is_former
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.state.load().leases()?.account().note_wait(permits)
    }
}

/// Returns a question at the time of the clock by which leases end.
fn by_clock(ask: &Ask<'_>, now: Timestamp) -> Ask<'static> {
    let same = Ask::at(now).many(ask.permits());
    let same = if ask.can_wait() { same } else { same.at_once() };
    if ask.is_first() { same } else { same.again() }
}

/// Returns a refusal with its time by the clock of the rules: `at` is `now` there.
fn of_clock(refusal: Refusal, at: Timestamp, now: Timestamp) -> Refusal {
    match refusal.retry() {
        Retry::At(time) => {
            let time = now.saturating_add(time.saturating_since(at));
            Refusal::new(refusal.reason, Retry::At(time))
        }
        _ => refusal,
    }
}

const ALONE: &str = "the rules have no fleet";
