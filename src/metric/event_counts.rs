//! Counts of all events, as plain data.

use std::fmt;
use std::ops::{AddAssign, Index, IndexMut};
use std::time::Duration;

use super::event::MetricEvent;
use crate::time::duration_of;

/// A count of each event, and the sum of the response times: plain data that can be added and
/// subtracted.
///
/// The counts are indexed by [`MetricEvent`]. That of [`Rt`](MetricEvent::Rt) is the number of
/// response times. Results saturate at 0 and at `u64::MAX`; the sum of the response times has no
/// upper bound.
///
/// ```
/// use leaparray::{EventCounts, MetricEvent};
/// use std::time::Duration;
///
/// let mut counts = EventCounts::from([(MetricEvent::Pass, 4), (MetricEvent::Success, 3)]);
/// counts[MetricEvent::Rt] = 3;
/// counts.set_rt_sum(Duration::from_millis(75));
/// assert_eq!((counts[MetricEvent::Pass], counts[MetricEvent::Block]), (4, 0));
/// assert_eq!(counts.avg_rt(), Some(Duration::from_millis(25)));
///
/// let before = EventCounts::from([(MetricEvent::Pass, 1)]);
/// assert_eq!(counts.saturating_sub(&before)[MetricEvent::Pass], 3);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// The count of `Rt` is the number of response times.
    pub(crate) counts: [u64; MetricEvent::COUNT],
    pub(crate) rt_nanos: u128,
}

impl EventCounts {
    /// Returns each event with its count, in the order of [`MetricEvent::ALL`].
    ///
    /// ```
    /// use leaparray::{EventCounts, MetricEvent};
    ///
    /// let counts = EventCounts::from([(MetricEvent::Block, 2)]);
    /// let present: Vec<_> = counts.iter().filter(|(_, count)| *count > 0).collect();
    /// assert_eq!(present, [(MetricEvent::Block, 2)]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (MetricEvent, u64)> + use<> {
        MetricEvent::EVENTS.into_iter().zip(self.counts)
    }

    /// Returns the sum of the response times, at most [`Duration::MAX`].
    #[must_use]
    pub fn rt_sum(&self) -> Duration {
        duration_of(self.rt_nanos)
    }

    /// Sets the sum of the response times. Their number is the count of [`Rt`](MetricEvent::Rt).
    pub const fn set_rt_sum(&mut self, sum: Duration) {
        self.rt_nanos = sum.as_nanos();
    }

    /// Returns the mean response time, rounded down to the nanosecond; `None` if there is none.
    #[must_use]
    pub fn avg_rt(&self) -> Option<Duration> {
        let mean = self.rt_nanos.checked_div(self[MetricEvent::Rt].into())?;
        // The mean of recorded response times fits a `u64`.
        Some(u64::try_from(mean).map_or_else(|_| duration_of(mean), Duration::from_nanos))
    }

    /// Returns whether all counts and the sum of the response times are 0.
    ///
    /// ```
    /// use leaparray::{EventCounts, MetricEvent};
    ///
    /// assert!(EventCounts::default().is_zero());
    /// assert!(!EventCounts::from([(MetricEvent::Cancelled, 1)]).is_zero());
    /// ```
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the counts less `other`, and 0 for each count of which `other` has more.
    #[must_use]
    pub fn saturating_sub(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub, u128::saturating_sub)
    }

    /// Returns the higher one of each count.
    ///
    /// ```
    /// use leaparray::{EventCounts, MetricEvent::{Block, Pass}};
    ///
    /// let one = EventCounts::from([(Pass, 1), (Block, 5)]);
    /// let other = EventCounts::from([(Pass, 3)]);
    /// assert_eq!(one.max(&other), EventCounts::from([(Pass, 3), (Block, 5)]));
    /// ```
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.zip(other, u64::max, u128::max)
    }

    fn zip(
        &self,
        other: &Self,
        count: impl Fn(u64, u64) -> u64,
        nanos: impl Fn(u128, u128) -> u128,
    ) -> Self {
        Self {
            counts: std::array::from_fn(|event| count(self.counts[event], other.counts[event])),
            rt_nanos: nanos(self.rt_nanos, other.rt_nanos),
        }
    }

    /// Adds the fields of the debug output: each event by its name, with the sum of the response
    /// times as a duration.
    pub(super) fn debug_fields(&self, f: &mut fmt::DebugStruct<'_, '_>) {
        for (event, count) in self.iter() {
            match event {
                MetricEvent::Rt => f.field("rt", &self.rt_sum()),
                event => f.field(event.name(), &count),
            };
        }
        f.field("rt_count", &self[MetricEvent::Rt]);
    }
}

