//! Fair shares of tenants in a limit in flight.
//!
//! A limit in flight admits the tenant that asks most often. With [`FairShares`], each tenant gets
//! its weighted share of the limit while all of it is in demand, however often the others ask. A
//! share that is not used is lent to the others, and comes back as their calls end.
//!
//! ```
//! use leaparray::flow::shares::FairShares;
//! use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
//! use std::sync::Arc;
//!
//! let limit = Arc::new(ConcurrencyLimiter::new(32));
//! let shares = FairShares::new(limit, 1_000_000)?;
//! // Alone, a tenant gets the limit, but for a reserve of a sixteenth.
//! let [ann, bob] = [shares.tenant("ann", 1), shares.tenant("bob", 1)];
//! let mut of_ann: Vec<_> = std::iter::from_fn(|| ann.try_acquire().at_once().ok()).collect();
//! assert_eq!(of_ann.len(), 30);
//! let mut of_bob: Vec<_> = std::iter::from_fn(|| bob.try_acquire().at_once().ok()).collect();
//! assert_eq!(of_bob.len(), 2, "the reserve, and what the calls of ann give back");
//! for _ in 0..30 {
//!     of_ann.remove(0);
//!     // The tenant that asks first, and more often, does not get more than its half.
//!     of_ann.extend(ann.try_acquire().at_once());
//!     of_bob.extend(bob.try_acquire().at_once());
//! }
//! assert_eq!((of_ann.len(), of_bob.len()), (15, 15));
//! # Ok::<_, leaparray::flow::shares::ShareError>(())
//! ```

mod demand;
mod hungry;
mod table;

use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::ops::Deref;

use super::priority::LimitInForce;
use crate::flow::contract::{Account, Ask, Decision, Limiter, Quota, QuotaUnit, Refusal, Retry};
use crate::node::{Outcome, Permit, Reason};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;
use demand::Demand;
use hungry::HungryUse;
use sealed::GiveBack;
use table::{Found, Table, Word};

impl Reason {
    /// The reason of a refusal of a tenant that has its [share](crate::flow::shares) of a limit in
    /// flight, while other tenants want theirs.
    pub const SHARE_USED: Self = Self::Custom("the tenant has its share of the limit");
}

/// Fair shares of tenants in a limit in flight, fixed or adaptive.
///
/// # Shares
///
/// A tenant that was refused is *hungry*, for one to two epochs. An epoch ends when as many permits
/// have come back as the limit has: at a limit in use, that is one mean response time, by Little's
/// law. Permits of requests that do not go ahead do not count: another limiter of an
/// [`AllOf`](crate::flow::AllOf) has refused them. The hungry tenants divide what the others leave
/// of the limit: each may hold `weight / weights of the hungry` of it, and no more, also if a
/// permit is free. So a tenant gets the permits that another one gives back although that one asks
/// more often.
///
/// - *Exact*: the permits in use never exceed the limit, under any race.
/// - *No refusal without need*: a request is admitted if at most half of the limit, or a single
///   permit, is in use with it. A tenant that is not hungry is refused only if it would hold more
///   than its share as a hungry one, or if the whole limit is in use.
/// - *Lent*: the share of a tenant that asks for less is divided among the hungry ones, and comes
///   back as their calls end, which no other one may replace: within a response time.
/// - A sixteenth of the limit, rounded down, is a reserve for tenants that are not hungry, so that
///   tenants that ask for little are rarely refused.
/// - If a share is no whole number, it is rounded up or down by epoch and tenant at random, so that
///   it is right in the mean. If it is less than one permit, a tenant that asks often still gets
///   more than one that asks seldom: that one does not ask in each epoch in which it has a permit.
///
/// A request for more permits than the share of its tenant is refused while it is hungry.
///
/// Behind a [`WaitQueue`](crate::flow::WaitQueue) and in an [`AllOf`](crate::flow::AllOf), a tenant
/// is also refused by the first [peek](Limiter::peek) of its request. A limit that adapts itself
/// counts as [reached](LimitInForce::note_reached) if a tenant is refused while all but the reserve
/// is in use.
///
/// In a [`WaitQueue`](crate::flow::WaitQueue) over a tenant, a request waits while the whole limit
/// is in use, and is refused at once if the tenant has its [share](Reason::SHARE_USED). A waiter is
/// woken when a permit of that queue is given back. Call
/// [`WaitQueue::recheck`](crate::flow::WaitQueue::recheck) after a permit of another tenant.
///
/// # Memory
///
/// A tenant has a word of 8 bytes in a table of 32 bytes for each of the tenants that were
/// announced, and only while it holds permits or is hungry. No decision takes a lock. Tenants are
/// told apart by 64-bit hashes, with a random key, of which a table for a million tenants compares
/// 43 bits: of a million tenants that are busy at the same time, each has a share of its own but
/// with a chance of one in eight million. A tenant for which the table has no room is admitted
/// while at most half of the limit is in use, and refused otherwise.
///
/// If two threads ask for a tenant that has no word at the same time, it may get two, and then hold
/// up to twice its share until its calls end.
pub struct FairShares<L, S = RandomState> {
    limiter: L,
    hasher: S,
    tenants: Table,
    demand: Demand,
    /// Of all tenants.
    in_use: AtomicU64,
    hungry: HungryUse,
}

