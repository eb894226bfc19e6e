//! The seconds of the long window, each delivered once.

use std::hint::black_box;
use std::mem;
use std::ops::Range;

use super::config::NANOS_PER_SEC;
use super::{NodeReading, ResourceNode};
use crate::histogram::LatencyHistogram;
use crate::metric::{MetricTotals, SecondMetrics};
use crate::metric_array::MetricArray;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, Span, Timestamp, WindowConfig, run};
use crate::window::Spread;

/// The position of a reader in the seconds of a node. It is kept from one poll to the next.
///
/// Threads that poll with the same cursor share the seconds: each second is delivered to one of the
/// threads. Use one cursor for each node.
#[derive(Debug)]
pub struct SecondsCursor {
    /// The number of the first second that has not been delivered.
    next: AtomicU64,
    missed: AtomicU64,
}

impl SecondsCursor {
    /// Creates a cursor before all seconds that the node still has.
    #[must_use]
    pub fn new() -> Self {
        Self { next: AtomicU64::new(0), missed: AtomicU64::new(0) }
    }

    /// Returns the number of seconds that left the long window between two polls, and so were not
    /// delivered.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the seconds that this call has to deliver, from `oldest` up to, not including,
    /// `current`.
    pub(crate) fn advance(&self, oldest: u64, current: u64) -> Range<u64> {
        // One read-modify-write: threads that poll at the same time get different seconds. Relaxed:
        // the counts are ordered by the array that they are in.
        let next = self.next.fetch_max(current, Ordering::Relaxed);
        // A window of less than a second has no whole second.
        let oldest = oldest.min(current);
        if next > 0 && next < oldest {
            self.missed.fetch_add(oldest - next, Ordering::Relaxed);
        }
        next.max(oldest)..current
    }

    /// Returns the number of the first second that has not been delivered.
    pub(crate) fn next(&self) -> u64 {
        // Relaxed: as in `advance`.
        self.next.load(Ordering::Relaxed)
    }

    /// Counts all seconds as delivered, for a cursor that delivers no more.
    pub(crate) fn close(&self) {
        self.next.store(u64::MAX, Ordering::Relaxed);
    }
}

impl Default for SecondsCursor {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, C: Clock + Clone> NodeReading<'a, C> {
    /// Returns the seconds of the long window that are complete at `now` and that the cursor has
    /// not delivered before. Seconds without any record are left out. Sentinel calls this
    /// `metrics`.
    ///
    /// The long window should be at least two seconds long, because a shorter window contains a
    /// whole second for a moment only. Poll before a second leaves the window.
    ///
    /// [`RegistryReading::poll_seconds`](crate::registry::RegistryReading::poll_seconds) does this
    /// for all resources of a registry.
    ///
    /// A second is delivered once, with the counts that it has when the iterator returns it. If a
    /// stalled thread adds to it later, the totals include these counts, but no item does. A second
    /// that the caller does not take from the iterator is not delivered again.
    ///
    /// ```
    /// use leaparray::MetricEvent::{Block, Pass, Success};
    /// use leaparray::{ManualClock, NodeConfig, ResourceNode, Timestamp};
    /// use leaparray::node::SecondsCursor;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let cursor = SecondsCursor::new();
    /// node.enter().success();
    /// assert_eq!(node.now().poll_seconds(&cursor).count(), 0, "the second is not over");
    ///
    /// clock.advance(Duration::from_secs(1));
    /// node.block();
    /// let seconds: Vec<_> = node.now().poll_seconds(&cursor).collect();
    /// assert_eq!(seconds.len(), 1);
    /// assert_eq!(seconds[0].second, Timestamp::from_secs(60));
    /// let counts = [Pass, Success, Block].map(|event| seconds[0].counts[event]);
    /// assert_eq!(counts, [1, 1, 0]);
    /// assert_eq!(node.now().poll_seconds(&cursor).count(), 0, "it was delivered");
    /// ```
    pub fn poll_seconds(
        &self,
        cursor: &SecondsCursor,
    ) -> impl Iterator<Item = SecondMetrics> + use<'a, C> {
        let oldest = oldest_second(self.generation.config.long(), self.now);
        let seconds = cursor.advance(oldest, number_of(self.now));
        self.node.seconds_in(seconds)
    }

    /// Returns the totals of everything that was recorded in the second of `now` and in later
    /// seconds, reserved permits included: the seconds that
    /// [`poll_seconds`](Self::poll_seconds) leaves out because they are not complete.
    ///
    /// With the [lifetime](ResourceNode::lifetime) and the delivered seconds, this tells how many
    /// counts came late, after their second was delivered:
    ///
    /// lifetime = delivered seconds + unfinished + late
    ///
    /// Read the lifetime first. Counts that threads record between the two reads are then in
    /// `unfinished` only, so the difference lifetime − unfinished is a lower bound of the delivered
    /// and the late counts.
    ///
    /// Counts that left the long window unread also count as late here: see
    /// [`SecondsCursor::missed`]. A bucket that lies in two seconds is in no delivered second. It
    /// is in `unfinished` if it began in the second of `now` or later. A record that is more than a
    /// long window ahead of `now` can displace the second of `now`. For a node in which nothing was
    /// recorded since the start of the second, the call only compares two times.
    ///
    /// ```
    /// use leaparray::{Clock, ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
    /// use leaparray::node::SecondsCursor;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let cursor = SecondsCursor::new();
    /// node.block_many_at(node.clock().now(), 3);
    /// clock.advance(Duration::from_secs(1));
    /// let seconds = node.now().poll_seconds(&cursor);
    /// let delivered: u64 = seconds.map(|it| it.counts[MetricEvent::Block]).sum();
    ///
    /// node.block_many_at(node.clock().now(), 2);
    /// // A stalled thread has a time of the second that was delivered.
    /// node.block_many_at(Timestamp::from_secs(60), 4);
    /// let lifetime = node.lifetime().sum(MetricEvent::Block);
    /// let unfinished = node.now().unfinished().sum(MetricEvent::Block);
    /// assert_eq!((delivered, unfinished, lifetime), (3, 2, 9));
    /// let late = lifetime - unfinished - delivered;
    /// assert_eq!(late, 4);
    /// ```
    #[must_use]
    pub fn unfinished(&self) -> MetricTotals {
        let start = Timestamp::from_secs(number_of(self.now));
        let recorded_before = self.node.recorded_before().as_nanos();
        let newest = Timestamp::from_nanos(recorded_before.saturating_sub(1));
        if newest < start {
            return MetricTotals::default();
        }
        self.node.totals_in(&Span::until_now(start, newest))
    }
}

