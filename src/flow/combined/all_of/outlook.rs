//! The decision that several limiters would make together.

use std::time::Duration;

use crate::flow::contract::{Decision, Refusal, Retry};
use crate::time::Timestamp;

/// The decision that several limiters would make together. For `leaparray-rules`, which combines
/// limiters that it knows without an [`AllOf`](crate::flow::AllOf).
#[derive(Debug, Default)]
pub struct Outlook {
    refusal: Option<Refusal>,
    wait: Duration,
    is_unknown: bool,
}

impl Outlook {
    /// Adds the decision of a limiter. Returns whether it could tell.
    #[inline]
    pub fn add(&mut self, peek: Option<Decision>) -> bool {
        match peek {
            None => self.is_unknown = true,
            Some(Decision::Admitted(())) => {}
            Some(Decision::Wait(delayed)) => self.wait = self.wait.max(delayed.wait()),
            Some(Decision::Refused(refusal)) => {
                let is_later = |before: &Refusal| rank(refusal.retry()) > rank(before.retry());
                if self.refusal.as_ref().is_none_or(is_later) {
                    self.refusal = Some(refusal.of_combination());
                }
            }
        }
        peek.is_some()
    }

    /// Returns the refusal with the latest time to retry, if any limiter would refuse.
    #[inline]
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    pub(super) const fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Returns the decision of all limiters; `None` if it is not known.
    pub(super) fn decision(&self) -> Option<Decision> {
        match self.refusal {
            Some(refusal) => Some(Decision::Refused(refusal)),
            None if self.is_unknown => None,
            None => Some(Decision::after((), self.wait)),
        }
    }
}

/// Orders the times to retry. A known time comes after an unknown one: it is the earliest in either
/// case. So does an answer: a limiter that does not know may know more by then.
const fn rank(retry: Retry) -> (u8, Timestamp) {
    match retry {
        Retry::Unknown => (0, Timestamp::MIN),
        Retry::OnAnswer => (1, Timestamp::MIN),
        Retry::At(time) => (2, time),
        Retry::Never => (3, Timestamp::MAX),
    }
}