impl Index<MetricEvent> for EventCounts {
    type Output = u64;

    /// Returns the count of an event; for [`MetricEvent::Rt`] the number of response times.
    #[inline]
    fn index(&self, event: MetricEvent) -> &u64 {
        &self.counts[event as usize]
    }
}

impl IndexMut<MetricEvent> for EventCounts {
    #[inline]
    fn index_mut(&mut self, event: MetricEvent) -> &mut u64 {
        &mut self.counts[event as usize]
    }
}

impl<const N: usize> From<[(MetricEvent, u64); N]> for EventCounts {
    /// The counts of the other events are 0, and so is the sum of the response times. If an event
    /// occurs twice, its last count is taken.
    fn from(counts: [(MetricEvent, u64); N]) -> Self {
        let mut all = Self::default();
        for (event, count) in counts {
            all[event] = count;
        }
        all
    }
}

impl AddAssign<&Self> for EventCounts {
    fn add_assign(&mut self, other: &Self) {
        *self = self.zip(other, u64::saturating_add, u128::saturating_add);
    }
}

impl fmt::Debug for EventCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = f.debug_struct("EventCounts");
        self.debug_fields(&mut counts);
        counts.finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Counts with another value for each event.
    fn each(n: u64) -> EventCounts {
        let mut counts = EventCounts::from(MetricEvent::EVENTS.map(|event| (event, 0)));
        for (number, event) in (1..).zip(MetricEvent::EVENTS) {
            counts[event] = n * number;
        }
        counts.set_rt_sum(Duration::from_nanos(n * 100));
        counts
    }

    #[test]
    fn each_count_is_added_subtracted_and_compared() {
        let mut sum = each(1);
        sum += &each(2);
        assert_eq!(sum, each(3));
        assert_eq!(sum.saturating_sub(&each(2)), each(1));
        assert_eq!(each(1).saturating_sub(&each(2)), EventCounts::default());
        assert_eq!((each(1).max(&each(2)), each(2).max(&each(1))), (each(2), each(2)));
    }

    #[test]
    fn sums_saturate() {
        let mut most = EventCounts::from(MetricEvent::EVENTS.map(|event| (event, u64::MAX - 1)));
        most.rt_nanos = u128::MAX - 1;
        let other = most;
        most += &other;
        assert!(most.iter().all(|(_, count)| count == u64::MAX), "{most:?}");
        assert_eq!((most.rt_nanos, most.rt_sum()), (u128::MAX, Duration::MAX));
    }

    #[test]
    fn sum_of_response_times_is_cut_at_the_longest_duration() {
        let of = |rt_nanos| EventCounts { rt_nanos, ..EventCounts::default() }.rt_sum();
        assert_eq!(of(1_999_999_999), Duration::new(1, 999_999_999));
        let longest = Duration::MAX.as_nanos();
        assert_eq!([longest, longest + 1, u128::MAX].map(of), [Duration::MAX; 3]);
    }

    #[test]
    fn mean_may_be_longer_than_a_timestamp() {
        let mut counts = EventCounts::from([(MetricEvent::Rt, 1)]);
        counts.set_rt_sum(Duration::MAX);
        assert_eq!(counts.avg_rt(), Some(Duration::MAX));
        assert_eq!(EventCounts::default().avg_rt(), None);
    }

    #[test]
    fn names_of_events_differ() {
        let names: std::collections::HashSet<_> =
            MetricEvent::EVENTS.map(MetricEvent::name).into_iter().collect();
        assert_eq!(names.len(), MetricEvent::COUNT);
    }
}