/// The error of [`FairShares::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareError {
    /// The number of tenants is 0, or above the highest.
    Tenants {
        /// The number that was asked for.
        tenants: usize,
        /// The highest number.
        max: usize,
    },
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Tenants { tenants, max } = self;
        write!(f, "a table of {tenants} tenants is not between 1 and {max}")
    }
}

impl Error for ShareError {}

impl<L> FairShares<L> {
    /// The highest number of tenants: 2²⁴.
    pub const MAX_TENANTS: usize = 1 << 24;

    /// Divides the limit of `limiter` among up to `tenants` tenants that are busy at the same time.
    ///
    /// # Errors
    ///
    /// Returns a [`ShareError`] if `tenants` is 0, or above [`MAX_TENANTS`](Self::MAX_TENANTS).
    pub fn new(limiter: L, tenants: usize) -> Result<Self, ShareError> {
        Self::with_hasher(limiter, tenants, RandomState::new())
    }
}

impl<L, S> FairShares<L, S> {
    /// Divides the limit, and hashes tenants by `hasher`.
    ///
    /// # Errors
    ///
    /// As for [`new`](FairShares::new).
    pub fn with_hasher(limiter: L, tenants: usize, hasher: S) -> Result<Self, ShareError> {
        let max = FairShares::<L>::MAX_TENANTS;
        if tenants == 0 || tenants > max {
            return Err(ShareError::Tenants { tenants, max });
        }
        let (in_use, hungry) = (AtomicU64::new(0), HungryUse::new());
        let (tenants, demand) = (Table::new(tenants), Demand::new());
        Ok(Self { limiter, hasher, tenants, demand, in_use, hungry })
    }

    /// Returns the limiter of a tenant: see [`OfTenant::new`].
    pub fn tenant<K: Hash + ?Sized>(&self, tenant: &K, weight: u32) -> OfTenant<&Self>
    where
        S: BuildHasher,
    {
        OfTenant::new(self, tenant, weight)
    }

    /// Returns the limiter that is divided.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Returns the number of permits in use of all tenants.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }
}

/// A tenant, as a decision needs it.
#[derive(Clone, Copy, Debug)]
struct Tenant {
    hash: u64,
    weight: u64,
}

impl Tenant {
    /// Returns a number below 2³² at random, the same for a tenant in an epoch.
    const fn dither(self, epoch: u64) -> u64 {
        // The mixing function of SplitMix64.
        let mut bits = self.hash ^ epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) >> 32
    }
}

/// The state that a decision finds, before it takes permits.
struct Look<'a> {
    found: Option<Found<'a>>,
    epoch: u64,
    limit: u64,
    in_use: u64,
    tenant: Tenant,
    /// The permits that the hungry tenants divide, and their weights.
    left: u64,
    weights: u64,
}

