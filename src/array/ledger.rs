//! The sums of all counts, by whether the window covers them.

use std::fmt;
use std::ops::AddAssign;

/// All counts of an array, a window or a node: in the window, expired and late.
///
/// Each add is in exactly one of the three, so recorded = in the window + expired + late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Ledger<T> {
    /// Counts in the buckets that the window covers.
    pub in_window: T,
    /// Counts in buckets that the window has left, including adds after it has left them. If `now`
    /// is before the newest record, the counts of buckets after `now` are included.
    pub expired: T,
    /// Counts that were added with a time whose slot already had a newer bucket.
    pub late: T,
}

impl<T: Clone + for<'a> AddAssign<&'a T>> Ledger<T> {
    /// Returns the sum of the three: everything that was ever added.
    ///
    /// ```
    /// use leaparray::{MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// for second in [60, 61, 65] {
    ///     window.add_at(Timestamp::from_secs(second), MetricEvent::Pass, 1);
    /// }
    /// let ledger =
    ///     window.at(Timestamp::from_secs(65)).ledger().map(|it| it.sum(MetricEvent::Pass));
    /// assert_eq!((ledger.in_window, ledger.expired, ledger.recorded()), (1, 2, 3));
    /// # Ok::<_, leaparray::time::ConfigError>(())
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
    /// Returns the ledger of a part of the totals, such as one event.
    ///
    /// ```
    /// use leaparray::{MetricEvent, MetricTotals};
    /// use leaparray::array::Ledger;
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

impl<T: for<'a> AddAssign<&'a T>> AddAssign<&Self> for Ledger<T> {
    /// Adds the ledger of another window.
    ///
    /// ```
    /// use leaparray::array::Ledger;
    ///
    /// let mut sum = Ledger::<u64>::default();
    /// let mut other = Ledger::default();
    /// other.late = 2;
    /// sum += &other;
    /// assert_eq!(sum.recorded(), 2);
    /// ```
    fn add_assign(&mut self, other: &Self) {
        let Self { in_window, expired, late } = other;
        self.in_window += in_window;
        self.expired += expired;
        self.late += late;
    }
}

impl<T: fmt::Display + Clone + for<'a> AddAssign<&'a T>> fmt::Display for Ledger<T> {
    /// Formats as `8 recorded = 5 in the window + 2 expired + 1 late`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_window, expired, late } = self;
        let recorded = self.recorded();
        write!(
            f,
            "{recorded} recorded = {in_window} in the window + {expired} expired + {late} late"
        )
    }
}
