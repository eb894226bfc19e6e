//! A limiter of one word, which threads share.

use std::mem::offset_of;
use std::time::Duration;

use super::rule::{Back, CLOSED, NotAdmitted, Rule, Take, Taken, decision};
use super::{Horizon, Live, Version};
use crate::flow::contract::{Account, Ask, Decision, Quota};
use crate::sync::Ordering;
use crate::time::{Clock, Timestamp, saturating_nanos};

/// A limiter whose state is one atomic word, by its [`Rule`].
///
/// An admitted request writes the word once, by a compare-exchange, and a refused request does not
/// write it. So the word decides: among threads that race, each finds the permits of those before
/// it taken.
///
/// # Giving permits back
///
/// Each attempt loads the word first, then reads the clock, and then replaces that word. So the
/// reading is not older than any request in the word. With a reading from before the load, this
/// interleaving would exceed the capacity of a bucket of 5 tokens, at 10 tokens a second:
///
/// 1. A thread takes 5 tokens at 60.0 s, so the bucket is full at 60.5 s. To give them back, the
///    thread reads the clock, and is stopped.
/// 2. At 60.5 s, another thread takes 2 of the 5 tokens that were added. The bucket is full at 60.7
///    s.
/// 3. The first thread goes on. It takes the bucket to have been empty at 60.2 s, and deducts the
///    tokens added until then. The bucket is full at 60.4 s, and 5 more tokens are taken at 60.5 s:
///    7 at one time.
///
/// # Orderings
///
/// Taking releases, and giving back acquires. The steps of a thread before it took permits, such as
/// a read of the clock, happen before the reading of the thread that gives back. Otherwise, the
/// word orders nothing, and its modification order decides.
//
// In this order, what a decision reads is adjacent: the end of the horizon, the word, and the
// settings as far as they do not concern refunds and changes. For a token bucket, these are 64 bytes.
#[derive(Debug)]
#[repr(C)]
pub(in crate::flow) struct Metered<R, C> {
    horizon: Horizon,
    live: Live<R>,
    clock: C,
}

impl<R, C> Metered<R, C> {
    /// The offset of what a decision reads, in bytes.
    pub(in crate::flow) const DECISION_OFFSET: usize =
        offset_of!(Self, horizon) + Horizon::DECISION_OFFSET;
}

impl<R: Rule, C: Clock> Metered<R, C> {
    pub(in crate::flow) fn new(rule: R, clock: C) -> Self {
        let live = Live::new(rule, rule.new_word(0));
        Self { live, horizon: Horizon::new(), clock }
    }

    /// Starts as a new limiter with the settings `former`, which has been changed to these now.
    pub(in crate::flow) fn changed_from(self, former: &R) -> Self {
        let (word, now) = (former.new_word(0), self.clock.now().as_nanos());
        let rule = former.succeed(word, self.live.settings(), now);
        Self { live: Live::new(rule, former.carry(word, &rule, now)), ..self }
    }

    pub(in crate::flow) fn with_max_lead(self, lead: Duration) -> Self {
        Self { horizon: Horizon::with_lead(lead), ..self }
    }

    /// Returns the settings, the clock and the lead.
    pub(in crate::flow) fn into_parts(self) -> (R, C, Duration) {
        (self.live.settings(), self.clock, self.horizon.lead())
    }

    /// Returns the settings.
    pub(in crate::flow) fn rule(&self) -> R {
        self.live.settings()
    }

    /// Changes the settings at `now`.
    pub(in crate::flow) fn set_at(&self, now: Timestamp, rule: R) {
        let now = self.horizon.bound(now.as_nanos(), &self.clock);
        self.live.set(now, rule);
    }

    /// Returns what `read` finds in the settings and the word.
    pub(in crate::flow) fn read<T>(&self, read: impl Fn(&R, u64) -> T) -> T {
        self.live.with(|version| {
            // Relaxed: as in `take`.
            let word = version.word.load(Ordering::Relaxed);
            (word != CLOSED).then(|| read(&version.settings, word))
        })
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(in crate::flow) fn decide(&self, ask: &Ask<'_>) -> Decision {
        let now = self.horizon.bound(ask.now().as_nanos(), &self.clock);
        if ask.permits() == 0 {
            return Decision::Admitted(());
        }
        match take_from(self.live.first(), Take::of(ask, now)) {
            Ok(taken) => taken.decision(),
            Err(NotAdmitted::Until(nanos)) => {
                Decision::Refused(R::refusal_until(Timestamp::from_nanos(nanos)))
            }
            // After the first change, for more permits than the limit, or at the end of time.
            Err(_) => self.decide_later(now, ask.permits(), ask.can_wait()),
        }
    }

    /// As [`decide`](Self::decide), by the current settings. The parts of the question are passed
    /// one by one: as a whole, it would lie in memory, also for a request that does not come here.
    #[inline(never)]
    fn decide_later(&self, now: u64, permits: u64, can_wait: bool) -> Decision {
        let take = Take { now, permits, can_wait };
        self.live.with(|version| decision::<R>(take_from(version, take)))
    }

    pub(in crate::flow) fn peek(&self, ask: &Ask<'_>) -> Decision {
        if ask.permits() == 0 {
            return Decision::Admitted(());
        }
        let take = Take::of(ask, self.horizon.bounded(ask.now().as_nanos(), &self.clock));
        self.live.with(|version| {
            let word = version.word.load(Ordering::Relaxed);
            decision::<R>(version.settings.decide(word, take))
        })
    }

    /// Gives permits back. Returns whether any was given back; `None` if the word is closed.
    fn give_back_to(&self, version: &Version<R>, ask: &Ask<'_>, wait: u64) -> Option<bool> {
        let (now, permits) = (ask.now().as_nanos(), ask.permits());
        // Acquire: pairs with the Release in `take_from`. A compare-exchange continues the release
        // sequences of those before.
        let mut word = version.word.load(Ordering::Acquire);
        while word != CLOSED {
            let clock = self.clock.now().as_nanos();
            let back = Back { now, permits, wait, clock };
            let Some(then) = version.settings.refund(word, &back) else { return Some(false) };
            match version.word.compare_exchange_weak(
                word,
                then,
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(true),
                Err(found) => word = found,
            }
        }
        None
    }
}

/// Takes permits, if the rule of the version admits the request.
#[inline(always)]
#[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
fn take_from<R: Rule>(version: &Version<R>, take: Take) -> Result<Taken, NotAdmitted> {
    // Relaxed: the modification order of the word decides.
    let mut word = version.word.load(Ordering::Relaxed);
    loop {
        let taken = version.settings.decide(word, take)?;
        // Release: pairs with the Acquire in `give_back_to`.
        match version.word.compare_exchange_weak(
            word,
            taken.word,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Ok(taken),
            Err(found) => word = found,
        }
    }
}

impl<R: Rule, C: Clock> Account for Metered<R, C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        if ask.permits() == 0 {
            return true;
        }
        // The permits of a later time were taken at an earlier one, which is not known.
        self.horizon.decided_at(ask.now().as_nanos())
            && self.live.with(|version| self.give_back_to(version, ask, saturating_nanos(wait)))
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.read(|rule, word| rule.quota(word, now.as_nanos()))
    }

    /// Returns whether all permits remain at `now`, which is bounded as for a request. By the rule:
    /// a leaky bucket has no quota.
    fn is_as_new(&self, now: Timestamp) -> bool {
        let now = self.horizon.bounded(now.as_nanos(), &self.clock);
        self.read(|rule, word| Some(rule.as_new_at(word)? <= now)).unwrap_or(false)
    }
}
