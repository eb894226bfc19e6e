//! A request in flight.
#![expect(
    clippy::inline_always,
    reason = "one call that is not inlined moves the entry to memory, which costs a fifth more"
)]

use std::ops::Deref;
use std::{fmt, mem};

use super::ResourceNode;
use super::on_drop::{Drops, OnDrop};
use super::permit::{Outcome, Permit};
use super::reserve::Reservation;
use crate::metric_array::Origin;
use crate::time::{Clock, MonotonicClock, Timestamp};

/// A request that has entered a node and has not ended yet.
///
/// A request ends exactly once: by [`success`](Self::success), by [`exception`](Self::exception),
/// by [`cancel`](Self::cancel), or when the entry is dropped: on an early return, in a panic, or
/// with its future. A drop is an exception or a cancellation, as the policy says, [`OnDrop`]; by
/// default, it is an exception. At its end, the outcome and the response time are recorded in the
/// bucket in which the request ends, and the node has one request fewer in flight. A cancelled
/// request records no response time, which would say how long its client has waited.
///
/// If the clock panics when the entry reads it, the request ends as an exception at the time at
/// which it entered, without a response time. If the entry is dropped during another panic and the
/// clock panics too, the process aborts.
///
/// An entry can be sent to another thread, and end there. `N` is the type of the reference to the
/// node: `&ResourceNode`, `Arc`, or a [`Resource`](crate::Resource) of a registry. `P` is the
/// permit of the controller that admitted the request, if it was entered through a
/// [`Limiter`](crate::flow::Limiter). The entry ends the permit, after its own end was counted.
///
/// ```
/// use leaparray::{MetricEvent, NodeConfig, ResourceNode};
///
/// fn handle(node: &ResourceNode, request: &str) -> Result<u64, std::num::ParseIntError> {
///     let entry = node.enter();
///     let number = request.parse()?;
///     entry.success();
///     Ok(number)
/// }
///
/// let node = ResourceNode::new(NodeConfig::default());
/// assert!(handle(&node, "7").is_ok());
/// assert!(handle(&node, "seven").is_err());
/// assert_eq!(node.now().long().sum(MetricEvent::Success), 1);
/// assert_eq!(node.now().long().sum(MetricEvent::Exception), 1);
/// assert_eq!(node.concurrency(), 0);
/// ```
#[must_use = "an entry that is dropped at once has no outcome"]
pub struct Entry<N, C = MonotonicClock, P = ()>
where
    N: Deref<Target = ResourceNode<C>>,
    C: Clock + Clone,
    P: Permit,
{
    node: N,
    start: Timestamp,
    permits: u64,
    origin: Origin,
    drops: Drops,
    /// `None` once the request has ended. An option, so that the end can take it: a reference to
    /// the field would keep the entry in memory.
    permit: Option<P>,
}

impl<N, C> Entry<N, C>
where
    N: Deref<Target = ResourceNode<C>>,
    C: Clock + Clone,
{
    /// Enters one request, through any reference to its node; see [`ResourceNode::enter`]. The
    /// entry of an [`Arc`](std::sync::Arc) or of a [`Resource`](crate::Resource) borrows nothing.
    ///
    /// ```
    /// use leaparray::{Entry, NodeConfig, ResourceNode};
    /// use std::sync::Arc;
    ///
    /// let node = Arc::new(ResourceNode::new(NodeConfig::default()));
    /// let entry = Entry::enter(Arc::clone(&node));
    /// std::thread::spawn(move || entry.success()).join().unwrap();
    /// assert_eq!(node.concurrency(), 0);
    /// ```
    #[inline(always)]
    pub fn enter(node: N) -> Self {
        let now = node.clock().now();
        Self::enter_at(node, now)
    }

    /// Like [`enter`](Self::enter), at `now`.
    #[inline(always)]
    pub fn enter_at(node: N, now: Timestamp) -> Self {
        Self::enter_many_at(node, now, 1)
    }

    /// Enters one request of `permits` permits at `now`: counts a pass for each permit, and one
    /// more request in flight. A request of 0 permits is in flight as well, and has a response
    /// time.
    #[inline(always)]
    pub fn enter_many_at(node: N, now: Timestamp, permits: u64) -> Self {
        Self::with_permit(node, now, permits, ())
    }

    /// Enters a request at `now` whose permits were [reserved](ResourceNode::reserve_next_at):
    /// counts one more request in flight, and no pass, because reserved permits count as passes
    /// already.
    #[expect(clippy::needless_pass_by_value, reason = "the permits are used once")]
    pub fn enter_reserved_at(node: N, now: Timestamp, reservation: Reservation) -> Self {
        let origin = node.count_in(now, 0);
        Self::of(node, now, reservation.permits(), origin, Some(()))
    }
}