impl<C: Clock + Clone> ResourceNode<C> {
    /// Returns the seconds with these numbers that are whole in the long window at `now`. Seconds
    /// without any record are left out.
    pub(crate) fn seconds_in_window(
        &self,
        now: Timestamp,
        seconds: &Range<u64>,
    ) -> impl Iterator<Item = SecondMetrics> + use<'_, C> {
        self.seconds_in(self.numbers_in_window(now, seconds))
    }

    /// Returns those of the numbers whose seconds are whole in the long window at `now`, up to the
    /// newest record.
    fn numbers_in_window(&self, now: Timestamp, seconds: &Range<u64>) -> Range<u64> {
        let oldest = oldest_second(self.config().long(), now);
        // Most nodes of a registry are idle: nothing was recorded after the newest record.
        let end = self.recorded_before().as_nanos().div_ceil(NANOS_PER_SEC);
        seconds.start.max(oldest)..seconds.end.min(end)
    }

    /// Calls `visit` with the seconds that [`seconds_in_window`](Self::seconds_in_window) returns.
    /// The memory of `histogram` is used for each of them.
    pub(crate) fn for_each_second_in_window(
        &self,
        now: Timestamp,
        seconds: &Range<u64>,
        histogram: &mut LatencyHistogram,
        mut visit: impl FnMut(&SecondMetrics),
    ) {
        for second in self.numbers_in_window(now, seconds) {
            let start = Timestamp::from_secs(second);
            let span = Span::of(start, NANOS_PER_SEC);
            let (totals, has_histogram) = self.totals_and_histogram_in(&span, histogram);
            if totals == MetricTotals::default() {
                continue;
            }
            let metrics = item(start, &totals, has_histogram.then(|| mem::take(histogram)));
            visit(&metrics);
            *histogram = metrics.histogram.unwrap_or_else(|| mem::take(histogram));
        }
    }

    /// The number of stages of [`load_ahead`](Self::load_ahead).
    pub(crate) const STAGES: usize = MetricArray::STAGES;

    /// Loads what a read of a second is about to load of the first geometry: see
    /// [`MetricArray::load_ahead`].
    pub(crate) fn load_ahead(&self, stage: usize, second: u64) {
        let array = self.first.array();
        if stage == 0 {
            // Lines of the node itself.
            black_box((*self.config(), self.later.is_empty(), self.refusals.is_used()));
        }
        let span = Span::of(Timestamp::from_secs(second), NANOS_PER_SEC);
        let numbers = span.buckets(array.config());
        black_box(numbers.map(|numbers| array.load_ahead(stage, &numbers)));
    }

    /// Returns the seconds from `first` on, up to the newest record, that are whole in the long
    /// window at the time of that record. The last of them may be incomplete. Seconds without any
    /// record are left out.
    pub(crate) fn seconds_from(
        &self,
        first: u64,
    ) -> impl Iterator<Item = SecondMetrics> + use<'_, C> {
        let newest = Timestamp::from_nanos(self.recorded_before().as_nanos().saturating_sub(1));
        self.seconds_in_window(newest, &(first..u64::MAX))
    }

    fn seconds_in(&self, seconds: Range<u64>) -> impl Iterator<Item = SecondMetrics> + use<'_, C> {
        seconds.filter_map(|second| {
            let start = Timestamp::from_secs(second);
            let span = Span::of(start, NANOS_PER_SEC);
            let mut histogram = LatencyHistogram::default();
            let (totals, has_histogram) = self.totals_and_histogram_in(&span, &mut histogram);
            let histogram = has_histogram.then_some(histogram);
            (totals != MetricTotals::default()).then(|| item(start, &totals, histogram))
        })
    }
}

/// Returns the number of the second of `now`.
pub(crate) fn number_of(now: Timestamp) -> u64 {
    now.as_nanos() / NANOS_PER_SEC
}

/// Returns the number of the oldest second that is whole in the window at `now`.
pub(crate) fn oldest_second(window: &WindowConfig, now: Timestamp) -> u64 {
    let first = *run(window.bucket_number(now), window.sample_count() as u64).start();
    window.start_of(first).as_nanos().div_ceil(NANOS_PER_SEC)
}

fn item(
    second: Timestamp,
    totals: &MetricTotals,
    histogram: Option<LatencyHistogram>,
) -> SecondMetrics {
    SecondMetrics {
        second,
        counts: *totals.counts(),
        min_rt: totals.min_rt(),
        max_rt: totals.max_rt(),
        concurrency: totals.max_concurrency().unwrap_or(0),
        histogram,
    }
}
