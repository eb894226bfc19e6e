//! The permits of a request.

use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

use leaparray::flow::{ConcurrencyLimiter, ConcurrencyPermit};
use leaparray::{MonotonicClock, Outcome, Permit, Timestamp};

use super::permit::Given;
use super::{RuleClock, RulePermit};

/// The permits of a request that all rules have admitted. They end at the limiters that have given
/// them, also if rules were changed or removed since.
#[derive(Debug)]
pub struct RulePermits<C: RuleClock = MonotonicClock>(
    /// `None` if there are none, so that nothing has to be dropped. Dropped by `drop_held`: for the
    /// drop of an enum, which is a call, the permits would lie in memory.
    ManuallyDrop<Option<Held<C>>>,
);

#[derive(Debug)]
enum Held<C: RuleClock> {
    /// The most frequent one. By itself: a drop goes through fewer layers.
    InFlight(ConcurrencyPermit<Arc<ConcurrencyLimiter>>),
    Others(Others<C>),
}

#[derive(Debug)]
enum Others<C: RuleClock> {
    One(RulePermit<C>),
    Two([RulePermit<C>; 2]),
    Many(Vec<RulePermit<C>>),
}

impl<C: RuleClock> RulePermits<C> {
    /// Returns the permits of a request that holds none that have to end. A function: a constant
    /// would be copied as a whole.
    #[inline]
    pub(crate) const fn nothing() -> Self {
        Self(ManuallyDrop::new(None))
    }

    /// Drops the permits that have to end.
    #[inline(never)]
    fn drop_held(&mut self) {
        *self.0 = None;
    }

    /// Returns the permit of a request of one rule that limits the requests in flight.
    #[inline]
    pub(crate) const fn in_flight(permit: ConcurrencyPermit<Arc<ConcurrencyLimiter>>) -> Self {
        Self(ManuallyDrop::new(Some(Held::InFlight(permit))))
    }

    /// Returns the permits among these that have to end.
    pub(crate) fn of_all(permits: impl IntoIterator<Item = RulePermit<C>>) -> Self {
        let mut all = Self::nothing();
        permits.into_iter().filter(|it| !it.is_nothing()).for_each(|it| all.push(it));
        all
    }

    /// Returns the permit, if it is that of one rule that limits the requests in flight, and `None`
    /// if there is no permit that has to end.
    ///
    /// # Errors
    ///
    /// Returns the permits if there are others.
    #[cfg(feature = "tower")]
    #[inline]
    pub(crate) fn into_in_flight(
        mut self,
    ) -> Result<Option<ConcurrencyPermit<Arc<ConcurrencyLimiter>>>, Self> {
        match self.0.take() {
            None => Ok(None),
            Some(Held::InFlight(permit)) => Ok(Some(permit)),
            others => Err(Self(ManuallyDrop::new(others))),
        }
    }

    /// Returns whether there is none that has to end.
    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a permit that has to end. Up to two need no allocation.
    #[inline]
    pub(crate) fn push(&mut self, permit: impl Into<RulePermit<C>>) {
        let RulePermit(given) = permit.into();
        if self.is_nothing() {
            let held = Some(match given {
                Given::InFlight(permit) => Held::InFlight(permit),
                given => Held::Others(Others::One(RulePermit(given))),
            });
            // There is nothing to drop, which a plain assignment would find out by a call.
            mem::forget(mem::replace(&mut *self.0, held));
        } else {
            self.push_another(RulePermit(given));
        }
    }

    #[inline(never)]
    fn push_another(&mut self, permit: RulePermit<C>) {
        *self.0 = Some(Held::Others(match self.0.take() {
            None => Others::One(permit),
            Some(Held::InFlight(first)) => Others::Two([first.into(), permit]),
            Some(Held::Others(Others::One(first))) => Others::Two([first, permit]),
            Some(Held::Others(Others::Two(two))) => {
                Others::Many(two.into_iter().chain([permit]).collect())
            }
            Some(Held::Others(Others::Many(mut many))) => {
                many.push(permit);
                Others::Many(many)
            }
        }));
    }

    #[inline]
    fn for_each(&mut self, end: impl Fn(&mut dyn Permit)) {
        let several: &mut [RulePermit<C>] = match &mut *self.0 {
            None => return,
            Some(Held::InFlight(permit)) => return end(permit),
            Some(Held::Others(Others::One(permit))) => std::slice::from_mut(permit),
            Some(Held::Others(Others::Two(permits))) => permits,
            Some(Held::Others(Others::Many(permits))) => permits,
        };
        for permit in several {
            end(permit);
        }
    }
}

/// In place if there are no permits, which is most frequent.
impl<C: RuleClock> Drop for RulePermits<C> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_nothing() {
            self.drop_held();
        }
    }
}

impl<C: RuleClock> Permit for RulePermits<C> {
    #[inline]
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.for_each(|it| it.end_at(now, outcome));
    }

    #[inline]
    fn withdraw_at(&mut self, now: Timestamp) {
        self.for_each(|it| it.withdraw_at(now));
    }

    #[inline]
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.for_each(|it| it.drop_at(now, outcome));
    }
}
