//! One resource: two windows over one array, and the number of requests in flight.

mod config;
mod entry;
mod error;
mod generation;
mod histogram;
mod lane_counters;
mod on_drop;
mod permit;
mod reading;
mod reason;
mod recorded;
mod refused_by;
mod reserve;
mod reserved;
mod response;
mod seconds;
#[cfg(feature = "serde")]
mod serde_config;
mod snapshot;
mod sum;

pub use crate::metric_array::CellMemory;
pub use config::NodeConfig;
pub use entry::Entry;
pub use error::NodeConfigError;
pub use on_drop::OnDrop;
pub(crate) use on_drop::{AtomicOnDrop, Drops};
pub use permit::{Outcome, Permit};
pub use reading::NodeReading;
pub use reason::{Reason, Refusals};
pub use refused_by::RefusedBy;
pub use reserve::Reservation;
pub use response::{ResponseClass, Responses};
pub use seconds::SecondsCursor;
pub(crate) use seconds::{number_of, oldest_second};
pub use snapshot::{NodeSnapshot, WindowSnapshot};

use std::{fmt, iter};

use crate::collections::{AppendList, NameId};
use crate::metric::MetricEvent;
use crate::metric_array::{Bin, Gauge, MetricArray, Origin, OwnedCell, SharedArray};
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicUsize, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp};
use generation::Generation;
use reason::RefusalCounters;
use refused_by::LimiterCounters;
use response::ResponseCounters;

/// The metrics of one resource, such as a route or a method: the requests that passed, were
/// blocked, succeeded or failed, their response times, and the number of requests in flight. Counts
/// are read over a short and a long window, by default the last second and the last minute.
///
/// In Sentinel, `StatisticNode` corresponds to a node. It reads the clock twice and writes two
/// arrays. A `ResourceNode` reads the clock once and writes one bucket, which both windows read, so
/// the windows never disagree.
///
/// ```
/// use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
///
/// let entry = node.enter();
/// assert_eq!(node.concurrency(), 1);
/// clock.advance(Duration::from_millis(20));
/// entry.success();
/// node.block();
///
/// assert_eq!(node.concurrency(), 0);
/// assert_eq!(node.now().short().totals().avg_rt(), Some(Duration::from_millis(20)));
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(node.now().short().qps(MetricEvent::Pass), 0.0);
/// assert_eq!(node.now().long().sum(MetricEvent::Block), 1);
/// ```
//
// In this order: each request reads `current` and the beginning of `first`, 48 bytes with the clock
// of a `ResourceNode`.
#[repr(C)]
pub struct ResourceNode<C = MonotonicClock> {
    /// The current geometry: 0 for the first, or one more than the index in `later`.
    current: AtomicUsize,
    /// The geometry with which the node was made.
    first: Generation<C>,
    /// Each other geometry that the node has had.
    later: AppendList<Generation<C>>,
    on_drop: AtomicOnDrop,
    refusals: RefusalCounters,
    refused_by: LimiterCounters,
    responses: ResponseCounters,
}

impl<C> fmt::Debug for ResourceNode<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut node = f.debug_struct("ResourceNode");
        let concurrency = self.in_flight();
        node.field("config", &self.current().config)
            .field("concurrency", &concurrency)
            .finish_non_exhaustive()
    }
}

impl ResourceNode {
    /// Creates a node with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        Self::with_clock(config, MonotonicClock::new())
    }
}

impl<C: Clock + Clone> ResourceNode<C> {
    /// Creates a node that reads `clock`.
    #[must_use]
    pub fn with_clock(config: NodeConfig, clock: C) -> Self {
        let made = clock.now();
        Self {
            first: Generation::new(config, clock, made),
            later: AppendList::new(),
            current: AtomicUsize::new(0),
            on_drop: AtomicOnDrop::new(OnDrop::default()),
            refusals: RefusalCounters::new(),
            refused_by: LimiterCounters::new(),
            responses: ResponseCounters::new(),
        }
    }

    /// Sets the outcome of a request whose [`Entry`] is dropped before it has ended. Entries that
    /// are in flight follow the policy that is set when they are dropped, except for those with a
    /// policy of [their own](Entry::on_drop). The default is [`OnDrop::Exception`].
    pub fn set_on_drop(&self, policy: OnDrop) {
        self.on_drop.set(policy);
    }

    pub(crate) fn on_drop(&self) -> OnDrop {
        self.on_drop.get()
    }