impl Look<'_> {
    /// Returns the reason for which a tenant is refused; `None` if it is admitted.
    fn refuse(&self, permits: u64) -> Option<Reason> {
        if !admits(self.limit, self.in_use, permits) {
            return Some(Reason::LimitReached);
        }
        let held = self.found.as_ref().map_or(0, |found| found.own.in_use());
        // At least one: with a limit of 1, a share may be 0 for each tenant.
        let is_plenty = admits((self.limit / 2).max(1), self.in_use, permits);
        // Not divided while there is plenty.
        let is_share = || self.found.is_some() && permits <= self.share().saturating_sub(held);
        let is_counted = permits <= Word::MOST - held;
        (!is_counted || !is_plenty && !is_share()).then_some(Reason::SHARE_USED)
    }

    /// Returns the permits that the tenant may hold, as a hungry one.
    fn share(&self) -> u64 {
        let Tenant { weight, .. } = self.tenant;
        // In parts of 2⁻³²: a share that is no whole number is rounded at random.
        let share =
            u128::from(self.left) * u128::from(weight << 32) / u128::from(self.weights.max(weight));
        let share = (share + u128::from(self.tenant.dither(self.epoch))) >> 32;
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

impl<L: Limiter + LimitInForce, S> FairShares<L, S> {
    /// Returns what a decision on a tenant finds, of whose request `taken` permits are in use.
    fn look(&self, tenant: Tenant, taken: u64) -> Look<'_> {
        let (limit, demand) = (self.limiter.limit_in_force(), self.demand.load());
        let epoch = demand.epoch();
        let found = self.tenants.find(tenant.hash, epoch);
        let in_use = self.in_use().saturating_sub(taken);
        let mut others = in_use.saturating_sub(self.hungry.in_use(epoch));
        let mut weights = demand.weights();
        let own = found.as_ref().map(|found| found.own);
        if !own.is_some_and(|own| own.is_hungry(epoch)) {
            weights += tenant.weight;
            others = others.saturating_sub(own.map_or(0, Word::in_use));
        }
        let left = limit.saturating_sub(limit / RESERVE).saturating_sub(others);
        Look { found, epoch, limit, in_use, tenant, left, weights }
    }

    /// Takes permits for a tenant. Returns the number of its slot, or `None` if it has none.
    fn take(&self, tenant: Tenant, permits: u64) -> Result<Option<usize>, Reason> {
        if permits == 0 {
            return Ok(None);
        }
        if let Some(reason) = self.look(tenant, 0).refuse(permits) {
            return Err(reason);
        }
        let limit = self.limiter.limit_in_force();
        let take = |in_use| admits(limit, in_use, permits).then(|| in_use + permits);
        // Acquire: pairs with the Release in `give_back`, as in `Classes`.
        if self.in_use.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_err() {
            return Err(Reason::LimitReached);
        }
        loop {
            let look = self.look(tenant, permits);
            // Another request of the tenant may have taken the permits since.
            if let Some(reason) = look.refuse(permits) {
                // Relaxed: nothing was taken from the limiter. This continues the release sequence of
                // `give_back`.
                self.in_use.fetch_sub(permits, Ordering::Relaxed);
                return Err(reason);
            }
            let Some(found) = look.found else { return Ok(None) };
            let own = found.own;
            let own = if own.is_hungry(look.epoch) { own } else { own.sated() };
            if self.replace(&found, own.plus(permits)) {
                return Ok(Some(found.number));
            }
        }
    }

    fn refusal(&self, reason: Reason, ask: &Ask<'_>) -> Refusal {
        if ask.permits() > Word::MOST {
            return Refusal::never();
        }
        // It may be more than the limiter can ever admit.
        let is_more = ask.permits() > self.limiter.limit_in_force();
        let of_limiter = || ask.foretold_by(&self.limiter)?.refusal();
        let of_limiter = if is_more { of_limiter() } else { None };
        of_limiter.unwrap_or_else(|| Refusal::new(reason, Retry::Unknown))
    }

    /// Notes that a tenant was refused.
    #[cold]
    fn note_refused(&self, tenant: Tenant, permits: u64) {
        let (limit, in_use) = (self.limiter.limit_in_force(), self.in_use());
        // With it, the reserve would be used, or more. So a limit that adapts itself grows, although
        // it is never in use as a whole while all tenants are hungry.
        if permits <= limit && !admits(limit - limit / RESERVE, in_use, permits) {
            self.limiter.note_reached();
        }
        self.note_hunger(tenant);
    }

    fn note_hunger(&self, tenant: Tenant) {
        loop {
            let epoch = self.demand.load().epoch();
            let Some(found) = self.tenants.find(tenant.hash, epoch) else { return };
            if found.own.is_flagged() && found.own.epoch() == epoch {
                return;
            }
            let was_hungry = found.own.is_hungry(epoch);
            if self.replace(&found, found.own.hungry_in(epoch)) {
                return self.demand.add(epoch, tenant.weight, was_hungry);
            }
        }
    }
}

