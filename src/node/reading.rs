//! Reading a node.

use std::fmt;

use super::ResourceNode;
use super::generation::{Generation, add_reserved};
use crate::array::Ledger;
use crate::histogram::LatencyHistogram;
use crate::metric::{MetricEvent, MetricTotals};
use crate::metric_array::MetricArray;
use crate::time::{Clock, MonotonicClock, Span, Timestamp};
use crate::window::{Framed, Spread, WindowReading};

/// A [`ResourceNode`] at one time. Returned by [`ResourceNode::at`] and [`ResourceNode::now`].
///
/// [`short`](Self::short) and [`long`](Self::long) are the readings of the two windows, both in the
/// geometry that the node has when this is made. Like a [`WindowReading`], this is a reference and
/// a time, and has no counts of its own.
///
/// ```
/// use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
/// let requests = [node.enter(), node.enter()];
/// clock.advance(Duration::from_millis(3));
/// requests.map(|request| request.success());
/// assert_eq!(node.now().short().totals().rt_sum(), Duration::from_millis(6));
///
/// let later = node.at(Timestamp::from_secs(62));
/// assert_eq!(later.short().sum(MetricEvent::Success), 0);
/// assert_eq!(later.long().sum(MetricEvent::Success), 2);
/// ```
pub struct NodeReading<'a, C = MonotonicClock> {
    pub(super) node: &'a ResourceNode<C>,
    pub(super) generation: &'a Generation<C>,
    pub(super) now: Timestamp,
}

impl<C> Clone for NodeReading<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for NodeReading<'_, C> {}

impl<C> fmt::Debug for NodeReading<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reading = f.debug_struct("NodeReading");
        reading.field("now", &self.now).field("node", self.node).finish()
    }
}

impl<'a, C: Clock + Clone> NodeReading<'a, C> {
    /// Returns the reading of the short window, by default the last second.
    #[inline]
    #[must_use]
    pub fn short(&self) -> WindowReading<'a> {
        self.window(self.generation.short())
    }

    /// Returns the reading of the long window, by default the last minute.
    #[inline]
    #[must_use]
    pub fn long(&self) -> WindowReading<'a> {
        self.window(self.generation.long.framed())
    }

    #[inline]
    fn window(&self, framed: Framed<'a>) -> WindowReading<'a> {
        WindowReading::of_spread(framed, self.node, self.now)
    }
}

impl<C: Clock + Clone> ResourceNode<C> {
    /// Returns the reading of this node at `now`.
    ///
    /// ```
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode, Timestamp};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// node.block_many_at(Timestamp::from_secs(60), 1);
    /// let reading = node.at(Timestamp::from_millis(60_400));
    /// assert_eq!(reading.short().sum(MetricEvent::Block), 1);
    /// ```
    #[inline]
    #[must_use]
    pub fn at(&self, now: Timestamp) -> NodeReading<'_, C> {
        NodeReading { node: self, generation: self.current(), now }
    }

    /// Returns the reading of this node at the time of its clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> NodeReading<'_, C> {
        self.at(self.clock().now())
    }

    /// Returns the number of requests in flight, which have entered and have not ended.
    ///
    /// The number is never negative, and exact if no request enters or ends during the read. A
    /// request that enters or ends during the read may or may not be counted. A request that is in
    /// flight during the whole read is counted.
    ///
    /// # The highest concurrency
    ///
    /// [`MetricTotals::max_concurrency`] of a reading is the highest concurrency that was found in
    /// the window.
    ///
    /// When a request enters, its thread adds up the requests in flight of all threads in three
    /// cases: the request is the thread's first in a bucket; more of the requests that entered on
    /// the thread are in flight than shortly before; or the thread last added them up a thousandth
    /// of a bucket ago or longer. So the result is exact if all requests enter on one thread, on
    /// whichever threads they end, under one geometry, and no request ends on another thread while
    /// one enters. If a request ends while another one enters, a maximum of that moment may be
    /// missed, even if this method has returned it.
    ///
    /// If requests enter on several threads, they can together reach a maximum that no thread finds
    /// at once: a thread does not add up while the number of its own requests in flight is at most
    /// about twice the number in the last two thousandths of a bucket. Such a maximum is found by
    /// the next request that enters on a thread which last added up a thousandth of a bucket ago or
    /// longer, if as many requests are still in flight then. The result is never above the highest
    /// concurrency that occurred.
    pub fn concurrency(&self) -> u64 {
        self.in_flight()
    }

    /// Returns the totals since the node was made. They never decrease.
    pub fn lifetime(&self) -> MetricTotals {
        let mut totals = MetricTotals::default();
        for generation in self.generations() {
            totals += &generation.long.lifetime();
            add_reserved(&mut totals, generation.ever_reserved());
        }
        totals
    }

    /// Returns the number of passes from the start of a bucket up to `now`.
    pub(crate) fn passed_since(&self, start: Timestamp, now: Timestamp) -> u64 {
        self.sum_in(&Span::until_now(start, now), MetricEvent::Pass)
    }
}

/// The arrays of all geometries, and the reserved permits.
impl<C: Clock + Clone> Spread for ResourceNode<C> {
    #[inline]
    fn one_array(&self) -> Option<&MetricArray> {
        let has_one = self.later.is_empty() && !self.first.has_reserved();
        has_one.then(|| &**self.first.array())
    }

    fn sum_in(&self, span: &Span, event: MetricEvent) -> u64 {
        let with_reserved = matches!(event, MetricEvent::Pass | MetricEvent::ReservedPass);
        let sum = self.generations().fold(0, |sum: u128, generation| {
            let reserved = if with_reserved { generation.reserved_in(span) } else { 0 };
            sum + generation.sum(span, event) + u128::from(reserved)
        });
        sum.try_into().unwrap_or(u64::MAX)
    }

    fn totals_in(&self, span: &Span) -> MetricTotals {
        let mut totals = MetricTotals::default();
        for generation in self.generations() {
            totals += &generation.totals(span);
            add_reserved(&mut totals, generation.reserved_in(span));
        }
        totals
    }

    fn totals_and_histogram_in(
        &self,
        span: &Span,
        into: &mut LatencyHistogram,
    ) -> (MetricTotals, bool) {
        let (mut totals, mut is_complete) = (MetricTotals::default(), true);
        let has_histogram = self.merge_generations(into, |generation, into| {
            add_reserved(&mut totals, generation.reserved_in(span));
            let (of_generation, has_histogram) = generation.totals_and_histogram(span, into);
            totals += &of_generation;
            is_complete &= has_histogram || of_generation.rt_count() == 0;
            has_histogram
        });
        (totals, has_histogram && is_complete)
    }

    fn ledger_in(&self, span: &Span) -> Ledger<MetricTotals> {
        let mut ledger = Ledger::default();
        for generation in self.generations() {
            ledger += &generation.ledger(span);
            add_reserved(&mut ledger.in_window, generation.ever_reserved());
        }
        ledger
    }
}
