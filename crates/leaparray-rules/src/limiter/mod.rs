//! The limiters of rules.

mod asked;
mod bucket;
mod by_class;
mod by_tenant;
mod fast;
#[cfg(feature = "fleet")]
mod fleet;
mod gate;
mod one;
mod per_key;
mod permit;
mod permits;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::flow::shadow::Rollout;
use leaparray::flow::{Ask, Decision, Limiter, LimiterExt, Named, Refusal};
use leaparray::{Clock, ManualClock, Registry, Timestamp};

use crate::limit::Limit;
use crate::part::Part;
use crate::rule::Rule;
pub(crate) use asked::{Asked, Watched};
pub(crate) use bucket::{BUCKETS, Bucket, Buckets};
use by_class::ByClass;
use by_tenant::ByTenant;
pub(crate) use fast::{FastLimiter, is_admitted};
use gate::Gate;
use one::One;
use per_key::PerKey;
pub use permit::RulePermit;
pub use permits::RulePermits;

/// The bounds of a clock of rules.
pub trait RuleClock: Clock + Clone + Send + Sync + 'static {}

impl<C: Clock + Clone + Send + Sync + 'static> RuleClock for C {}

/// The name of a rule, by which the limiter of each request is named.
pub(crate) type RuleName = Named<Nothing>;

/// A limiter that has nothing but its name.
#[derive(Clone, Copy)]
pub(crate) struct Nothing;

/// A limiter that refuses each request in the same way.
struct Refuses(Refusal);

impl Limiter for Nothing {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Admitted(())
    }
}

impl Limiter for Refuses {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(self.0)
    }
}

/// Returns a refusal in the name of a rule, unless it has a name.
#[inline(never)]
pub(crate) fn named(name: &RuleName, ask: &Ask<'_>, refusal: Refusal) -> Refusal {
    name.over(Refuses(refusal)).decide(ask).refusal().unwrap_or(refusal)
}

pub(crate) fn name(name: &str) -> RuleName {
    Nothing.named(name)
}

/// The fleet that the program has given the rules, if it has.
#[cfg(feature = "fleet")]
pub(crate) type MaybeFleet = Option<crate::fleet::Fleet>;
#[cfg(not(feature = "fleet"))]
pub(crate) type MaybeFleet = Option<NoFleet>;

/// No program has a fleet without the feature.
#[cfg(not(feature = "fleet"))]
pub(crate) enum NoFleet {}

/// Why a limiter with classes or tenants is not asked by a key alone.
const ASKED: &str = "a rule with a priority or with tenants is asked by parts of its limit";

/// The limiter of a rule. It is changed in place, and outlives the plans that it is in.
pub(crate) enum RuleLimiter<C: RuleClock> {
    /// One limit for all requests.
    One(One<C>),
    /// A limit for each key.
    PerKey {
        keys: PerKey<C>,
        /// The number of requests that lacked the key.
        without_key: AtomicU64,
    },
    /// One limit for all requests, of which each may use a share.
    ByClass(ByClass<C>),
    /// One limit for all requests, which tenants share fairly.
    ByTenant(ByTenant<C>),
}

/// Returns why a limit cannot be made, if it cannot.
pub(crate) fn check(limit: &Limit) -> Result<(), String> {
    if let Limit::Refuse(overload) = limit {
        return overload.check();
    }
    // A clock of the process takes longer to make than the limiter.
    One::new(limit, &ManualClock::new(Timestamp::MIN)).map(drop)
}

impl<C: RuleClock> RuleLimiter<C> {
    /// Creates the limiters of rules that were checked, in their order.
    pub(crate) fn all(
        rules: &[&Rule],
        registry: &Arc<Registry<C>>,
        fleet: &MaybeFleet,
    ) -> Vec<Arc<Self>> {
        let clock = registry.clock();
        // A limit with a key has a bucket for each.
        let has_bucket = |rule: &&Rule| rule.key.is_none();
        let bucket = |rule: &Rule| one::known_bucket(&rule.limit, clock);
        let buckets = rules.iter().copied().filter(has_bucket).filter_map(bucket).collect();
        let mut buckets = Bucket::of_all(buckets, clock).into_iter();
        let limiters = rules.iter().copied().map(|rule| {
            let is_bucket = has_bucket(&rule) && matches!(rule.limit, Limit::Bucket { .. });
            Arc::new(match is_bucket.then(|| buckets.next()).flatten() {
                Some(bucket) => Self::One(One::Bucket(bucket)),
                None => Self::new(rule, registry, fleet),
            })
        });
        limiters.collect()
    }

    /// Returns the limiter if it is a bucket for all requests.
    pub(crate) const fn bucket(&self) -> Option<&Bucket<C>> {
        if let Self::One(One::Bucket(bucket)) = self { Some(bucket) } else { None }
    }