    /// Changes the geometry. Other threads may record and read at the same time.
    ///
    /// Counts that were recorded under an earlier geometry remain readable: a bucket of that
    /// geometry is in a window if it lies entirely within the window. [Lifetime
    /// totals](Self::lifetime) include all counts.
    ///
    /// A node keeps the array of each geometry that it has had. If a geometry is set again, its
    /// array is used again.
    ///
    /// ```
    /// use leaparray::{
    ///     ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp, WindowConfig,
    /// };
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// node.enter().success();
    /// let finer = NodeConfig::new(
    ///     WindowConfig::new(10, Duration::from_secs(1))?,
    ///     WindowConfig::new(600, Duration::from_secs(60))?,
    /// )?;
    /// node.reconfigure(finer);
    /// node.enter().success();
    /// assert_eq!(node.now().long().sum(MetricEvent::Success), 2);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, config: NodeConfig) {
        let is_it = |generation: &Generation<C>| generation.config == config;
        let make = || self.first.with_config(config);
        let find_later = || self.later.find_or_append(is_it, make, usize::MAX);
        let later = if is_it(&self.first) { None } else { find_later() };
        let current = later.map_or(0, |(index, _)| index + 1);
        // Release: pairs with the Acquire in `current`. A thread that reads the index finds the
        // generation in the list.
        self.current.store(current, Ordering::Release);
    }

    /// Enters one request: counts a [pass](MetricEvent::Pass) and one more request in flight. The
    /// returned entry ends the request.
    ///
    /// Reads the clock once, and once more when the entry ends.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as in `entry`")]
    pub fn enter(&self) -> Entry<&Self, C> {
        self.enter_at(self.clock().now())
    }

    /// Like [`enter`](Self::enter), at `now`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as in `entry`")]
    pub fn enter_at(&self, now: Timestamp) -> Entry<&Self, C> {
        Entry::enter_at(self, now)
    }

    /// Counts a refused request, as one [block](MetricEvent::Block).
    #[inline]
    pub fn block(&self) {
        self.block_many_at(self.clock().now(), 1);
    }

    /// Counts a refused request of `permits` permits at `now`, as one [block](MetricEvent::Block)
    /// for each permit.
    #[inline]
    pub fn block_many_at(&self, now: Timestamp, permits: u64) {
        let array = self.current().long.array();
        array.record(now, move |cell, _| cell.writer().add(MetricEvent::Block, permits));
    }

    /// Counts a refused request, as one [block](MetricEvent::Block), and by its reason.
    #[inline]
    pub fn refuse(&self, reason: Reason) {
        self.refuse_many_at(self.clock().now(), 1, reason);
    }

    /// Counts a refused request of `permits` permits at `now`, as one [block](MetricEvent::Block)
    /// for each permit, and the permits by the reason.
    ///
    /// ```
    /// use leaparray::flow::Reason;
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode, Timestamp};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// node.refuse_many_at(Timestamp::from_secs(60), 2, Reason::LimitReached);
    /// node.refuse_many_at(Timestamp::from_secs(60), 1, Reason::Custom("closed"));
    /// let refusals = node.refusals();
    /// assert_eq!((refusals[Reason::LimitReached], refusals[Reason::Custom("closed")]), (2, 1));
    /// assert_eq!(node.lifetime().sum(MetricEvent::Block), 3);
    /// ```
    #[inline]
    pub fn refuse_many_at(&self, now: Timestamp, permits: u64, reason: Reason) {
        self.block_many_at(now, permits);
        self.refusals.add(reason, permits);
    }

    /// Like [`refuse_many_at`](Self::refuse_many_at), and counts the permits by the name of the
    /// limiter, if it has one.
    #[inline]
    pub(crate) fn refuse_by(
        &self,
        now: Timestamp,
        permits: u64,
        reason: Reason,
        limiter: Option<NameId>,
    ) {
        self.refuse_many_at(now, permits, reason);
        if let Some(name) = limiter {
            self.refused_by.add(name, permits);
        }
    }

    /// Returns the refused permits by the name of the limiter, since the node was made.
    #[must_use]
    pub fn refused_by(&self) -> RefusedBy {
        self.refused_by.get()
    }

    /// Returns the refused permits by reason, since the node was made.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.refusals.get()
    }

    /// Counts a response by the class of its status, which is apart from the events: a response
    /// with the status 404 is a [success](MetricEvent::Success) by default, and only its class
    /// tells it from one with the status 200. The layer of `leaparray-tower` counts each response
    /// of its service.
    ///
    /// ```
    /// use leaparray::node::ResponseClass;
    /// use leaparray::{NodeConfig, ResourceNode};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// let request = node.enter();
    /// node.count_response(ResponseClass::of_status(404));
    /// request.success();
    /// assert_eq!(node.responses()[ResponseClass::ClientError], 1);
    /// ```
    #[inline]
    pub fn count_response(&self, class: ResponseClass) {
        self.responses.add(class);
    }

    /// Returns the responses by class, since the node was made.
    #[must_use]
    pub fn responses(&self) -> Responses {
        self.responses.get()
    }

    /// Counts passes, and one more request in flight.
    //
    // Not by a closure that `record` calls: the compiler inlines such a closure only while there is
    // a single caller.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for `SharedArray::record`")]
    pub(crate) fn count_in(&self, now: Timestamp, passes: u64) -> Origin {
        let array = self.current().long.array();
        match array.own_cell(now) {
            Some(cell) => self.count_in_cell(array, cell, cell.origin(), now, passes),
            None => array.record_slowly(now, move |cell, here| {
                self.count_in_cell(array, cell, here, now, passes)
            }),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for `SharedArray::record`")]
    fn count_in_cell(
        &self,
        array: &SharedArray,
        cell: OwnedCell<'_>,
        here: Origin,
        now: Timestamp,
        passes: u64,
    ) -> Origin {
        cell.writer().add(MetricEvent::Pass, passes);
        let look_after = array.look_after();
        if cell.gauge().may_be_due(cell.cell.enter(), now, look_after) {
            self.look_at_gauge(cell, here, now, look_after);
        }
        here
    }

    /// Counts the end of a request, and one request in flight less.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for `SharedArray::record`")]
    fn count_out(
        &self,
        now: Timestamp,
        event: MetricEvent,
        permits: u64,
        rt_nanos: Option<u64>,
        origin: Origin,
    ) {
        let array = self.current().long.array();
        let end = RequestEnd { event, permits, rt_nanos, origin };
        let Some(nanos) = rt_nanos else {
            return match array.own_cell(now) {
                Some(cell) => end.count_in_cell(array, cell, cell.origin(), Bin::NONE),
                None => array.record_slowly(now, move |cell, here| {
                    end.count_in_cell(array, cell, here, Bin::NONE);
                }),
            };
        };
        match array.own_cell_and_recorder(now) {
            Some((cell, None)) => {
                return end.count_in_cell(array, cell, cell.origin(), Bin::NONE);
            }
            Some((cell, Some(recorder))) => {
                if let Some(bin) = recorder.bin(nanos) {
                    return end.count_in_cell(array, cell, cell.origin(), bin);
                }
            }
            None => {}
        }
        array.record_rt_slowly(now, nanos, move |cell, here, bin| {
            end.count_in_cell(array, cell, here, bin);
        });
    }

    #[inline(never)]
    fn look_at_gauge(&self, owned: OwnedCell<'_>, origin: Origin, now: Timestamp, look_after: u64) {
        let OwnedCell { cell, .. } = owned;
        let Some(due) = owned.gauge().due(cell, origin, now, look_after) else { return };
        stall::at(Point::GaugeDue);
        let gauge = self.gauge();
        // A request that enters without a cell is not published yet, so the gauge does not count
        // it.
        let unpublished = u64::from(origin.is_none());
        // At least one: this request is in flight, even if others end while the gauge is read.
        let reached = (gauge.reached + unpublished).max(1);
        owned.writer().record_concurrency(reached);
        let slack = cell.max_concurrency().saturating_sub(gauge.upper_bound);
        owned.gauge().note_look(due, cell, origin, now, slack);
    }
}

/// The end of a request.
#[derive(Clone, Copy)]
struct RequestEnd {
    event: MetricEvent,
    permits: u64,
    /// `None` for a request without a response time.
    rt_nanos: Option<u64>,
    /// The cell in which the request entered.
    origin: Origin,
}

impl RequestEnd {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for `SharedArray::record`")]
    fn count_in_cell(self, array: &SharedArray, cell: OwnedCell<'_>, here: Origin, bin: Bin) {
        cell.writer().add(self.event, self.permits);
        if let Some(rt_nanos) = self.rt_nanos {
            cell.writer().record_rt_with(rt_nanos, || bin.count());
        }
        // The note precedes the count: a thread that reads the gauge and counts this end also finds
        // the note.
        if here != self.origin {
            array.note_end_elsewhere(self.origin);
        }
        stall::at(Point::EndNoted);
        cell.cell.end();
    }
}

impl<C> ResourceNode<C> {
    /// Returns the current geometry.
    #[must_use]
    #[inline]
    pub fn config(&self) -> &NodeConfig {
        &self.current().config
    }

    /// Returns the time at which the node was made. A change of the geometry does not change it.
    pub(crate) fn made(&self) -> Timestamp
    where
        C: Clock,
    {
        self.first.long.made()
    }

    /// Returns the clock that this node reads.
    #[must_use]
    #[inline]
    pub fn clock(&self) -> &C
    where
        C: Clock,
    {
        self.first.long.clock()
    }

    /// Returns the generation in which threads record.
    #[inline]
    fn current(&self) -> &Generation<C> {
        // Acquire: pairs with the Release in `reconfigure`.
        match self.current.load(Ordering::Acquire) {
            0 => &self.first,
            later => self.later(later - 1),
        }
    }

    #[cold]
    fn later(&self, index: usize) -> &Generation<C> {
        self.later.iter().nth(index).expect("it was appended before it became the current one")
    }

    /// Returns the number of requests in flight, under all geometries.
    pub(super) fn in_flight(&self) -> u64 {
        Gauge::in_flight(|| self.arrays())
    }

    /// Returns bounds of the number of requests in flight, under all geometries.
    fn gauge(&self) -> Gauge {
        Gauge::of(|| self.arrays())
    }

    fn arrays(&self) -> impl Iterator<Item = &MetricArray> {
        self.generations().map(|generation| &**generation.array())
    }

    /// Returns the generations of all geometries that the node has had.
    fn generations(&self) -> impl Iterator<Item = &Generation<C>> {
        iter::once(&self.first).chain(self.later.iter().map(|item| &***item))
    }
}
