//! The limiters with which a keyed one can be made, and the states of their keys.

use std::task::Waker;
use std::time::Duration;

use super::word::Word;
use crate::flow::contract::{Ask, Decision, Quota, Refusal};
use crate::flow::limiters::{Fill, FixedWindowLimiter, Interval, LeakyBucket, Pace, TokenBucket};
use crate::flow::permits::{NotAdmitted, Rule, Take};
use crate::node::Permit;
use crate::time::{Clock, Timestamp};

/// The limit of each key of a [`Keyed`](super::Keyed) limiter.
pub trait PerKey: Sized {
    /// The settings, which all keys share.
    type Rule: KeyRule;

    /// The clock.
    type Clock: Clock;

    /// Returns the settings, the clock and the lead.
    fn into_parts(self) -> (Self::Rule, Self::Clock, Duration);
}

/// The permit of a request of a key.
pub(super) type PermitOf<L> = <<L as PerKey>::Rule as KeyRule>::Permit;

/// Settings that all keys share, with a compact state for each key.
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
pub trait KeyRule {
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
    fn peek(&self, state: &Self::State, ask: &Ask<'_>) -> Option<Decision>;

    /// Calls `visit` with each quota of the key's limit, as
    /// [`Account::each_quota`](crate::flow::Account::each_quota). By default, that is the quota.
    fn each_quota(&self, state: &Self::State, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.quota(state, now).into_iter().for_each(visit);
    }

    /// Returns the quota, as [`Account::quota`](crate::flow::Account::quota).
    fn quota(&self, state: &Self::State, now: Timestamp) -> Option<Quota>;

    /// Wakes `waker` once, when the limit of the key has an answer from elsewhere, and returns
    /// whether one is to come, as
    /// [`Account::wake_on_answer`](crate::flow::Account::wake_on_answer).
    fn wake_on_answer(&self, _state: &Self::State, _waker: &Waker) -> bool {
        false
    }

    /// Notes that a request of the key waits, as
    /// [`Account::note_wait`](crate::flow::Account::note_wait).
    fn note_wait(&self, _state: &Self::State, _permits: u64) -> Option<Box<dyn Send + Sync>> {
        None
    }
}

/// A rule is applied under the lock of the shard, and the word is stored plainly.
impl<R: Rule> KeyRule for R {
    type State = Word;
    type Permit = ();

    fn new_state(&self, since: Timestamp) -> Word {
        Word::new(self.new_word(since.as_nanos()))
    }

    #[inline]
    fn as_new_at(&self, state: &Word, _now: Timestamp) -> Option<Timestamp> {
        Rule::as_new_at(self, state.get()).map(Timestamp::from_nanos)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn decide(&self, state: &mut Word, ask: &Ask<'_>) -> Decision {
        if ask.permits() == 0 {
            return Decision::Admitted(());
        }
        let not_admitted =
            match Rule::decide(self, state.get(), Take::of(ask, ask.now().as_nanos())) {
                Ok(taken) => {
                    *state = Word::new(taken.word);
                    return taken.decision();
                }
                Err(not_admitted) => not_admitted,
            };
        Decision::Refused(match not_admitted {
            NotAdmitted::Until(nanos) => R::refusal_until(Timestamp::from_nanos(nanos)),
            NotAdmitted::MoreThanLimit => Refusal::never(),
            NotAdmitted::Never | NotAdmitted::Closed => Refusal::until(R::REASON, None),
        })
    }

    fn peek(&self, state: &Word, ask: &Ask<'_>) -> Option<Decision> {
        let mut state = *state;
        Some(KeyRule::decide(self, &mut state, ask))
    }

    fn quota(&self, state: &Word, now: Timestamp) -> Option<Quota> {
        Rule::quota(self, state.get(), now.as_nanos())
    }
}

impl<C: Clock> PerKey for TokenBucket<C> {
    type Rule = Fill;
    type Clock = C;

    fn into_parts(self) -> (Fill, C, Duration) {
        self.0.into_parts()
    }
}

impl<C: Clock> PerKey for LeakyBucket<C> {
    type Rule = Pace;
    type Clock = C;

    fn into_parts(self) -> (Pace, C, Duration) {
        self.0.into_parts()
    }
}

impl<C: Clock> PerKey for FixedWindowLimiter<C> {
    type Rule = Interval;
    type Clock = C;

    fn into_parts(self) -> (Interval, C, Duration) {
        let (config, limit, lead) = (*self.0.config(), self.limit(), self.0.max_lead());
        (Interval::new(config, limit), self.0.into_clock(), lead)
    }
}
