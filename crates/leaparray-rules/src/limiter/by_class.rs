//! A limit in flight whose requests give way to each other.

use std::sync::Arc;

use leaparray::Timestamp;
use leaparray::flow::adaptive::{AdaptiveLimiter, Headroom};
use leaparray::flow::priority::{Classes, OfClass};
use leaparray::flow::shadow::Share;
use leaparray::flow::watch::{Watch, WatchedState};
use leaparray::flow::{Account, Ask, ConcurrencyLimiter, Decision, Limiter, Quota};

use super::one::One;
use super::{RuleClock, RulePermit};
use crate::limit::Limit;

/// A limit in flight of which each request may use a share. The shares are those of the version of
/// the rules by which a request is decided.
pub(crate) enum ByClass<C: RuleClock> {
    InFlight(Arc<Classes<Arc<ConcurrencyLimiter>>>),
    Adaptive(Arc<Classes<Arc<AdaptiveLimiter<Headroom, C>>>>),
}

/// Returns the limiter of the requests that may use a share.
fn of_share<L>(classes: &Arc<Classes<L>>, share: Share) -> OfClass<Arc<Classes<L>>> {
    OfClass::with_share(Arc::clone(classes), share)
}

/// Creates classes that are asked by shares alone.
fn classes<L>(limiter: L) -> Arc<Classes<L>> {
    Arc::new(Classes::new(limiter, &[1.0]).expect("a class with the whole limit"))
}

impl<C: RuleClock> ByClass<C> {
    /// Creates the limiter of a limit in flight that was checked.
    pub(super) fn new(limit: &Limit, clock: &C) -> Self {
        match One::known(limit, clock) {
            One::InFlight(limiter) => Self::InFlight(classes(limiter)),
            One::AdaptiveInFlight(limiter) => Self::Adaptive(classes(limiter)),
            _ => unreachable!("a rule with a priority limits the requests in flight"),
        }
    }

    /// Returns the limiter inside, which all requests share.
    fn one(&self) -> One<C> {
        match self {
            Self::InFlight(classes) => One::InFlight(Arc::clone(classes.limiter())),
            Self::Adaptive(classes) => One::AdaptiveInFlight(Arc::clone(classes.limiter())),
        }
    }

    /// Changes the limit in place, to one that was checked and is of the same kind.
    pub(super) fn set(&self, limit: &Limit) {
        self.one().set(limit);
    }

    pub(super) fn watched(&self) -> Option<WatchedState> {
        self.one().watched()
    }

    pub(super) fn decide_with(&self, share: Share, ask: &Ask<'_>) -> Decision<RulePermit<C>> {
        match self {
            Self::InFlight(classes) => of_share(classes, share).decide(ask).map(Into::into),
            Self::Adaptive(classes) => {
                of_share(classes, share).decide(ask).map(|it| Box::new(it).into())
            }
        }
    }

    pub(super) fn peek_with(&self, share: Share, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Self::InFlight(classes) => of_share(classes, share).peek(ask),
            Self::Adaptive(classes) => of_share(classes, share).peek(ask),
        }
    }

    pub(super) fn with_account<T>(&self, share: Share, read: impl FnOnce(&dyn Account) -> T) -> T {
        match self {
            Self::InFlight(classes) => read(of_share(classes, share).account()),
            Self::Adaptive(classes) => read(of_share(classes, share).account()),
        }
    }
}

/// The whole limit, as the table of keys asks for it: a key whose permits are all back is as new.
impl<C: RuleClock> Limiter for ByClass<C> {
    type Permit = RulePermit<C>;

    fn decide(&self, ask: &Ask<'_>) -> Decision<RulePermit<C>> {
        self.decide_with(Share::ALL, ask)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.peek_with(Share::ALL, ask)
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl<C: RuleClock> Account for ByClass<C> {
    fn now(&self) -> Timestamp {
        self.with_account(Share::ALL, |account| account.now())
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.with_account(Share::ALL, |account| account.quota(now))
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.with_account(Share::ALL, |account| account.is_as_new(now))
    }
}
