//! A limiter with a name.

use std::task::Waker;
use std::time::Duration;

use super::{Account, Ask, Limiter};
use crate::collections::{NameId, intern};
use crate::flow::contract::{Decision, Quota};
use crate::flow::watch::WatchedState;
use crate::time::Timestamp;

/// A limiter whose [quotas](Quota::name) and [refusals](crate::flow::Refusal::limiter) have a name:
/// see [`LimiterExt::named`](super::LimiterExt::named).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<L> {
    name: &'static str,
    id: NameId,
    limiter: L,
}

impl<L> Named<L> {
    pub(super) fn new(name: &str, limiter: L) -> Self {
        let (id, name) = intern(name);
        Self { name, id, limiter }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the limiter.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Names another limiter as this one is named, without a look-up of the name: for a limiter
    /// that is made for each request.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, LimiterExt, Rate, TokenBucket};
    ///
    /// let rate = Rate::per_minute(1)?;
    /// let clients = Keyed::<String, _>::new(TokenBucket::new(rate, 1), 1_000)?;
    /// let all = TokenBucket::new(rate, 0).named("clients");
    /// let ann = all.over(clients.of_key("ann"));
    /// assert!(ann.try_acquire().is_admitted());
    /// let refusal = ann.try_acquire().refusal().expect("one a minute");
    /// assert_eq!(refusal.limiter(), Some("clients"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn over<M>(&self, limiter: M) -> Named<M> {
        let Self { name, id, .. } = *self;
        Named { name, id, limiter }
    }

    fn name_of(&self, quota: Quota) -> Quota {
        Quota { name: quota.name.or(Some(self.name)), ..quota }
    }
}

impl<L: Limiter> Limiter for Named<L> {
    type Permit = L::Permit;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<L::Permit> {
        match ask.decided_by(&self.limiter) {
            Decision::Refused(refusal) => Decision::Refused(refusal.named_by(self.id)),
            decision => decision,
        }
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        Some(match ask.foretold_by(&self.limiter)? {
            Decision::Refused(refusal) => Decision::Refused(refusal.named_by(self.id)),
            decision => decision,
        })
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<L: Limiter> Account for Named<L> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.limiter.account().now()
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.limiter.account().quota(now).map(|quota| self.name_of(quota))
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.limiter.account().each_quota(now, &mut |quota| visit(self.name_of(quota)));
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        match self.limiter.account().watched_at(now) {
            WatchedState::Quota(quota) => WatchedState::Quota(self.name_of(quota)),
            state => state,
        }
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.limiter.account().is_as_new(now)
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        self.limiter.account().refund(ask, wait)
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.limiter.account().wake_on_answer(waker)
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.limiter.account().note_wait(permits)
    }
}
