//! A budget of the retries in flight.

use std::fmt;
use std::ops::Deref;

use super::{AtomicBudget, BudgetError, checked, refuse};
use crate::flow::contract::{Account, Ask, Decision, Quota, QuotaUnit, Refusal, lend};
use crate::node::{Outcome, Permit};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// A budget of retries in flight: at most a share of the other requests in flight, or a minimum if
/// that is more.
///
/// A request is in flight from its first attempt to the end of its last one. The caller
/// [counts](Self::request) it, and asks for a permit for each retry, which it holds until that
/// attempt ends.
///
/// A retry is admitted only if the retries in flight, with it, are at most the share of the other
/// requests in flight at the same moment, rounded down, or at most the minimum: to the unit, under
/// any race. The others are those whose first attempt is in flight: the requests less the retries.
/// So with a share of 20 %, there are at most 1.2 attempts in flight for each first attempt. The
/// load is then at most 1.2 times that of the requests, if retries take as long as first attempts.
/// Retries that fail at once while first attempts take long are more: bound them by a
/// [`RetryBudget`](super::RetryBudget) as well, or wait before each of them with its permit.
///
/// When requests end, their share ends with them, and retries that were admitted before go on.
///
/// Envoy's `retry_budget` has a share of 20 % and a minimum of 3 by default. It counts retries
/// among the requests of which it takes the share. So its 20 % are 25 % of the others, which are a
/// share of 0.25 here.
///
/// ```
/// use leaparray::flow::LimiterExt;
/// use leaparray::flow::budget::LiveBudget;
///
/// let budget = LiveBudget::new(0.2, 1)?;
/// let requests: Vec<_> = (0..12).map(|_| budget.request()).collect();
/// let retries = [budget.try_acquire(), budget.try_acquire()];
/// assert!(retries.iter().all(|it| it.is_admitted()));
/// assert!(budget.try_acquire().is_refused(), "2 are 20 % of the other 10");
/// assert_eq!((budget.requests(), budget.retries()), (12, 2));
/// drop((requests, retries));
/// assert!(budget.try_acquire().is_admitted(), "the minimum");
/// # Ok::<_, leaparray::flow::budget::BudgetError>(())
/// ```
#[derive(Debug)]
pub struct LiveBudget {
    settings: AtomicBudget,
    /// `{ requests: 32, retries: 32 }`. One word, so a retry is admitted by the requests of the
    /// same moment.
    ///
    /// Relaxed everywhere: the counts order nothing, and the modification order of the word
    /// decides.
    word: AtomicU64,
}

/// One request, in the upper half of the word.
const REQUEST: u64 = 1 << 32;
const MOST: u64 = REQUEST - 1;

impl LiveBudget {
    /// Creates a budget of `share` of the other requests in flight, in steps of a millionth, or of
    /// `minimum` retries if that is more.
    ///
    /// # Errors
    ///
    /// Returns a [`BudgetError`] if `share` is not between 0 and 1,000, or if `minimum` is above
    /// 2³² − 1.
    pub fn new(share: f64, minimum: u64) -> Result<Self, BudgetError> {
        let share = checked(share, minimum, MOST)?;
        Ok(Self { settings: AtomicBudget::new(share, minimum), word: AtomicU64::new(0) })
    }

    /// [Changes](crate::flow#changes-in-place) the share and the minimum. Retries in flight go on.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new). Nothing is then changed.
    ///
    /// ```
    /// use leaparray::flow::LimiterExt;
    /// use leaparray::flow::budget::LiveBudget;
    ///
    /// let budget = LiveBudget::new(0.2, 1)?;
    /// budget.reconfigure(0.2, 2)?;
    /// assert!(budget.try_acquire_many(2).is_admitted());
    /// # Ok::<_, leaparray::flow::budget::BudgetError>(())
    /// ```
    pub fn reconfigure(&self, share: f64, minimum: u64) -> Result<(), BudgetError> {
        self.settings.store(checked(share, minimum, MOST)?, minimum);
        Ok(())
    }

    /// Counts a request, until the result is dropped. To send the result to another thread, make it
    /// of an [`Arc`](std::sync::Arc) by [`LiveRequest::of`].
    pub fn request(&self) -> LiveRequest<&Self> {
        LiveRequest::of(self)
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.word.load(Ordering::Relaxed) / REQUEST
    }

