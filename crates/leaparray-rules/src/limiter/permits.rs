//! The permits of a request.

use leaparray::{MonotonicClock, Outcome, Permit, Timestamp};

use super::{RuleClock, RulePermit};

/// The permits of a request that all rules have admitted. They end at the limiters that have given
/// them, also if rules were changed or removed since.
#[derive(Debug)]
pub struct RulePermits<C: RuleClock = MonotonicClock>(
    /// `None` if there are none, so that nothing has to be dropped.
    Option<Held<C>>,
);

#[derive(Debug)]
enum Held<C: RuleClock> {
    One(RulePermit<C>),
    Two([RulePermit<C>; 2]),
    Many(Vec<RulePermit<C>>),
}

impl<C: RuleClock> RulePermits<C> {
    /// Returns the permits of a request that holds none that have to end. A function: a constant
    /// would be copied as a whole.
    #[inline]
    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    /// Returns the permits of a request of one rule.
    #[inline]
    pub(crate) fn of(permit: impl Into<RulePermit<C>>) -> Self {
        Self(Some(Held::One(permit.into())))
    }

    /// Returns the permits among these that have to end.
    pub(crate) fn of_all(permits: impl IntoIterator<Item = RulePermit<C>>) -> Self {
        let mut all = Self::nothing();
        permits.into_iter().filter(|it| !it.is_nothing()).for_each(|it| all.push(it));
        all
    }

    /// Adds a permit that has to end. Up to two need no allocation.
    #[inline]
    pub(crate) fn push(&mut self, permit: impl Into<RulePermit<C>>) {
        if self.0.is_none() {
            self.0 = Some(Held::One(permit.into()));
        } else {
            self.push_another(permit.into());
        }
    }

    #[inline(never)]
    fn push_another(&mut self, permit: RulePermit<C>) {
        self.0 = Some(match self.0.take() {
            None => Held::One(permit),
            Some(Held::One(first)) => Held::Two([first, permit]),
            Some(Held::Two(two)) => Held::Many(two.into_iter().chain([permit]).collect()),
            Some(Held::Many(mut many)) => {
                many.push(permit);
                Held::Many(many)
            }
        });
    }

    #[inline]
    fn permits(&mut self) -> &mut [RulePermit<C>] {
        match &mut self.0 {
            None => &mut [],
            Some(Held::One(permit)) => std::slice::from_mut(permit),
            Some(Held::Two(permits)) => permits,
            Some(Held::Many(permits)) => permits,
        }
    }
}

impl<C: RuleClock> Permit for RulePermits<C> {
    #[inline]
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permits().iter_mut().for_each(|it| it.end_at(now, outcome));
    }

    #[inline]
    fn withdraw_at(&mut self, now: Timestamp) {
        self.permits().iter_mut().for_each(|it| it.withdraw_at(now));
    }

    #[inline]
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permits().iter_mut().for_each(|it| it.drop_at(now, outcome));
    }
}
