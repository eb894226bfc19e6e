//! The outcome of a request whose entry or permit is dropped.

use std::thread;

use super::permit::Outcome;
use crate::sync::{AtomicU32, Ordering};

/// The outcome of a request whose [`Entry`](crate::Entry), or whose permit of a breaker, is dropped
/// before an outcome is reported.
///
/// In plain code, a drop is an early return on an error, so the default is an exception. A future
/// is also dropped if its client goes away, which says nothing about the service: for futures,
/// choose [`Cancelled`](Self::Cancelled). The policy can be set for [a
/// registry](crate::RegistryConfig::on_drop), for [a
/// resource](crate::registry::ResourceConfig::on_drop), for [a
/// node](crate::ResourceNode::set_on_drop), for [a
/// breaker](crate::flow::breaker::AdaptiveBreakerConfig::on_drop), and for a single
/// [entry](crate::Entry::on_drop) or [permit](crate::flow::FeedbackPermit::on_drop).
///
/// Under either policy, a drop by a panic that began after the request entered is an exception. A
/// request that a destructor enters during a panic follows the policy.
///
/// If an entry has the permit of a breaker or of an adaptive limiter, the policy of the entry
/// applies to both. A drop is a cancellation for that controller also if the policy of the permit
/// or of the controller says so.
///
/// ```
/// use leaparray::{MetricEvent, NodeConfig, ResourceNode};
/// use leaparray::node::OnDrop;
///
/// let node = ResourceNode::new(NodeConfig::default());
/// drop(node.enter());
/// drop(node.enter().on_drop(OnDrop::Cancelled));
/// node.set_on_drop(OnDrop::Cancelled);
/// drop(node.enter());
/// assert_eq!(node.now().long().sum(MetricEvent::Exception), 1);
/// assert_eq!(node.now().long().sum(MetricEvent::Cancelled), 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnDrop {
    /// The request has failed.
    #[default]
    Exception,
    /// The request was cancelled: it neither succeeded nor failed.
    Cancelled,
}

/// An [`OnDrop`] that can be changed while threads read it.
#[derive(Debug)]
pub(crate) struct AtomicOnDrop(AtomicU32);

impl AtomicOnDrop {
    pub(crate) fn new(policy: OnDrop) -> Self {
        Self(AtomicU32::new(policy as u32))
    }

    pub(crate) fn get(&self) -> OnDrop {
        // Relaxed, as in `set`: the policy orders nothing.
        let policy = self.0.load(Ordering::Relaxed);
        if policy == OnDrop::Cancelled as u32 { OnDrop::Cancelled } else { OnDrop::Exception }
    }

    pub(crate) fn set(&self, policy: OnDrop) {
        self.0.store(policy as u32, Ordering::Relaxed);
    }
}

/// How an entry or a permit ends if it is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drops {
    state: DropState,
    /// Whether the thread was panicking when the request entered: in a destructor that a panic
    /// calls.
    in_panic: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DropState {
    /// The outcome was reported, and a drop does nothing.
    Ended,
    /// The policy of the node or of the breaker applies.
    Inherited,
    Exception,
    Cancelled,
}

impl Drops {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of an entry")]
    pub(crate) fn inherited() -> Self {
        Self { state: DropState::Inherited, in_panic: thread::panicking() }
    }

    #[inline]
    pub(crate) const fn as_policy(self, policy: OnDrop) -> Self {
        let state = match policy {
            OnDrop::Exception => DropState::Exception,
            OnDrop::Cancelled => DropState::Cancelled,
        };
        Self { state, ..self }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of an entry")]
    pub(crate) const fn end(&mut self) {
        self.state = DropState::Ended;
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of an entry")]
    pub(crate) const fn has_ended(self) -> bool {
        matches!(self.state, DropState::Ended)
    }

    /// Returns the outcome of the drop that is taking place, if `inherited` is the policy of the
    /// node or of the breaker.
    pub(crate) fn now(self, inherited: OnDrop) -> Outcome {
        if thread::panicking() && !self.in_panic {
            return Outcome::Exception;
        }
        match (self.state, inherited) {
            (DropState::Cancelled, _) | (DropState::Inherited, OnDrop::Cancelled) => {
                Outcome::Cancelled
            }
            _ => Outcome::Exception,
        }
    }
}