    /// Returns the number of retries in flight.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.word.load(Ordering::Relaxed) % REQUEST
    }

    /// Returns the highest number of retries in flight, and how many of them are left.
    fn limit(&self, word: u64) -> (u64, u64) {
        let (share, minimum) = self.settings.load();
        let limit = share.of_rest(word / REQUEST).max(minimum).min(MOST);
        (limit, limit.saturating_sub(word % REQUEST))
    }

    fn admit(&self, ask: &Ask<'_>) -> Result<u64, Refusal> {
        let permits = ask.permits();
        let take = |word| (permits <= self.limit(word).1).then(|| word + permits);
        match self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(permits),
            Err(_) => Err(refuse(permits, MOST)),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as of the controllers that cannot tell")]
    fn foretold(&self, ask: &Ask<'_>) -> Option<Decision> {
        let (_, left) = self.limit(self.word.load(Ordering::Relaxed));
        Some(if ask.permits() <= left {
            Decision::Admitted(())
        } else {
            Decision::Refused(refuse(ask.permits(), MOST))
        })
    }
}

impl Account for LiveBudget {
    /// Returns the limit by the requests in flight, and the retries that are left of it.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let word = self.word.load(Ordering::Relaxed);
        let (limit, left) = self.limit(word);
        let reset = (word == 0).then_some(now);
        Some(Quota::new(limit, left, reset).with_unit(QuotaUnit::InFlight))
    }
}

lend!(RetryPermit, [] LiveBudget);

/// A request in flight, which a [`LiveBudget`] counts until this value is dropped.
///
/// `L` is the type of the reference to the budget: `&LiveBudget` or [`Arc`](std::sync::Arc).
#[must_use = "a request that is dropped at once is not counted"]
pub struct LiveRequest<L: Deref<Target = LiveBudget>>(L);

impl<L: Deref<Target = LiveBudget>> LiveRequest<L> {
    /// Counts a request by any reference to a budget.
    ///
    /// ```
    /// use leaparray::flow::budget::{LiveBudget, LiveRequest};
    /// use std::sync::Arc;
    ///
    /// let budget = Arc::new(LiveBudget::new(0.2, 3)?);
    /// let request = LiveRequest::of(Arc::clone(&budget));
    /// assert_eq!(budget.requests(), 1);
    /// std::thread::spawn(move || drop(request)).join().expect("it does not panic");
    /// assert_eq!(budget.requests(), 0);
    /// # Ok::<_, leaparray::flow::budget::BudgetError>(())
    /// ```
    pub fn of(budget: L) -> Self {
        budget.word.fetch_add(REQUEST, Ordering::Relaxed);
        Self(budget)
    }
}

impl<L: Deref<Target = LiveBudget>> Drop for LiveRequest<L> {
    fn drop(&mut self) {
        self.0.word.fetch_sub(REQUEST, Ordering::Relaxed);
    }
}

impl<L: Deref<Target = LiveBudget>> fmt::Debug for LiveRequest<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRequest").finish_non_exhaustive()
    }
}

/// The permit of a retry in flight. Dropping this value gives it back.
///
/// `L` is the type of the reference to the budget: `&LiveBudget` or [`Arc`](std::sync::Arc).
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct RetryPermit<L: Deref<Target = LiveBudget>> {
    budget: L,
    permits: u64,
}

impl<L: Deref<Target = LiveBudget>> RetryPermit<L> {
    /// Asks a budget through any reference to it, such as an [`Rc`](std::rc::Rc) or a guard.
    pub fn ask(budget: L, ask: &Ask<'_>) -> Decision<Self> {
        match budget.admit(ask) {
            Ok(permits) => Decision::Admitted(Self { budget, permits }),
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    const fn of(budget: L, permits: u64) -> Self {
        Self { budget, permits }
    }
}

impl<L: Deref<Target = LiveBudget>> Permit for RetryPermit<L> {
    /// Does nothing: the permit is given back when it is dropped, whatever the outcome.
    fn end_at(&mut self, _now: Timestamp, _outcome: Outcome) {}
}

impl<L: Deref<Target = LiveBudget>> Drop for RetryPermit<L> {
    fn drop(&mut self) {
        self.budget.word.fetch_sub(self.permits, Ordering::Relaxed);
    }
}

impl<L: Deref<Target = LiveBudget>> fmt::Debug for RetryPermit<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPermit").field("permits", &self.permits).finish_non_exhaustive()
    }
}
