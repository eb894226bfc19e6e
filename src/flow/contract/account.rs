//! The parts of a limiter besides its decisions.

use std::task::Waker;
use std::time::Duration;

use super::Ask;
use crate::flow::contract::Quota;
use crate::flow::watch::WatchedState;
use crate::time::Timestamp;

/// The account of a [`Limiter`](super::Limiter): its clock, its quotas, and the permits that come
/// back. Every method has a default, for a limiter that has nothing to tell.
///
/// A limiter that wraps another returns the account of that one.
pub trait Account {
    /// Returns the time of the limiter's clock. By default, this is [`Timestamp::MIN`], for a
    /// limiter whose decisions do not depend on the time.
    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }

    /// Returns the limit, the permits that remain at `now`, and the time at which all of them
    /// remain again; `None` if the limiter has no such numbers.
    fn quota(&self, _now: Timestamp) -> Option<Quota> {
        None
    }

    /// Calls `visit` with the state of each limit of which the limiter consists: of its only one by
    /// [`quota`](Self::quota), or of each in a combination such as [`AllOf`](crate::flow::AllOf).
    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        if let Some(quota) = self.quota(now) {
            visit(quota);
        }
    }

    /// Returns the state that a monitor shows of the limiter at `now`: see
    /// [`Registry::watch`](crate::Registry::watch). By default, that is the [quota](Self::quota),
    /// if there is one.
    fn watched_at(&self, now: Timestamp) -> WatchedState {
        self.quota(now).map_or(WatchedState::Nothing, WatchedState::Quota)
    }

    /// Returns whether the limiter is *as new* at `now`: whether from then on it decides as when it
    /// was made. `false` if it is not, or cannot tell. A
    /// [`Keyed`](crate::flow::Keyed) limiter drops the limiter of an idle key only
    /// if it is as new.
    ///
    /// By default, it is if the whole limit remains by its [quota](Self::quota), and the
    /// [reset](Quota::reset) is known and not after `now`. A limiter overrides this if its quota
    /// does not tell its whole state, or if it decides at another time than `now`, such as a
    /// horizon: an [`AllOf`](crate::flow::AllOf) is as new if each of its limiters is, and an
    /// [`AdaptiveLimiter`](crate::flow::AdaptiveLimiter), which learns its limit, never is.
    ///
    /// A limiter that learns of the end of a permit is not as new while a permit is in flight, even
    /// if nothing counts: it has to be there for the report. A
    /// [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter) knows the number of its permits. An
    /// `Arc` of an [`AdaptiveBreaker`](crate::flow::AdaptiveBreaker), a
    /// [`CircuitBreaker`](crate::flow::CircuitBreaker) or a
    /// [`Settling`](crate::flow::settle::Settling), to which permits refer, is as new only if it is
    /// the only one. So a breaker that the limiters of several keys share is never as new.
    fn is_as_new(&self, now: Timestamp) -> bool {
        self.quota(now).is_some_and(|quota| quota.is_whole_at(now))
    }

    /// Gives back the permits of a request that was admitted by `ask`, or was admitted after
    /// `wait`, and that will not go ahead. Returns whether they were given back. By default, they
    /// are not.
    ///
    /// For limiters whose permit is `()`. Other permits are given back when they are dropped.
    fn refund(&self, _ask: &Ask<'_>, _wait: Duration) -> bool {
        false
    }

    /// Wakes `waker` once, when the next answer from elsewhere is there: see
    /// [`Retry::OnAnswer`](crate::flow::Retry::OnAnswer). Returns whether an answer is to come. If
    /// none is, the answer for which a request was refused has come since: it asks again at once.
    /// So no answer is missed, and a request asks once for each answer. A waker that is registered
    /// again is kept once.
    ///
    /// By default, no answer is to come: most limiters never refuse with `OnAnswer`. A limiter that
    /// contains others passes the call on to each. This call must not wake `waker`: its caller may
    /// hold a lock.
    fn wake_on_answer(&self, _waker: &Waker) -> bool {
        false
    }

    /// Notes that a request waits for `permits` permits, until the returned note is dropped. A
    /// queue holds a note of each request that waits in it, also of those that have not asked yet.
    ///
    /// A limiter that gets its permits from elsewhere, such as the limit of a fleet, asks by these
    /// for its share. By default, there is no note: most limiters decide without it. A limiter that
    /// contains others passes the call on to each.
    fn note_wait(&self, _permits: u64) -> Option<Box<dyn Send + Sync>> {
        None
    }
}

/// The account of a limiter that has nothing to tell.
#[derive(Clone, Copy, Debug)]
pub(in crate::flow) struct NoAccount;

impl Account for NoAccount {}

/// The account of an absent limiter: it decides always as when it was made.
#[derive(Clone, Copy, Debug)]
pub(in crate::flow) struct NoLimiter;

impl Account for NoLimiter {
    fn is_as_new(&self, _now: Timestamp) -> bool {
        true
    }

    /// No permits were taken, so none are missing after the refund.
    fn refund(&self, _ask: &Ask<'_>, _wait: Duration) -> bool {
        true
    }
}
