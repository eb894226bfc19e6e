//! The trait of limits for each key.

use std::task::Waker;

use crate::flow::contract::{Ask, Decision, Quota};
use crate::node::Permit;
use crate::time::Timestamp;

/// A limit for each key of a [`KeyedLimiter`](super::KeyedLimiter): settings that all keys share,
/// and a compact state for each key.
///
/// | limit | state of a key |
/// |---|---|
/// | [`TokenBucketPerKey`](super::TokenBucketPerKey) | 8 bytes |
/// | [`LeakyBucketPerKey`](super::LeakyBucketPerKey) | 8 bytes |
/// | [`FixedWindowPerKey`](super::FixedWindowPerKey) | 8 bytes |
/// | [`LimiterPerKey`](super::LimiterPerKey) | any [`Limiter`](crate::flow::Limiter) of this crate or of your own |
///
/// # As new
///
/// A state is *as new* at a time if from then on it decides as the state of a key that was never
/// seen. Only such states are evicted. So that an evicted key that comes back gets no more than it
/// would have had, an implementation keeps this contract: if [`as_new_at`](Self::as_new_at)
/// returned a time t, each request that the state of [`new_state`](Self::new_state) for t, or for a
/// later time, admits is one that the state would have admitted, if both are asked for the same
/// requests and all of them are admitted. A request may be older than t; a limit with a window
/// decides on it as at t.
///
/// The methods are called while the shard of the key is locked. They must not ask the keyed
/// limiter, or they may wait for ever.
pub trait PerKey {
    /// The state of a key.
    type State;

    /// The permit of an admitted request.
    type Permit: Permit;

    /// Returns the state of a key that has been as new since `since`, and perhaps not before.
    fn new_state(&self, since: Timestamp) -> Self::State;

    /// Returns the time from which the state is as new, or a later time, if no further request is
    /// admitted; a time up to `now` if it is as new at `now`, and `None` if the time is not known
    /// or never comes.
    fn as_new_at(&self, state: &Self::State, now: Timestamp) -> Option<Timestamp>;

    /// Decides on a request, as [`Limiter::decide`](crate::flow::Limiter::decide). The question
    /// names no node.
    fn decide(&self, state: &mut Self::State, ask: &Ask<'_>) -> Decision<Self::Permit>;

    /// Returns the decision that a request would get, and takes no permits; `None` if the limit
    /// cannot tell.
    fn peek(&self, _state: &Self::State, _ask: &Ask<'_>) -> Option<Decision> {
        None
    }

    /// Returns the state of the limit for HTTP headers, as
    /// [`Account::quota`](crate::flow::Account::quota).
    fn quota(&self, _state: &Self::State, _now: Timestamp) -> Option<Quota> {
        None
    }

    /// Calls `visit` with each quota of the key's limit, as
    /// [`Account::each_quota`](crate::flow::Account::each_quota). By default, that is the
    /// [quota](Self::quota), if there is one.
    fn each_quota(&self, state: &Self::State, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.quota(state, now).into_iter().for_each(visit);
    }

    /// Wakes `waker` once, when the limit of the key has an answer from elsewhere, and returns
    /// whether one is to come, as
    /// [`Account::wake_on_answer`](crate::flow::Account::wake_on_answer).
    fn wake_on_answer(&self, _state: &Self::State, _waker: &Waker) -> bool {
        false
    }
}
