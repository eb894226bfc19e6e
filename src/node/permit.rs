//! The permit of a controller, and the outcome of a request that it is told.

use crate::metric::MetricEvent;
use crate::time::Timestamp;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request succeeded.
    Success,
    /// The request failed.
    Exception,
    /// The request was cancelled: it neither succeeded nor failed.
    Cancelled,
}

impl Outcome {
    /// Returns the event that counts this outcome.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Outcome};
    ///
    /// assert_eq!(Outcome::Cancelled.event(), MetricEvent::Cancelled);
    /// ```
    #[must_use]
    #[inline]
    pub const fn event(self) -> MetricEvent {
        match self {
            Self::Success => MetricEvent::Success,
            Self::Exception => MetricEvent::Exception,
            Self::Cancelled => MetricEvent::Cancelled,
        }
    }
}

/// The permit of a request that a controller has admitted. At the end of the request, it is told
/// the outcome.
///
/// `()` is the permit of controllers that need no notice of the end. The permit of a request that
/// was entered through a [`Limiter`](crate::flow::Limiter) is part of its [`Entry`](crate::Entry),
/// which ends it.
///
/// ```
/// use leaparray::flow::{Ask, Decision, Limiter, LimiterExt};
/// use leaparray::{NodeConfig, Outcome, Permit, ResourceNode, Timestamp};
/// use std::cell::Cell;
///
/// /// Admits every request, and notes the last outcome.
/// #[derive(Default)]
/// struct Witness(Cell<Option<Outcome>>);
///
/// struct Note<'a>(&'a Witness);
///
/// impl Permit for Note<'_> {
///     fn end_at(&mut self, _now: Timestamp, outcome: Outcome) {
///         self.0.0.set(Some(outcome));
///     }
/// }
///
/// impl<'a> Limiter for &'a Witness {
///     type Permit = Note<'a>;
///
///     fn decide(&self, _ask: &Ask<'_>) -> Decision<Note<'a>> {
///         Decision::Admitted(Note(self))
///     }
/// }
///
/// let (witness, node) = (Witness::default(), ResourceNode::new(NodeConfig::default()));
/// (&witness).try_enter(&node)?.exception();
/// assert_eq!(witness.0.get(), Some(Outcome::Exception));
/// # Ok::<_, leaparray::flow::Refusal>(())
/// ```
pub trait Permit {
    /// Tells the controller how the request ended. Called at most once, before the permit is
    /// dropped.
    fn end_at(&mut self, now: Timestamp, outcome: Outcome);

    /// Tells the controller that the entry was dropped, with the outcome that this has for the
    /// node. A controller with a policy of its own overrides this.
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.end_at(now, outcome);
    }

    /// Tells the controller that the request was admitted, and does not go ahead, because another
    /// limiter of an [`AllOf`](crate::flow::AllOf) has refused it. By default, the request was
    /// [cancelled](Outcome::Cancelled). A controller that does not give the permits of a cancelled
    /// request back overrides this. Called at most once, before the permit is dropped.
    fn withdraw_at(&mut self, now: Timestamp) {
        self.end_at(now, Outcome::Cancelled);
    }
}

impl Permit for () {
    #[inline(always)]
    fn end_at(&mut self, _now: Timestamp, _outcome: Outcome) {}
}

impl<P: Permit + ?Sized> Permit for Box<P> {
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        (**self).end_at(now, outcome);
    }

    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        (**self).drop_at(now, outcome);
    }

    fn withdraw_at(&mut self, now: Timestamp) {
        (**self).withdraw_at(now);
    }
}

impl<P: Permit> Permit for Option<P> {
    /// Ends the permit, if there is one.
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        if let Some(permit) = self {
            permit.end_at(now, outcome);
        }
    }

    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        if let Some(permit) = self {
            permit.drop_at(now, outcome);
        }
    }

    fn withdraw_at(&mut self, now: Timestamp) {
        if let Some(permit) = self {
            permit.withdraw_at(now);
        }
    }
}

macro_rules! tuple {
    ($($permit:ident $index:tt),*) => {
        impl<$($permit: Permit),*> Permit for ($($permit,)*) {
            /// Ends each permit.
            #[inline]
            fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
                $( self.$index.end_at(now, outcome); )*
            }

            #[inline]
            fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
                $( self.$index.drop_at(now, outcome); )*
            }

            fn withdraw_at(&mut self, now: Timestamp) {
                $( self.$index.withdraw_at(now); )*
            }
        }
    };
}

tuple!(P 0, Q 1);
tuple!(P 0, Q 1, R 2);
tuple!(P 0, Q 1, R 2, S 3);

impl<P: Permit> Permit for Vec<P> {
    /// Ends each permit.
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        for permit in self {
            permit.end_at(now, outcome);
        }
    }

    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        for permit in self {
            permit.drop_at(now, outcome);
        }
    }

    fn withdraw_at(&mut self, now: Timestamp) {
        for permit in self {
            permit.withdraw_at(now);
        }
    }
}
