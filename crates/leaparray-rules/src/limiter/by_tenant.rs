//! A limit in flight that tenants share fairly.

use std::sync::Arc;

use leaparray::flow::adaptive::{AdaptiveLimiter, Headroom};
use leaparray::flow::shares::{FairShares, OfTenant};
use leaparray::flow::watch::{Watch, WatchedState};
use leaparray::flow::{Account, Ask, ConcurrencyLimiter, Decision, Limiter};

use super::one::One;
use super::{RuleClock, RulePermit};
use crate::limit::Limit;
use crate::part::Part;

/// A limit in flight of which each tenant gets its weighted share. The weights are those of the
/// version of the rules by which a request is decided.
pub(crate) enum ByTenant<C: RuleClock> {
    InFlight(Arc<FairShares<Arc<ConcurrencyLimiter>>>),
    Adaptive(Arc<FairShares<Arc<AdaptiveLimiter<Headroom, C>>>>),
}

fn of_tenant<L>(shares: &Arc<FairShares<L>>, part: Part<'_>) -> OfTenant<Arc<FairShares<L>>> {
    let (name, weight) = match part {
        Part::Tenant { name, weight } => (name, weight),
        // A rule with tenants asks for the part of one.
        Part::Whole | Part::Share(_) => ("", 1),
    };
    OfTenant::new(Arc::clone(shares), name, weight)
}

fn shares<L>(limiter: L, tenants: usize) -> Arc<FairShares<L>> {
    let shares = FairShares::new(limiter, tenants);
    Arc::new(shares.expect("the number of tenants was checked when the rule was read"))
}

impl<C: RuleClock> ByTenant<C> {
    /// Creates the limiter of a limit in flight that was checked.
    pub(super) fn new(limit: &Limit, tenants: usize, clock: &C) -> Self {
        match One::known(limit, clock) {
            One::InFlight(limiter) => Self::InFlight(shares(limiter, tenants)),
            One::AdaptiveInFlight(limiter) => Self::Adaptive(shares(limiter, tenants)),
            _ => unreachable!("a rule with tenants limits the requests in flight"),
        }
    }

    /// Returns the limiter inside, which all requests share.
    fn one(&self) -> One<C> {
        match self {
            Self::InFlight(shares) => One::InFlight(Arc::clone(shares.limiter())),
            Self::Adaptive(shares) => One::AdaptiveInFlight(Arc::clone(shares.limiter())),
        }
    }

    /// Changes the limit in place, to one that was checked and is of the same kind.
    pub(super) fn set(&self, limit: &Limit) {
        self.one().set(limit);
    }

    pub(super) fn watched(&self) -> Option<WatchedState> {
        self.one().watched()
    }

    pub(super) fn decide(&self, part: Part<'_>, ask: &Ask<'_>) -> Decision<RulePermit<C>> {
        match self {
            Self::InFlight(shares) => of_tenant(shares, part).decide(ask).map(Into::into),
            Self::Adaptive(shares) => {
                of_tenant(shares, part).decide(ask).map(|it| Box::new(it).into())
            }
        }
    }

    pub(super) fn peek(&self, part: Part<'_>, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Self::InFlight(shares) => of_tenant(shares, part).peek(ask),
            Self::Adaptive(shares) => of_tenant(shares, part).peek(ask),
        }
    }

    pub(super) fn with_account<T>(
        &self,
        part: Part<'_>,
        read: impl FnOnce(&dyn Account) -> T,
    ) -> T {
        match self {
            Self::InFlight(shares) => read(of_tenant(shares, part).account()),
            Self::Adaptive(shares) => read(of_tenant(shares, part).account()),
        }
    }
}