impl<N, C, P> Entry<N, C, P>
where
    N: Deref<Target = ResourceNode<C>>,
    C: Clock + Clone,
    P: Permit,
{
    /// Enters a request of `permits` permits at `now`, with the permit of the controller that
    /// admitted it.
    #[inline(always)]
    pub(crate) fn with_permit(node: N, now: Timestamp, permits: u64, permit: P) -> Self {
        let origin = node.count_in(now, permits);
        Self::of(node, now, permits, origin, Some(permit))
    }

    /// Enters a request that holds no permit, in an entry for one that holds some. For
    /// `leaparray-rules`, where the rules in force tell whether a request holds some.
    #[doc(hidden)]
    #[inline(always)]
    pub fn without_permit(node: N, now: Timestamp, permits: u64) -> Self {
        let origin = node.count_in(now, permits);
        Self::of(node, now, permits, origin, None)
    }

    /// Creates the entry of a request that has been counted.
    #[inline(always)]
    fn of(node: N, start: Timestamp, permits: u64, origin: Origin, permit: Option<P>) -> Self {
        Self { node, start, permits, origin, drops: Drops::inherited(), permit }
    }

    /// Returns the reference to the node that the request has entered.
    ///
    /// ```
    /// use leaparray::{Entry, Registry};
    ///
    /// let registry = Registry::new();
    /// let entry = Entry::enter(registry.resource("GET /orders")?);
    /// assert_eq!(entry.node().name(), "GET /orders");
    /// entry.success();
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub const fn node(&self) -> &N {
        &self.node
    }

    /// Returns the number of permits of the request.
    pub const fn permits(&self) -> u64 {
        self.permits
    }

    /// Returns the time at which the request entered.
    pub const fn started(&self) -> Timestamp {
        self.start
    }

    /// Ends the request now: counts a [success](crate::MetricEvent::Success) for each permit, and
    /// one response time.
    #[inline(always)]
    pub fn success(mut self) {
        self.end(C::now, Outcome::Success);
    }

    /// Ends the request now: counts an [exception](crate::MetricEvent::Exception) for each permit,
    /// and one response time.
    #[inline(always)]
    pub fn exception(mut self) {
        self.end(C::now, Outcome::Exception);
    }

    /// Ends the request now, as cancelled: counts [`Cancelled`](crate::MetricEvent::Cancelled) for
    /// each permit, and no response time.
    ///
    /// A request is cancelled if its outcome is not known and says nothing about the service,
    /// because the client has gone away or the work was given up.
    ///
    /// ```
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// node.enter().cancel();
    /// let totals = node.now().snapshot().long.totals;
    /// assert_eq!((totals.sum(MetricEvent::Pass), totals.sum(MetricEvent::Cancelled)), (1, 1));
    /// assert_eq!((totals.failure_ratio(), totals.rt_count()), (None, 0));
    /// ```
    pub fn cancel(mut self) {
        self.end(C::now, Outcome::Cancelled);
    }

    /// Ends the request now with the given outcome: [`success`](Self::success),
    /// [`exception`](Self::exception) or [`cancel`](Self::cancel).
    ///
    /// ```
    /// use leaparray::{MetricEvent, NodeConfig, Outcome, ResourceNode};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// for status in [200, 500] {
    ///     let outcome = if status < 500 { Outcome::Success } else { Outcome::Exception };
    ///     node.enter().end_with(outcome);
    /// }
    /// let sum = |event| node.now().long().sum(event);
    /// assert_eq!((sum(MetricEvent::Success), sum(MetricEvent::Exception)), (1, 1));
    /// ```
    pub fn end_with(mut self, outcome: Outcome) {
        self.end(C::now, outcome);
    }

    /// Like [`end_with`](Self::end_with), at `now`. If `now` is before the time at which the
    /// request entered, the response time is zero.
    #[inline(always)]
    pub fn end_at(mut self, now: Timestamp, outcome: Outcome) {
        self.end(|_| now, outcome);
    }

    /// Like [`end_with`](Self::end_with), and keeps the reference to the node until the drop. Does
    /// nothing if the request has ended. For `leaparray-tower`, whose entries are part of a larger
    /// value, where an end that takes the entry would first move it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn end_in_place(&mut self, outcome: Outcome) {
        if !self.drops.has_ended() {
            self.end(C::now, outcome);
        }
    }

    /// Ends the request as the drop of this entry would, and keeps the reference to the node.
    #[doc(hidden)]
    #[cold]
    pub fn end_as_dropped(&mut self) {
        let drops = self.drops;
        if !drops.has_ended() {
            self.drops.end();
            let permit = self.permit.take();
            let Self { node, start, permits, origin, .. } = self;
            Self::end_dropped(node, *start, *permits, *origin, permit, drops);
        }
    }

    /// Returns whether the request has ended, by an end in place.
    #[doc(hidden)]
    #[inline]
    pub const fn has_ended(&self) -> bool {
        self.drops.has_ended()
    }

    /// Like [`on_drop`](Self::on_drop), in place.
    #[doc(hidden)]
    pub const fn set_on_drop(&mut self, policy: OnDrop) {
        self.drops = self.drops.as_policy(policy);
    }

    /// Sets the outcome of the request if this entry is dropped before it has ended, instead of the
    /// [policy of its node](ResourceNode::set_on_drop).
    pub fn on_drop(mut self, policy: OnDrop) -> Self {
        self.drops = self.drops.as_policy(policy);
        self
    }

    #[inline(always)]
    fn end(&mut self, now: impl FnOnce(&C) -> Timestamp, outcome: Outcome) {
        // Set before the clock is read: if the clock panics, `drop` does not end the request again.
        self.drops.end();
        let Self { node, start, permits, origin, permit, .. } = self;
        let (start, permits, origin) = (*start, *permits, *origin);
        if size_of::<P>() <= Self::SMALL_PERMIT {
            let mut permit = permit.take();
            Self::end_of(node, start, permits, origin, &mut permit, now, outcome, false);
        } else {
            Self::end_of(node, start, permits, origin, permit, now, outcome, false);
            *permit = None;
        }
    }

    /// The bytes of a permit that is taken out of the entry to end it. A greater one is ended where
    /// it is, since a copy of it takes longer than an entry that stays in memory.
    const SMALL_PERMIT: usize = 4 * size_of::<usize>();

    /// Ends the request. Takes the fields rather than `&self`, because an entry whose address is
    /// taken stays in memory.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "see above")]
    fn end_of(
        node: &ResourceNode<C>,
        start: Timestamp,
        permits: u64,
        origin: Origin,
        permit: &mut Option<P>,
        now: impl FnOnce(&C) -> Timestamp,
        outcome: Outcome,
        is_drop: bool,
    ) {
        let without_time = EndWithoutTime { node, start, permits, origin, permit: &mut *permit };
        let now = now(node.clock());
        mem::forget(without_time);
        let has_rt = !matches!(outcome, Outcome::Cancelled);
        let rt_nanos = has_rt.then(|| nanos_since(start, now));
        node.count_out(now, outcome.event(), permits, rt_nanos, origin);
        if is_drop {
            permit.drop_at(now, outcome);
        } else {
            permit.end_at(now, outcome);
        }
    }

    /// Ends a request whose entry was dropped.
    #[cold]
    fn end_dropped(
        node: &ResourceNode<C>,
        start: Timestamp,
        permits: u64,
        origin: Origin,
        mut permit: Option<P>,
        drops: Drops,
    ) {
        let outcome = drops.now(node.on_drop());
        Self::end_of(node, start, permits, origin, &mut permit, C::now, outcome, true);
    }
}

