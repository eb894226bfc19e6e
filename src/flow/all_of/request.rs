//! A request to several limiters.

use std::time::Duration;

use crate::flow::{Decision, Delayed, Limiter, Passed, Quota, Reason, Refusal, Retry};
use crate::node::{Outcome, Permit};
use crate::time::Timestamp;

/// A request that each limiter is asked for.
pub(super) struct Request<'a> {
    pub(super) how: How<'a>,
    pub(super) now: Timestamp,
    pub(super) permits: u64,
}

/// The method by which a limiter is asked.
pub(super) enum How<'a> {
    /// [`Limiter::try_acquire_at`].
    AtAnyTime,
    /// [`Limiter::try_acquire_for`].
    For(&'a dyn Passed),
    /// [`Limiter::try_acquire_at_once`].
    AtOnce(Option<&'a dyn Passed>),
}

impl Request<'_> {
    /// Returns the decision that the limiter would make; `None` if it cannot tell. A node is not
    /// asked, so a limiter that also counts the requests of a node may decide otherwise.
    #[inline]
    pub(super) fn peek<L: Limiter>(&self, limiter: &L) -> Option<Decision> {
        let peek = limiter.peek_at(self.now, self.permits)?;
        Some(match (peek, &self.how) {
            (Decision::Wait(delayed), How::AtOnce(_)) => {
                let retry = Retry::At(self.now.saturating_add(delayed.wait()));
                Decision::Refused(Refusal::new(Reason::WaitTooLong, retry))
            }
            (peek, _) => peek,
        })
    }

    #[inline]
    fn ask<L: Limiter>(&self, limiter: &L) -> Result<Delayed<L::Permit>, Refusal> {
        let decision = match self.how {
            How::AtAnyTime => limiter.try_acquire_at(self.now, self.permits),
            How::For(node) => limiter.try_acquire_for(node, self.now, self.permits),
            How::AtOnce(node) => limiter.try_acquire_at_once(node, self.now, self.permits),
        };
        decision.into_result()
    }

    /// Gives back the permits that a limiter has given. The wait is the wait of this limiter, not
    /// the longest one. A limiter that is itself a combination does not know its limiters' waits,
    /// and gives nothing back that had to wait.
    #[cold]
    fn give_back<L: Limiter>(&self, limiter: &L, (mut permit, wait): (L::Permit, Duration)) {
        // One of the two has no effect, or both concern different parts of a limiter that is itself
        // a combination.
        limiter.refund_at(self.now, self.permits, wait);
        permit.end_at(self.now, Outcome::Cancelled);
    }
}

/// The permits that a limiter has given for a request, with its wait, until all limiters have given
/// theirs. Its drop gives them back: another limiter has refused, or has panicked.
pub(super) struct Held<'a, L: Limiter> {
    request: &'a Request<'a>,
    limiter: &'a L,
    given: Option<(L::Permit, Duration)>,
}

impl<'a, L: Limiter> Held<'a, L> {
    #[inline]
    pub(super) const fn nothing(request: &'a Request<'a>, limiter: &'a L) -> Self {
        Self { request, limiter, given: None }
    }

    /// Asks the limiter.
    #[inline]
    pub(super) fn ask(&mut self) -> Result<(), Refusal> {
        self.given = Some(self.request.ask(self.limiter)?.into_parts());
        Ok(())
    }

    pub(super) const fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Returns whether the limiter cannot tell in advance what it would decide.
    pub(super) fn cannot_tell(&self) -> bool {
        self.request.peek(self.limiter).is_none()
    }

    /// Returns the permits and the wait, if the limiter has given them.
    #[inline]
    pub(super) fn take(mut self) -> Option<(L::Permit, Duration)> {
        self.given.take()
    }
}

impl<L: Limiter> Drop for Held<'_, L> {
    #[inline]
    fn drop(&mut self) {
        if let Some(given) = self.given.take() {
            self.request.give_back(self.limiter, given);
        }
    }
}

/// The decision that several limiters would make together.
#[derive(Default)]
pub(super) struct Outlook {
    refusal: Option<Refusal>,
    wait: Duration,
    is_unknown: bool,
}

impl Outlook {
    /// Adds the decision of a limiter. Returns whether it could tell.
    #[inline]
    pub(super) fn add(&mut self, peek: Option<Decision>) -> bool {
        match peek {
            None => self.is_unknown = true,
            Some(Decision::Admitted(())) => {}
            Some(Decision::Wait(delayed)) => self.wait = self.wait.max(delayed.wait()),
            Some(Decision::Refused(refusal)) => {
                let is_later = |before: &Refusal| rank(refusal.retry) > rank(before.retry);
                if self.refusal.as_ref().is_none_or(is_later) {
                    self.refusal = Some(refusal);
                }
            }
        }
        peek.is_some()
    }

    /// Returns the refusal with the latest time to retry, if any limiter would refuse.
    #[inline]
    pub(super) const fn refusal(&self) -> Option<Refusal> {
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

/// Returns the quota with the fewest permits, the first one of several.
pub(super) fn tightest(quotas: impl IntoIterator<Item = Option<Quota>>) -> Option<Quota> {
    quotas.into_iter().flatten().min_by_key(|quota| quota.remaining)
}
