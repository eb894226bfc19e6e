//! Reading a node.

use std::time::Duration;

use super::ResourceNode;
use super::generation::add_reserved;
use crate::array::Ledger;
use crate::metric::{MetricEvent, MetricTotals};
use crate::time::{Clock, Span, Timestamp, saturating_nanos};
use crate::window::{SlidingWindow, per_second};

impl<C: Clock + Clone> ResourceNode<C> {
    /// Returns the rate of `event` per second over the short window, by default the last second.
    #[inline]
    pub fn qps(&self, event: MetricEvent) -> f64 {
        self.qps_at(self.clock().now(), event)
    }

    /// Returns the rate of `event` per second over the short window at `now`: the sum divided by
    /// the time that the window covers, which begins when the node was made if the node is younger.
    /// See [`SlidingWindow::qps_at`](crate::SlidingWindow::qps_at) for the accuracy.
    #[inline]
    pub fn qps_at(&self, now: Timestamp, event: MetricEvent) -> f64 {
        let short = &self.current().short;
        per_second(self.sum_of(short, now, event), short.covered_nanos(now))
    }

    /// Returns the sum of `event` over the short window now, divided by its interval, by default a
    /// second.
    #[inline]
    pub fn qps_over_interval(&self, event: MetricEvent) -> f64 {
        self.qps_over_interval_at(self.clock().now(), event)
    }

    /// Returns the sum of `event` over the short window at `now`, divided by the whole interval of
    /// that window, per second: the number to compare with a limit. As a rate, it is too low; see
    /// [`SlidingWindow::qps_over_interval_at`](crate::SlidingWindow::qps_over_interval_at).
    #[inline]
    pub fn qps_over_interval_at(&self, now: Timestamp, event: MetricEvent) -> f64 {
        let short = &self.current().short;
        per_second(self.sum_of(short, now, event), saturating_nanos(short.config().interval()))
    }

    /// Returns the rate of passed and blocked requests per second over the short window, by default
    /// the last second.
    pub fn total_qps(&self) -> f64 {
        self.total_qps_at(self.clock().now())
    }

    /// Returns the rate of passed and blocked requests per second over the short window at `now`.
    pub fn total_qps_at(&self, now: Timestamp) -> f64 {
        [MetricEvent::Pass, MetricEvent::Block].map(|event| self.qps_at(now, event)).iter().sum()
    }

    /// Returns the rate of `event` per second in the last complete bucket of the short window;
    /// `None` if the long window is too short to keep that bucket.
    pub fn previous_qps(&self, event: MetricEvent) -> Option<f64> {
        self.previous_qps_at(self.clock().now(), event)
    }

    /// Returns the rate of `event` per second in the last bucket of the short window that is
    /// complete at `now`; `None` if the long window is too short to keep that bucket.
    pub fn previous_qps_at(&self, now: Timestamp, event: MetricEvent) -> Option<f64> {
        let (short, long) = self.windows();
        let len = short.config().bucket_len();
        if len.saturating_mul(2) > long.config().interval() {
            return None;
        }
        let span = short.sample(now, 1);
        let sum = span.map_or(0, |span| self.sum_between(&span, event));
        Some(per_second(sum, short.covered_nanos_of_previous(now)))
    }

    /// Returns the highest rate of `event` per second in any one bucket of the short window, by
    /// default of the last second.
    pub fn max_qps(&self, event: MetricEvent) -> f64 {
        self.max_qps_at(self.clock().now(), event)
    }

    /// Returns the highest rate of `event` per second in any one bucket of the short window at
    /// `now`. For successes, Sentinel calls this `maxSuccessQps`.
    ///
    /// Each sum is divided by the length of a bucket. The newest bucket is still filling, and its
    /// sum is divided by the whole length as well. Divided by the elapsed part, the first events of
    /// a bucket would be the maximum.
    pub fn max_qps_at(&self, now: Timestamp, event: MetricEvent) -> f64 {
        self.max_qps_of(&self.current().short, now, event)
    }

    pub(super) fn max_qps_of(
        &self,
        short: &SlidingWindow<C>,
        now: Timestamp,
        event: MetricEvent,
    ) -> f64 {
        let max = if self.has_one_array() {
            short.max_of_single_bucket_at(now, event)
        } else {
            let ages = 0..short.config().sample_count() as u64;
            let samples = ages.map_while(|age| short.sample(now, age));
            samples.map(|span| self.sum_between(&span, event)).max().unwrap_or(0)
        };
        per_second(max, short.config().bucket_nanos())
    }