    /// Creates the limiter of a rule that was checked.
    fn new(rule: &Rule, registry: &Arc<Registry<C>>, fleet: &MaybeFleet) -> Self {
        if let Limit::Refuse(overload) = &rule.limit {
            return Self::One(One::Gate(
                Gate::new(overload.clone(), Arc::downgrade(registry)).into(),
            ));
        }
        let clock = registry.clock();
        match rule.key {
            Some(_) if rule.priority.is_some() => Self::PerKey {
                keys: PerKey::by_class(&rule.limit, rule.max_keys, clock),
                without_key: AtomicU64::new(0),
            },
            None if rule.priority.is_some() => Self::ByClass(ByClass::new(&rule.limit, clock)),
            None if rule.tenants.is_some() => {
                Self::ByTenant(ByTenant::new(&rule.limit, rule.max_keys, clock))
            }
            None => {
                let one = One::known(&rule.limit, clock);
                one.start(fleet, rule);
                Self::One(one)
            }
            Some(_) => Self::PerKey {
                keys: PerKey::new(&rule.limit, rule.max_keys, clock),
                without_key: AtomicU64::new(0),
            },
        }
    }

    /// Returns whether the limiter has what it needs: a limit over the fleet needs leases.
    pub(crate) fn is_started(&self) -> bool {
        match self {
            Self::One(one) => one.is_started(),
            Self::PerKey { .. } | Self::ByClass(_) | Self::ByTenant(_) => true,
        }
    }

    /// Returns the state of the leases of a limit over the fleet.
    #[cfg(feature = "fleet")]
    pub(crate) fn lease_state(&self) -> Option<leaparray_redis::LeaseState> {
        let Self::One(One::Fleet(limiter)) = self else { return None };
        limiter.lease_state()
    }

    /// Ends the limiter of a rule that is gone, after the rules in force were replaced. Returns
    /// whether it has a state with which the rule can come back: that of a fleet is on its server.
    pub(crate) fn end(&self) -> bool {
        match self {
            Self::One(one) => one.end(),
            Self::PerKey { .. } | Self::ByClass(_) | Self::ByTenant(_) => true,
        }
    }

    /// Changes the numbers in place, to a limit that was checked and is of the same kind.
    pub(crate) fn set(&self, limit: &Limit, clock: &C) {
        match self {
            Self::One(one) => one.set(limit),
            Self::PerKey { keys, .. } => keys.set(limit, clock),
            Self::ByClass(classes) => classes.set(limit),
            Self::ByTenant(tenants) => tenants.set(limit),
        }
    }

    /// Returns the permits that are charged at `now`; `None` unless it limits the rate of all
    /// requests together.
    pub(crate) fn taken(&self, now: Timestamp) -> Option<u64> {
        let Self::One(one) = self else { return None };
        one.taken(now)
    }

    /// Charges permits, as far as they are left, if it limits the rate of all requests together.
    pub(crate) fn take(&self, now: Timestamp, permits: u64) {
        let Self::One(one) = self else { return };
        let left = one.rate_quota(now).map_or(0, |it| it.remaining);
        // Without a permit that would have to end.
        drop(one.decide(&Ask::at(now).many(permits.min(left))));
    }

    /// As [`take`](Self::take), by a limiter that no request is decided by. A window is also
    /// charged with more permits than it admits: they count if its limit rises.
    pub(crate) fn take_beyond(&self, now: Timestamp, permits: u64) {
        let Self::One(one) = self else { return };
        one.with_room_for(now, permits, || self.take(now, permits));
    }

    /// Counts a request that lacks the key.
    pub(crate) fn count_without_key(&self) {
        if let Self::PerKey { without_key, .. } = self {
            // Relaxed: the number orders nothing.
            without_key.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of requests that lacked the key.
    pub(crate) fn without_key(&self) -> u64 {
        match self {
            Self::One(_) | Self::ByClass(_) | Self::ByTenant(_) => 0,
            Self::PerKey { without_key, .. } => without_key.load(Ordering::Relaxed),
        }
    }

    /// Decides on a request with that key, and adds its permit to `permits` if that has an end.
    ///
    /// # Panics
    ///
    /// Panics if the rule has a priority or tenants: such a rule is [asked](Self::asked).
    #[inline]
    pub(crate) fn decide_into(
        &self,
        key: &str,
        ask: &Ask<'_>,
        permits: &mut RulePermits<C>,
    ) -> Decision {
        match self {
            Self::One(one) => one.decide_into(ask, permits),
            Self::PerKey { keys, .. } => keys.decide_into(key, ask, permits),
            Self::ByClass(_) | Self::ByTenant(_) => unreachable!("{ASKED}"),
        }
    }

    /// Returns the decision that a request with that key would get.
    ///
    /// # Panics
    ///
    /// As [`decide_into`](Self::decide_into).
    #[inline]
    pub(crate) fn foretell(&self, key: &str, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Self::One(one) => one.foretell(ask),
            Self::PerKey { keys, .. } => keys.foretell(key, ask),
            Self::ByClass(_) | Self::ByTenant(_) => unreachable!("{ASKED}"),
        }
    }

    /// Returns the limiter for a request with that key, which may use that part of the limit, as
    /// far as it is enforced.
    #[inline]
    pub(crate) const fn asked<'a>(
        &'a self,
        key: &'a str,
        part: Part<'a>,
        rollout: Option<&'a Rollout>,
    ) -> Asked<'a, C> {
        Asked { limiter: self, key, part, rollout }
    }
}