/// A guard that ends a request if the clock panics. Its drop counts an exception at the time at
/// which the request entered, without a response time.
struct EndWithoutTime<'a, C: Clock + Clone, P: Permit> {
    node: &'a ResourceNode<C>,
    start: Timestamp,
    permits: u64,
    origin: Origin,
    permit: &'a mut Option<P>,
}

impl<C: Clock + Clone, P: Permit> Drop for EndWithoutTime<'_, C, P> {
    #[cold]
    fn drop(&mut self) {
        let outcome = Outcome::Exception;
        self.node.count_out(self.start, outcome.event(), self.permits, None, self.origin);
        self.permit.end_at(self.start, outcome);
    }
}

/// Returns the response time in nanoseconds; 0 if the request ends before it begins.
#[inline(always)]
const fn nanos_since(start: Timestamp, end: Timestamp) -> u64 {
    end.as_nanos().saturating_sub(start.as_nanos())
}

impl<N, C, P> Drop for Entry<N, C, P>
where
    N: Deref<Target = ResourceNode<C>>,
    C: Clock + Clone,
    P: Permit,
{
    #[inline(always)]
    fn drop(&mut self) {
        if !self.drops.has_ended() {
            let permit = self.permit.take();
            let Self { node, start, permits, origin, drops, .. } = self;
            Self::end_dropped(node, *start, *permits, *origin, permit, *drops);
        }
    }
}

impl<N, C, P> fmt::Debug for Entry<N, C, P>
where
    N: Deref<Target = ResourceNode<C>>,
    C: Clock + Clone,
    P: Permit,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entry = f.debug_struct("Entry");
        entry.field("started", &self.start).field("permits", &self.permits).finish_non_exhaustive()
    }
}
