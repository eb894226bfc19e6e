//! Reservations over a limiter of any kind.

use std::sync::PoisonError;
use std::task::Waker;
use std::time::Duration;

use super::book::Settlement;
use super::limiter::Unsettled;
use super::reservation::{CostReservation, sealed::Costs};
use crate::flow::contract::{Account, Ask, Decision, Limiter, Passed, Quota, Refusal, Retry, lend};
use crate::flow::watch::WatchedState;
use crate::node::Reason;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::time::Timestamp;

/// A limiter whose permits are [reservations](CostReservation) of another limiter, of any kind,
/// such as a bucket or the limit of a fleet.
///
/// - A lower cost is [given back](Account::refund) as far as that limiter gives back: a window only
///   in the bucket in which the estimate was taken, a token bucket less the tokens that it has
///   added since, and the limit of a fleet while the estimate is in its window, unless the request
///   has entered a node, or permits of the next window follow those of the estimate. A
///   [`CostLimiter`](super::CostLimiter) gives all of it back.
/// - A higher cost becomes a debt, which is paid by taking permits from the limiter: at once, as
///   far as it has any, and before each later request. While there is a debt, requests are refused.
///   So the level of a bucket is below zero, in effect.
///
/// The debt belongs to this value: make one for each limit, and not for each request. For a limit
/// of each key, give a [`Keyed`](crate::flow::Keyed) limiter a function that makes them.
///
/// A debt is paid when a request asks, and not by itself: permits that come while no request asks
/// are lost as far as the limiter does not keep them.
///
/// A request is asked [at once](Ask::at_once): to wait for a limiter that paces, put this one into
/// a [`WaitQueue`](crate::flow::WaitQueue).
///
/// ```
/// use leaparray::flow::settle::Settling;
/// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// // 10 kB a second, up to 50 kB at once.
/// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 50, clock.clone());
/// let bytes = Settling::new(bucket);
/// let settlement = bytes.try_acquire_many(20).at_once()?.settle(70);
/// assert_eq!((settlement.excess, settlement.owed), (50, 20));
/// // 20 tokens below zero: 5 are there after 2.5 s.
/// let refusal = bytes.try_acquire_many(5).refusal().expect("it owes 20");
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_millis(62_500)));
/// clock.advance(Duration::from_millis(2_500));
/// assert!(bytes.try_acquire_many(5).is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Threads
///
/// Without a debt, a request reads one word beside the decision of the limiter. With one, requests
/// take turns by a lock. A request that asks while another one is settled may be admitted before
/// the debt of that one is known.
#[derive(Debug)]
pub struct Settling<L> {
    limiter: L,
    unsettled: Unsettled,
    /// 1 if there is a debt.
    is_in_debt: AtomicU64,
    debt: Mutex<u128>,
}

/// A request that a limiter has admitted.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    now: Timestamp,
    permits: u64,
    has_node: bool,
}

/// The node of a request that has entered one.
struct SomeNode;

impl Passed for SomeNode {
    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }

    fn passed_since(&self, _start: Timestamp, _now: Timestamp) -> u64 {
        0
    }

    fn bucket_end(&self, _now: Timestamp) -> Timestamp {
        Timestamp::MAX
    }
}

impl<L: Limiter<Permit = ()>> Settling<L> {
    /// Creates a limiter of reservations.
    #[must_use]
    pub fn new(limiter: L) -> Self {
        let (is_in_debt, debt) = (AtomicU64::new(0), Mutex::new(0));
        Self { limiter, unsettled: Unsettled::default(), is_in_debt, debt }
    }

    /// Sets the policy for a reservation that is not settled, as
    /// [`CostLimiter::with_unsettled`](super::CostLimiter::with_unsettled).
    #[must_use]
    pub fn with_unsettled(self, unsettled: Unsettled) -> Self {
        Self { unsettled, ..self }
    }