impl<L, S> FairShares<L, S> {
    /// Replaces the word of a slot, unless it has changed, and counts what hungry tenants hold.
    fn replace(&self, found: &Found<'_>, next: Word) -> bool {
        // The modification order of the word decides.
        //
        // AcqRel: pairs with itself, and with the Acquire in `give_back`. A thread that finds the
        // epoch of a tenant's hunger then loads that epoch as the present one, or a later one.
        let (from, order) = (found.word.0, Ordering::AcqRel);
        let replaced = found.slot.compare_exchange(from, next.0, order, Ordering::Relaxed);
        if replaced.is_ok() {
            // Not of a tenant that is not hungry: all threads share those words.
            self.hungry.count(found.own, next, || self.demand.load().epoch());
        }
        replaced.is_ok()
    }
}

/// The part of the limit that is left for tenants that are not hungry.
const RESERVE: u64 = 16;

/// Returns whether a limit admits a request. The sum of the permits then does not overflow.
const fn admits(limit: u64, in_use: u64, permits: u64) -> bool {
    permits <= limit.saturating_sub(in_use)
}

/// The limiter of the requests of one tenant: see [`FairShares`].
#[derive(Clone, Copy, Debug)]
pub struct OfTenant<R> {
    shares: R,
    tenant: Tenant,
}

impl<R> OfTenant<R> {
    /// Creates the limiter of a tenant from a reference to the shares, such as an
    /// [`Arc`](std::sync::Arc). The weight is between 1 and 255; one below or above is the nearest
    /// of these. A tenant has the same weight in all requests. A weight that changes counts from
    /// the tenant's first refusal in a later epoch on; until that epoch ends, the former one may
    /// count in its place.
    ///
    /// ```
    /// use leaparray::flow::shares::{FairShares, OfTenant};
    /// use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
    /// use std::sync::Arc;
    ///
    /// let limit = Arc::new(ConcurrencyLimiter::new(2));
    /// let shares = Arc::new(FairShares::new(limit, 100)?);
    /// let premium = OfTenant::new(Arc::clone(&shares), "ann", 4);
    /// let call = premium.try_acquire().at_once().expect("half of the limit");
    /// std::thread::spawn(move || drop(call)).join().expect("it does not panic");
    /// assert_eq!(shares.in_use(), 0);
    /// # Ok::<_, leaparray::flow::shares::ShareError>(())
    /// ```
    pub fn new<L, S, K>(shares: R, tenant: &K, weight: u32) -> Self
    where
        R: Deref<Target = FairShares<L, S>>,
        S: BuildHasher,
        K: Hash + ?Sized,
    {
        let hash = shares.hasher.hash_one(tenant);
        Self { shares, tenant: Tenant { hash, weight: u64::from(weight.clamp(1, 255)) } }
    }
}

