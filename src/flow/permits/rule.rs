//! Limiters whose state is one word: their algorithms, as pure functions of the word.

use std::time::Duration;

use crate::flow::contract::{Ask, Decision, Quota, Refusal};
use crate::node::Reason;
use crate::time::Timestamp;

/// A word that no rule produces: the word of settings that are no longer in force.
pub(in crate::flow) const CLOSED: u64 = u64::MAX;

/// The settings of a limiter whose state is one word, and its algorithm: functions of the word that
/// change nothing. Each algorithm is written once. A [`Metered`](super::Metered) limiter applies it
/// by a compare-exchange, and a keyed limiter stores the word under the lock of its shard.
///
/// Times are in nanoseconds. No word is [`CLOSED`], except where a function says so.
pub trait Rule: Copy {
    /// The reason of a refusal of a request that may be admitted later.
    const REASON: Reason;

    /// Returns the refusal of a request that may be admitted at `time`.
    #[inline]
    fn refusal_until(time: Timestamp) -> Refusal {
        Refusal::until(Self::REASON, Some(time))
    }

    /// Returns the word of a limiter that has been as new since `since`, and perhaps not before. A
    /// limiter that was just made has the word for 0.
    fn new_word(&self, since: u64) -> u64;

    /// Returns the word after a request for `permits` permits, at least one, at `now`, and how long
    /// the request has to wait. If the word is [`CLOSED`], it is not admitted.
    fn decide(&self, word: u64, take: Take) -> Result<Taken, NotAdmitted>;

    /// Returns the time from which on the limiter decides at most as much as one with the
    /// [`new_word`](Self::new_word) for that time; `None` if there is none before the end of time.
    fn as_new_at(&self, word: u64) -> Option<u64>;

    /// Returns the quota at `now`; `None` if the limiter has no such numbers.
    fn quota(&self, _word: u64, _now: u64) -> Option<Quota> {
        None
    }

    /// Returns the word after permits are given back; `None` if none of them can be given back.
    fn refund(&self, _word: u64, _back: &Back) -> Option<u64> {
        None
    }

    /// Returns the settings of one limiter that gets the settings `next` at `now`. By default,
    /// these are `next`.
    fn succeed(&self, _word: u64, next: Self, _now: u64) -> Self {
        next
    }

    /// Returns the word of a limiter that gets the settings `next` at `now`. The permits that
    /// were taken under these settings stay taken.
    fn carry(&self, word: u64, next: &Self, now: u64) -> u64;
}

/// The question of a request for at least one permit: numbers alone, which stay in registers.
#[derive(Clone, Copy, Debug)]
pub struct Take {
    pub(in crate::flow) now: u64,
    pub(in crate::flow) permits: u64,
    pub(in crate::flow) can_wait: bool,
}

/// The outcome of a request that is admitted.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The word after the request.
    pub(in crate::flow) word: u64,
    /// How long the request has to wait.
    pub(in crate::flow) wait: u64,
}

/// The outcome of a request that is not admitted: numbers alone, which stay in registers.
#[derive(Clone, Copy, Debug)]
pub enum NotAdmitted {
    /// The word is [`CLOSED`].
    Closed,
    /// The request asks for more than the limiter can ever admit.
    MoreThanLimit,
    /// Until this time.
    Until(u64),
    /// Until a time after the end of time.
    Never,
}

/// Permits that are given back.
#[derive(Clone, Copy, Debug)]
pub struct Back {
    /// The time of their request.
    pub(in crate::flow) now: u64,
    /// Their number, at least one.
    pub(in crate::flow) permits: u64,
    /// How long the request had to wait.
    pub(in crate::flow) wait: u64,
    /// A reading of the clock that is not older than the word.
    pub(in crate::flow) clock: u64,
}

impl Take {
    /// Returns the question at a time, in nanoseconds.
    #[inline]
    pub(in crate::flow) const fn of(ask: &Ask<'_>, now: u64) -> Self {
        Self { now, permits: ask.permits(), can_wait: ask.can_wait() }
    }
}

impl Taken {
    #[inline]
    pub(in crate::flow) fn decision(self) -> Decision {
        Decision::after((), Duration::from_nanos(self.wait))
    }
}

impl NotAdmitted {
    /// Returns the refusal by a rule; `None` if the word is closed.
    #[inline]
    pub(in crate::flow) fn refusal<R: Rule>(self) -> Option<Refusal> {
        match self {
            Self::Closed => None,
            Self::MoreThanLimit => Some(Refusal::never()),
            Self::Until(nanos) => Some(R::refusal_until(Timestamp::from_nanos(nanos))),
            Self::Never => Some(Refusal::until(R::REASON, None)),
        }
    }
}

/// Returns the decision; `None` if the word is closed.
#[inline]
pub(in crate::flow) fn decision<R: Rule>(taken: Result<Taken, NotAdmitted>) -> Option<Decision> {
    match taken {
        Ok(taken) => Some(taken.decision()),
        Err(not) => not.refusal::<R>().map(Decision::Refused),
    }
}