    /// Returns the limiter.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Returns the debt.
    #[must_use]
    pub fn debt(&self) -> u128 {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, u128> {
        self.debt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_in_debt(&self) -> bool {
        // Relaxed: a settlement that happens before this call is found. The debt itself is read
        // under the lock.
        self.is_in_debt.load(Ordering::Relaxed) != 0
    }

    /// Takes permits for the debt at `now`. Returns the refusal of the limiter, if a part of the
    /// debt is left.
    fn pay(&self, debt: &mut u128, now: Timestamp) -> Option<Refusal> {
        let mut refused: Option<Refusal> = None;
        // At most that many at once: less after each refusal.
        let mut most = u64::MAX;
        while *debt > 0 && most > 0 {
            let owed = u64::try_from(*debt).unwrap_or(u64::MAX);
            let quota = self.limiter.account().quota(now);
            let there = quota.map_or(owed, |quota| quota.remaining);
            // With nothing there, it is told of the whole demand, and refuses it.
            let demand = quota.map_or(owed, |quota| quota.limit.max(1));
            let part = owed.min(most).min(if there > 0 { there } else { demand });
            match Ask::at(now).many(part).at_once().decided_by(&self.limiter) {
                Decision::Refused(refusal) => {
                    refused = Some(refusal);
                    most = if there > 0 { part / 2 } else { 0 };
                }
                Decision::Admitted(()) | Decision::Wait(_) => {
                    *debt -= u128::from(part);
                    refused = None;
                }
            }
        }
        self.is_in_debt.store(u64::from(*debt > 0), Ordering::Relaxed);
        if *debt > 0 { refused.or(Some(NOT_KNOWN)) } else { None }
    }

    /// Returns when a request can succeed that finds a debt: when the limiter has the debt and what
    /// it asks for, or if it can never have as much at once, not before it has admitted anything.
    fn owing(&self, ask: &Ask<'_>, debt: u128, refused: Refusal) -> Refusal {
        let all = u64::try_from(debt).unwrap_or(u64::MAX).saturating_add(ask.permits());
        let peek = ask.many(all).again().foretold_by(&self.limiter);
        let known = peek.and_then(|peek| peek.refusal());
        known.filter(|it| it.retry() != Retry::Never).unwrap_or(refused)
    }

    /// Takes the estimate of a request, after the debt.
    fn admit(&self, ask: &Ask<'_>) -> Result<Taken, Refusal> {
        let ask = &ask.at_once();
        if ask.permits() > 0 && self.is_in_debt() {
            let mut debt = self.lock();
            if let Some(refused) = self.pay(&mut debt, ask.now()) {
                return Err(self.owing(ask, *debt, refused));
            }
        }
        ask.decided_by(&self.limiter).at_once()?;
        Ok(Taken { now: ask.now(), permits: ask.permits(), has_node: ask.node().is_some() })
    }

    fn foretold(&self, ask: &Ask<'_>) -> Option<Decision> {
        let ask = &ask.at_once();
        let debt = if ask.permits() > 0 && self.is_in_debt() { self.debt() } else { 0 };
        if debt == 0 {
            return ask.foretold_by(&self.limiter);
        }
        // A debt that the limiter can never give out at once is paid in parts, by decisions.
        let all = u64::try_from(debt).ok()?.saturating_add(ask.permits());
        let peek = ask.many(all).foretold_by(&self.limiter)?;
        let is_never = |it: Refusal| it.retry() == Retry::Never;
        (!peek.refusal().is_some_and(is_never)).then_some(peek)
    }
}

/// The refusal of a request that finds a debt beside a limiter that tells no time.
const NOT_KNOWN: Refusal = Refusal::new(Reason::LimitReached, Retry::Unknown);

impl<L: Limiter<Permit = ()>> Costs for Settling<L> {
    type Mark = Taken;

    fn clock_now(&self) -> Timestamp {
        self.limiter.account().now()
    }

    fn unsettled(&self) -> Unsettled {
        self.unsettled
    }

    fn reserve(&self, ask: &Ask<'_>) -> Result<Taken, Refusal> {
        self.admit(ask)
    }

    fn estimate(mark: &Taken) -> u64 {
        mark.permits
    }

    fn settle(&self, now: Timestamp, mark: Taken, cost: u64) -> Settlement {
        let Some(excess) = cost.checked_sub(mark.permits) else {
            let unused = mark.permits - cost;
            let ask = Ask::at(mark.now).many(unused);
            let ask = if mark.has_node { ask.over(&SomeNode) } else { ask };
            let is_given_back = self.limiter.account().refund(&ask, Duration::ZERO);
            let given_back = if is_given_back { unused } else { 0 };
            return Settlement { given_back, ..Settlement::default() };
        };
        if excess == 0 {
            return Settlement::default();
        }
        let mut debt = self.lock();
        *debt += u128::from(excess);
        self.pay(&mut debt, now);
        let owed = u64::try_from(*debt).unwrap_or(u64::MAX).min(excess);
        Settlement { given_back: 0, excess, owed }
    }
}

impl<L: Limiter<Permit = ()>> Account for Settling<L> {
    fn now(&self) -> Timestamp {
        self.limiter.account().now()
    }

    /// Returns the quota of the limiter, of which nothing remains while there is a debt.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let quota = self.limiter.account().quota(now)?;
        Some(if self.is_in_debt() { Quota { remaining: 0, reset: None, ..quota } } else { quota })
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        self.quota(now).map_or(WatchedState::Nothing, WatchedState::Quota)
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        !self.is_in_debt() && self.limiter.account().is_as_new(now)
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.limiter.account().wake_on_answer(waker)
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.limiter.account().note_wait(permits)
    }
}

lend!(CostReservation, [L: Limiter<Permit = ()>] Settling<L>, learns);