    /// Returns the sum of `event` over the short window, by default the last second.
    pub fn short_sum(&self, event: MetricEvent) -> u64 {
        self.short_sum_at(self.clock().now(), event)
    }

    /// Returns the sum of `event` over the short window at `now`. The sum of [`MetricEvent::Rt`] is
    /// in nanoseconds. Sums saturate at `u64::MAX`.
    pub fn short_sum_at(&self, now: Timestamp, event: MetricEvent) -> u64 {
        self.sum_of(&self.current().short, now, event)
    }

    /// Returns the sum of `event` over the long window, by default the last minute.
    pub fn long_sum(&self, event: MetricEvent) -> u64 {
        self.long_sum_at(self.clock().now(), event)
    }

    /// Returns the sum of `event` over the long window at `now`. The sum of [`MetricEvent::Rt`] is
    /// in nanoseconds. Sums saturate at `u64::MAX`.
    pub fn long_sum_at(&self, now: Timestamp, event: MetricEvent) -> u64 {
        self.sum_of(&self.current().long, now, event)
    }

    /// Returns the sum of the response times over the short window, by default the last second.
    pub fn short_rt_sum(&self) -> Duration {
        self.short_rt_sum_at(self.clock().now())
    }

    /// Returns the sum of the response times over the short window at `now`; zero if no request
    /// ended in it.
    ///
    /// ```
    /// use leaparray::{ManualClock, NodeConfig, ResourceNode, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let requests = [node.enter(), node.enter()];
    /// clock.advance(Duration::from_millis(3));
    /// requests.map(|request| request.success());
    /// assert_eq!(node.short_rt_sum(), Duration::from_millis(6));
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!(node.short_rt_sum(), Duration::ZERO);
    /// assert_eq!(node.long_rt_sum(), Duration::from_millis(6));
    /// ```
    pub fn short_rt_sum_at(&self, now: Timestamp) -> Duration {
        self.short_totals(now).rt_sum()
    }

    /// Returns the sum of the response times over the long window, by default the last minute.
    pub fn long_rt_sum(&self) -> Duration {
        self.long_rt_sum_at(self.clock().now())
    }

    /// Returns the sum of the response times over the long window at `now`; zero if no request
    /// ended in it. See [`short_rt_sum_at`](Self::short_rt_sum_at) for an example.
    pub fn long_rt_sum_at(&self, now: Timestamp) -> Duration {
        self.totals_between(&self.current().long.span(now)).rt_sum()
    }

    /// Returns the mean response time over the short window, by default the last second; `None` if
    /// no request ended in it.
    pub fn avg_rt(&self) -> Option<Duration> {
        self.avg_rt_at(self.clock().now())
    }

