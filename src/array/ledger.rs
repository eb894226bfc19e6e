//! The sums of all counts, by whether the window covers them.

use std::fmt;
use std::ops::AddAssign;

/// The totals of a [`LeapArray`](crate::LeapArray) at one moment: in the window, expired and late.
///
/// Each add is in exactly one of the three, so recorded = in the window + expired + late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ledger<T> {
    /// In the buckets that the window covers.
    pub in_window: T,
    /// In buckets that the window has left, including what was added to them after that. If `now` lies before the newest
    /// record, buckets after `now` are here as well.
    pub expired: T,
    /// Added with a time whose slot had a newer bucket already.
    pub late: T,
}

impl<T: Clone + for<'a> AddAssign<&'a T>> Ledger<T> {
    /// The sum of the three: everything that was ever added.
    ///
    /// ```
    /// use leaparray::Ledger;
    ///
    /// let ledger = Ledger { in_window: 5_u64, expired: 2, late: 1 };
    /// assert_eq!(ledger.recorded(), 8);
    /// ```
    #[must_use]
    pub fn recorded(&self) -> T {
        let mut sum = self.in_window.clone();
        sum += &self.expired;
        sum += &self.late;
        sum
    }
}

impl<T> Ledger<T> {
    /// The same ledger of a part of the totals, such as of one event.
    ///
    /// ```
    /// use leaparray::{Ledger, MetricEvent, MetricTotals};
    ///
    /// let ledger = Ledger::<MetricTotals>::default();
    /// let passes = ledger.map(|totals| totals.sum(MetricEvent::Pass));
    /// assert_eq!(passes.to_string(), "0 recorded = 0 in the window + 0 expired + 0 late");
    /// ```
    #[must_use]
    pub fn map<U>(&self, part: impl Fn(&T) -> U) -> Ledger<U> {
        Ledger {
            in_window: part(&self.in_window),
            expired: part(&self.expired),
            late: part(&self.late),
        }
    }
}

impl<T: fmt::Display + Clone + for<'a> AddAssign<&'a T>> fmt::Display for Ledger<T> {
    /// `8 recorded = 5 in the window + 2 expired + 1 late`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_window, expired, late } = self;
        let recorded = self.recorded();
        write!(
            f,
            "{recorded} recorded = {in_window} in the window + {expired} expired + {late} late"
        )
    }
}
