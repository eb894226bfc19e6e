//! Reasons of refusals, and the refusals of a node by reason.

use std::fmt;

use crate::sync::{AtomicU64, Ordering, RacyOnce, STRIPES, stripe};
use crossbeam_utils::CachePadded;

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The limit is reached.
    LimitReached,
    /// The request would have to wait longer than the maximum.
    WaitTooLong,
    /// The request asks for more permits than the current limit ever allows at once.
    MoreThanLimit,
    /// The backend fails too often.
    Failing,
    /// As many requests wait already as may wait: see
    /// [`WaitQueue::with_capacity`](crate::flow::WaitQueue::with_capacity).
    QueueFull,
    /// A reason of your own, as text.
    ///
    /// ```
    /// use leaparray::flow::{Reason, Refusal, Retry};
    ///
    /// let closed = Refusal::new(Reason::Custom("the shop is closed"), Retry::Unknown);
    /// assert_eq!(closed.to_string(), "refused: the shop is closed");
    /// ```
    Custom(&'static str),
}

impl Reason {
    /// Returns the position of the reason's count.
    const fn index(self) -> usize {
        match self {
            Self::LimitReached => 0,
            Self::WaitTooLong => 1,
            Self::MoreThanLimit => 2,
            Self::Failing => 3,
            Self::Custom(_) => 4,
            Self::QueueFull => 5,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LimitReached => "the limit is reached",
            Self::WaitTooLong => "the wait would be too long",
            Self::MoreThanLimit => "the request asks for more than the limit",
            Self::Failing => "the backend fails too often",
            Self::QueueFull => "too many requests wait already",
            Self::Custom(text) => text,
        })
    }
}

/// The number of kinds of reasons.
const KINDS: usize = 6;

/// The refused permits of a node by reason, since the node was made: plain data.
///
/// Refusals that are counted without a reason, by [`block`](crate::ResourceNode::block), are not
/// among them. The counts saturate. They are read one by one, beside threads that refuse, so for a
/// moment they may add up to more or less than the blocks. They belong to the node: those of a
/// resource that was evicted or removed go with it.
///
/// ```
/// use leaparray::flow::Reason;
/// use leaparray::{NodeConfig, ResourceNode, Timestamp};
///
/// let nodes = [(); 2].map(|()| ResourceNode::new(NodeConfig::default()));
/// for node in &nodes {
///     node.refuse_many_at(Timestamp::from_secs(60), 3, Reason::Failing);
/// }
/// let mut both = nodes[0].refusals();
/// both += &nodes[1].refusals();
/// assert_eq!((both.failing, both.sum()), (6, 6));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Refusals {
    /// Refused because the limit was reached.
    pub limit_reached: u64,
    /// Refused because the wait would have been too long.
    pub wait_too_long: u64,
    /// Refused because the request asked for more than the limit.
    pub more_than_limit: u64,
    /// Refused because the backend failed too often.
    pub failing: u64,
    /// Refused for any [reason of your own](Reason::Custom).
    pub custom: u64,
    /// Refused because too many requests waited already.
    #[cfg_attr(feature = "serde", serde(default))]
    pub queue_full: u64,
}

impl Refusals {
    const fn from_counts(counts: [u64; KINDS]) -> Self {
        let [limit_reached, wait_too_long, more_than_limit, failing, custom, queue_full] = counts;
        Self { limit_reached, wait_too_long, more_than_limit, failing, custom, queue_full }
    }

    const fn counts(&self) -> [u64; KINDS] {
        let Self { limit_reached, wait_too_long, more_than_limit, failing, custom, queue_full } =
            *self;
        [limit_reached, wait_too_long, more_than_limit, failing, custom, queue_full]
    }

    /// Returns the number of refused permits for all reasons together. It saturates at `u64::MAX`.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.counts().into_iter().fold(0, u64::saturating_add)
    }
}

impl std::ops::AddAssign<&Self> for Refusals {
    /// Adds the counts of another node. They saturate.
    fn add_assign(&mut self, other: &Self) {
        let (mine, other) = (self.counts(), other.counts());
        *self = Self::from_counts(std::array::from_fn(|i| mine[i].saturating_add(other[i])));
    }
}

/// The counters of refusals by reason. They are made by the first refusal with a reason.
///
/// Each thread adds to one of a few stripes, so that threads that refuse at the same time do not
/// write one cache line.
pub(crate) struct RefusalCounters(RacyOnce<Box<[Stripe]>>);

type Stripe = CachePadded<[AtomicU64; KINDS]>;

impl RefusalCounters {
    pub(crate) fn new() -> Self {
        Self(RacyOnce::new())
    }

    pub(crate) fn add(&self, reason: Reason, permits: u64) {
        let make =
            || (0..STRIPES).map(|_| CachePadded::new([0; KINDS].map(AtomicU64::new))).collect();
        let stripes = self.0.get_or_init(make);
        let count = &stripes[stripe().after(0) % STRIPES][reason.index()];
        // Relaxed: a count that orders nothing. A few threads share it, so a compare-exchange
        // rarely fails.
        let add = |count: u64| Some(count.saturating_add(permits));
        let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns whether a request was refused with a reason.
    pub(crate) fn is_used(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn get(&self) -> Refusals {
        let mut refusals = Refusals::default();
        for stripe in self.0.get().into_iter().flat_map(|stripes| stripes.iter()) {
            let counts = std::array::from_fn(|i| stripe[i].load(Ordering::Relaxed));
            refusals += &Refusals::from_counts(counts);
        }
        refusals
    }
}

impl fmt::Debug for RefusalCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