    /// Returns the mean response time over the short window at `now`, rounded down to the
    /// nanosecond; `None` if no request ended in it.
    pub fn avg_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.short_totals(now).avg_rt()
    }

    /// Returns the shortest response time of the short window, by default the last second; `None`
    /// if no request ended in it.
    pub fn min_rt(&self) -> Option<Duration> {
        self.min_rt_at(self.clock().now())
    }

    /// Returns the shortest response time of the short window at `now`; `None` if no request ended
    /// in it.
    pub fn min_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.short_totals(now).min_rt()
    }

    /// Returns the longest response time of the short window, by default the last second; `None` if
    /// no request ended in it.
    pub fn max_rt(&self) -> Option<Duration> {
        self.max_rt_at(self.clock().now())
    }

    /// Returns the longest response time of the short window at `now`; `None` if no request ended
    /// in it.
    pub fn max_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.short_totals(now).max_rt()
    }

    /// Returns the number of requests in flight, which have entered and have not ended.
    ///
    /// The number is never negative, and exact if no request enters or ends during the read. A
    /// request that enters or ends during the read may or may not be counted. A request that is in
    /// flight during the whole read is counted.
    pub fn concurrency(&self) -> u64 {
        self.gauge().upper_bound
    }

    /// Returns the highest concurrency that was found in the short window, by default the last
    /// second; `None` if no request entered in it. See
    /// [`max_concurrency_at`](Self::max_concurrency_at) for the accuracy.
    pub fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency_at(self.clock().now())
    }

    /// Returns the highest concurrency that was found in the short window at `now`; `None` if no
    /// request entered in it.
    ///
    /// When a request enters, its thread adds up the requests in flight of all threads in three
    /// cases: the request is the thread's first in a bucket; more of the requests that entered on
    /// the thread are in flight than shortly before; or the thread last added them up a thousandth
    /// of a bucket ago or longer. So the result is exact if all requests enter on one thread, on
    /// whichever threads they end, under one geometry, and no request ends on another thread while
    /// one enters. If a request ends while another one enters, a maximum of that moment may be
    /// missed, even if [`concurrency`](Self::concurrency) has returned it.
    ///
    /// If requests enter on several threads, they can together reach a maximum that no thread finds
    /// at once: a thread does not add up while the number of its own requests in flight is at most
    /// about twice the number in the last two thousandths of a bucket. Such a maximum is found by
    /// the next request that enters on a thread which last added up a thousandth of a bucket ago or
    /// longer, if as many requests are still in flight then. The result is never above the highest
    /// concurrency that occurred.
    pub fn max_concurrency_at(&self, now: Timestamp) -> Option<u64> {
        self.short_totals(now).max_concurrency()
    }

    /// Returns the totals since the node was made. They never decrease.
    pub fn lifetime(&self) -> MetricTotals {
        self.ledger_at(Timestamp::MIN).recorded()
    }

    /// Returns the totals in the long window, expired and late, at the time of the clock; see
    /// [`ledger_at`](Self::ledger_at).
    pub fn ledger(&self) -> Ledger<MetricTotals> {
        self.ledger_at(self.clock().now())
    }

    /// Returns the totals in the long window at `now`, expired and late. Their sum is everything
    /// that was ever recorded. Counts of an earlier geometry are in the window if they are in the
    /// long window of that geometry. Reserved permits are always counted as in the window.
    pub fn ledger_at(&self, now: Timestamp) -> Ledger<MetricTotals> {
        let mut ledger = Ledger::default();
        for generation in self.generations() {
            ledger += &generation.long.ledger_at(now);
            add_reserved(&mut ledger.in_window, generation.ever_reserved());
        }
        ledger
    }

    /// Returns the totals of the short window at `now`.
    pub(super) fn short_totals(&self, now: Timestamp) -> MetricTotals {
        self.totals_between(&self.current().short.span(now))
    }

    /// Returns whether all counts are in one array, whose window is then read directly: a steady
    /// read of the window takes a fraction of the time of the general path, and a snapshot takes 30
    /// ns less.
    #[inline]
    fn has_one_array(&self) -> bool {
        self.later.is_empty() && !self.first.has_reserved()
    }

    /// Returns the sum of `event` over one of the two windows of the current geometry at `now`.
    #[inline]
    fn sum_of(&self, window: &SlidingWindow<C>, now: Timestamp, event: MetricEvent) -> u64 {
        if self.has_one_array() {
            window.sum_at(now, event)
        } else {
            self.sum_between(&window.span(now), event)
        }
    }

    /// Returns the sum of `event` over the buckets of the span, of all geometries.
    pub(super) fn sum_between(&self, span: &Span, event: MetricEvent) -> u64 {
        let with_reserved = matches!(event, MetricEvent::Pass | MetricEvent::ReservedPass);
        let sum = self.generations().fold(0, |sum: u128, generation| {
            let reserved = if with_reserved { generation.reserved_in(span) } else { 0 };
            sum + generation.sum(span, event) + u128::from(reserved)
        });
        sum.try_into().unwrap_or(u64::MAX)
    }

    /// Returns the number of passes from the start of a bucket up to `now`.
    pub(crate) fn passed_since(&self, start: Timestamp, now: Timestamp) -> u64 {
        self.sum_between(&Span::until_now(start, now), MetricEvent::Pass)
    }

    /// Returns the totals of the buckets of the span, of all geometries.
    pub(super) fn totals_between(&self, span: &Span) -> MetricTotals {
        let mut totals = MetricTotals::default();
        for generation in self.generations() {
            totals += &generation.totals(span);
            add_reserved(&mut totals, generation.reserved_in(span));
        }
        totals
    }
}
