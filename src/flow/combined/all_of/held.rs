//! The permits that limiters have given for a request, until all have given theirs.

use std::time::Duration;

use crate::flow::contract::{Ask, Limiter, Refusal};
use crate::node::Permit;

/// The permits that a limiter has given for a request, with its wait, until all limiters have given
/// theirs. Its drop gives them back: another limiter has refused, or has panicked.
pub(super) struct Held<'a, L: Limiter> {
    ask: &'a Ask<'a>,
    limiter: &'a L,
    given: Option<(L::Permit, Duration)>,
}

impl<'a, L: Limiter> Held<'a, L> {
    #[inline]
    pub(super) const fn nothing(ask: &'a Ask<'a>, limiter: &'a L) -> Self {
        Self { ask, limiter, given: None }
    }

    /// Asks the limiter.
    #[inline]
    pub(super) fn ask(&mut self) -> Result<(), Refusal> {
        let given = self.ask.decided_by(self.limiter).into_result();
        let given = given.map_err(Refusal::of_combination)?;
        self.given = Some(given.into_parts());
        Ok(())
    }

    pub(super) const fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Returns whether the limiter cannot tell in advance what it would decide.
    pub(super) fn cannot_tell(&self) -> bool {
        self.ask.foretold_by(self.limiter).is_none()
    }

    /// Returns the permits and the wait, if the limiter has given them.
    #[inline]
    pub(super) fn take(mut self) -> Option<(L::Permit, Duration)> {
        self.given.take()
    }

    /// Gives back the permits that the limiter has given. The wait is the wait of this limiter, not
    /// the longest one. A limiter that is itself a combination does not know its limiters' waits,
    /// and gives nothing back that had to wait.
    #[cold]
    fn give_back(&self, (mut permit, wait): (L::Permit, Duration)) {
        // One of the two has no effect, or both concern different parts of a limiter that is itself
        // a combination.
        self.limiter.account().refund(self.ask, wait);
        permit.withdraw_at(self.ask.now());
    }
}

impl<L: Limiter> Drop for Held<'_, L> {
    #[inline]
    fn drop(&mut self) {
        if let Some(given) = self.given.take() {
            self.give_back(given);
        }
    }
}