impl<L, S, R> Limiter for OfTenant<R>
where
    L: Limiter + LimitInForce,
    R: Deref<Target = FairShares<L, S>> + Clone,
{
    type Permit = TenantPermit<L::Permit, R>;

    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permit> {
        let (shares, permits) = (&*self.shares, ask.permits());
        let slot = match shares.take(self.tenant, permits) {
            Ok(slot) => slot,
            Err(reason) => {
                shares.note_refused(self.tenant, permits);
                return Decision::Refused(shares.refusal(reason, ask));
            }
        };
        // Given back if the limiter refuses the request, or panics.
        let place = Place::new(self.shares.clone(), slot, permits);
        let decision = ask.decided_by(&shares.limiter);
        if decision.is_refused() {
            place.note_withdrawn();
        }
        decision.map(|permit| TenantPermit { permit, place })
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        let refused = self.shares.look(self.tenant, 0).refuse(ask.permits());
        match refused.filter(|_| ask.permits() > 0) {
            Some(reason) => {
                // A combination or a queue that is refused by a peek makes no decision.
                if ask.is_first() {
                    self.shares.note_refused(self.tenant, ask.permits());
                }
                Some(Decision::Refused(self.shares.refusal(reason, ask)))
            }
            None => ask.foretold_by(&self.shares.limiter),
        }
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl<L, S, R> Account for OfTenant<R>
where
    L: Limiter + LimitInForce,
    R: Deref<Target = FairShares<L, S>> + Clone,
{
    fn now(&self) -> Timestamp {
        self.shares.limiter.account().now()
    }

    /// Returns the share that the tenant has at present, and the permits that are left of it.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let look = self.shares.look(self.tenant, 0);
        let held = look.found.as_ref().map_or(0, |found| found.own.in_use());
        let reset = (held == 0).then_some(now);
        let share = look.share().min(look.limit);
        let left = share.saturating_sub(held).min(look.limit.saturating_sub(look.in_use));
        let quota = Quota::new(share, left, reset);
        Some(quota.with_unit(QuotaUnit::InFlight))
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.shares.in_use() == 0 && self.shares.limiter.account().is_as_new(now)
    }
}

/// The permit of a request of a tenant. Dropping it gives the permits back.
///
/// `P` is the permit of the limiter that is divided, and `R` the reference to the shares.
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct TenantPermit<P, R: Deref<Target: GiveBack>> {
    /// Dropped before the place: as in `ClassPermit`.
    permit: P,
    place: Place<R>,
}

impl<P: Permit, R: Deref<Target: GiveBack>> Permit for TenantPermit<P, R> {
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permit.end_at(now, outcome);
    }

    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permit.drop_at(now, outcome);
    }

    fn withdraw_at(&mut self, now: Timestamp) {
        self.permit.withdraw_at(now);
        self.place.note_withdrawn();
    }
}

impl<P: fmt::Debug, R: Deref<Target: GiveBack>> fmt::Debug for TenantPermit<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TenantPermit").field(&self.permit).finish()
    }
}

/// The permits of a request in the counts of the shares. Given back by a drop.
//
// Of two words, since each request moves one.
struct Place<R: Deref<Target: GiveBack>> {
    shares: R,
    /// The number of the slot plus 1. A table has fewer than 2³² slots.
    slot: Option<NonZeroU32>,
    /// At most [`Word::MOST`].
    permits: u32,
}

impl<R: Deref<Target: GiveBack>> Place<R> {
    const FITS: &str = "neither a slot nor the permits of a tenant have more than 32 bits";

    fn new(shares: R, slot: Option<usize>, permits: u64) -> Self {
        let after = |slot: usize| NonZeroU32::new(u32::try_from(slot + 1).expect(Self::FITS));
        let permits = u32::try_from(permits).expect(Self::FITS);
        Self { shares, slot: slot.and_then(after), permits }
    }

    /// Notes that the request does not go ahead. Called at most once, before the drop.
    #[cold]
    fn note_withdrawn(&self) {
        self.shares.note_withdrawn(u64::from(self.permits));
    }
}

impl<R: Deref<Target: GiveBack>> Drop for Place<R> {
    fn drop(&mut self) {
        let slot = self.slot.map(|after| after.get() as usize - 1);
        self.shares.give_back(slot, u64::from(self.permits));
    }
}

mod sealed {
    /// Shares of any limiter, for a permit that does not name it.
    pub trait GiveBack {
        fn give_back(&self, slot: Option<usize>, permits: u64);

        /// Notes that permits are about to be given back that no request has used.
        fn note_withdrawn(&self, permits: u64);
    }
}

impl<L: LimitInForce, S> GiveBack for FairShares<L, S> {
    fn give_back(&self, slot: Option<usize>, permits: u64) {
        if permits == 0 {
            return;
        }
        if let Some(slot) = slot {
            // Acquire: pairs with the Release in `replace`.
            let word = Word(self.tenants.slot(slot).fetch_sub(permits, Ordering::Acquire));
            self.hungry.count(word, word.minus(permits), || self.demand.load().epoch());
        }
        // Release: pairs with the Acquire in `take`.
        self.in_use.fetch_sub(permits, Ordering::Release);
        if let Some(epoch) = self.demand.give_back(permits, self.limiter.limit_in_force()) {
            self.hungry.begin(epoch);
        }
    }

    fn note_withdrawn(&self, permits: u64) {
        self.demand.note_withdrawn(permits);
    }
}

impl<L: fmt::Debug, S> fmt::Debug for FairShares<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairShares")
            .field("limiter", &self.limiter)
            .field("in_use", &self.in_use())
            .finish_non_exhaustive()
    }
}
