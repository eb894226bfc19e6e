//! What a request does with the state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::{self, Decision, Reason, Refusal, Retry};
use leaparray::{Clock, Timestamp};

use super::Shared;
use crate::lease::Node;
use crate::limiter::away::Reserve;
use crate::limiter::hand::Taken;
use crate::limiter::state::LeaseState;

/// By how much the driver may be late.
const MAX_LATE: Duration = Duration::from_secs(1);

/// Requests for more permits than these are large.
const FEW: u64 = 4;

const AWAY: &str = "the server of the limit is away";

const CLOSED: &str = "the limiter is closed";

const FORKED: &str = "the limiter was started before a fork, in the parent of this process";

/// A request that waits for longer than an answer.
#[derive(Debug)]
pub(in crate::limiter) struct Waits {
    waiting: Arc<AtomicU64>,
    permits: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.permits, Ordering::Relaxed);
    }
}

impl<C: Clock> Shared<C> {
    /// Decides on a request. If it [can wait](flow::Ask::can_wait), it asks
    /// [again](flow::Ask::again) after an answer, and its demand counts with its first question.
    #[inline]
    pub(in crate::limiter) fn decide(&self, ask: &flow::Ask<'_>) -> Decision {
        let mut now = ask.now();
        loop {
            match self.hand.take(now, ask.permits()) {
                Taken::Permits => {
                    if ask.permits() > FEW {
                        self.note_large(ask);
                    }
                    if !ask.is_first() {
                        self.demand.retried.fetch_add(ask.permits(), Ordering::Relaxed);
                    }
                    return Decision::Admitted(());
                }
                Taken::TooFew => return self.decide_without(now, ask),
                Taken::Stale => match self.renew(now) {
                    Some(at) => now = at,
                    None => return Decision::Refused(forked()),
                },
            }
        }
    }

    /// Decides on a request that finds too few permits.
    #[cold]
    fn decide_without(&self, now: Timestamp, ask: &flow::Ask<'_>) -> Decision {
        let permits = ask.permits();
        self.watch_driver(now);
        // Not demand: it can never be met.
        if permits > self.limit {
            return Decision::Refused(Refusal::new(Reason::MoreThanLimit, Retry::Never));
        }
        if ask.is_first() {
            self.demand.lacked.fetch_add(permits, Ordering::Relaxed);
            self.demand.largest.fetch_max(permits, Ordering::Relaxed);
        }
        if self.is_closing.load(Ordering::Relaxed) {
            return Decision::Refused(Refusal::new(Reason::Custom(CLOSED), Retry::Never));
        }
        // A child has a copy of the share, which is its parent's.
        if self.reserve.is_some() && self.is_forked() {
            return Decision::Refused(forked());
        }
        // A time ahead of the clock would be charged when the share has recovered.
        let take = |it: &Reserve<C>| it.take(now.min(self.clock.now()), permits);
        if self.reserve.as_ref().is_some_and(take) {
            self.counts.reserved.fetch_add(permits, Ordering::Relaxed);
            return Decision::Admitted(());
        }
        let retry_at = self.hand.retry_at();
        let is_short = now < retry_at;
        if !is_short {
            if !ask.can_wait() {
                self.demand.at_once.fetch_max(permits, Ordering::Relaxed);
            }
            self.want(permits);
        }
        let is_away = self.is_away.load(Ordering::Relaxed);
        if is_away && self.is_open {
            // Relaxed: read by the thread that has this decision, or one that it has told.
            // The time of the request may be ahead of the one of its decision.
            let at = now.max(ask.now()).as_nanos();
            self.open_until.fetch_max(at.saturating_add(1), Ordering::Relaxed);
            self.counts.unlimited.fetch_add(permits, Ordering::Relaxed);
            return Decision::Admitted(());
        }
        // Not short: the driver asks for this request, if not for another one.
        // Permits that were granted ahead may be there before.
        let retry_at = retry_at.min(self.begins());
        let retry = if is_short { Retry::At(retry_at) } else { Retry::OnAnswer };
        let reason = if is_away { Reason::Custom(AWAY) } else { Reason::LimitReached };
        Decision::Refused(Refusal::new(reason, retry))
    }

    /// Notes a request that has got more than a few permits. The driver looks at what is left: of
    /// smaller requests, it learns in time by itself.
    #[cold]
    fn note_large(&self, ask: &flow::Ask<'_>) {
        let permits = ask.permits();
        if ask.is_first() {
            self.demand.largest.fetch_max(permits, Ordering::Relaxed);
        }
        if !ask.can_wait() {
            self.demand.at_once.fetch_max(permits, Ordering::Relaxed);
            self.wake.notify_one();
        }
    }

    /// Wakes `waker` once, after the next answer, or the next loss of one. Returns whether there
    /// will be one: whether an ask is in flight, or the next one wants permits for a request.
    pub(in crate::limiter) fn wake_on_answer(&self, waker: &Waker) -> bool {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: an answer that was taken before the wakers were is seen, and a later one
        // wakes the waker. Acquire: pairs with the AcqRel of the swap in `with_node`, so that a
        // thread which finds nothing missing finds what that has set before.
        // After its end, the limiter wakes none any more. It stores that before it takes the
        // wakers, so either they are taken, or it is seen here.
        let is_asking = !self.is_closing.load(Ordering::Acquire)
            && (self.demand.missing.load(Ordering::Acquire) > 0
                || self.is_asking.load(Ordering::Relaxed));
        if is_asking && !wakers.iter().any(|it| it.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        is_asking
    }

    /// Notes that a request lacks `permits` permits: the next ask wants them.
    pub(in crate::limiter) fn want(&self, permits: u64) {
        // The driver resets the count before it decides whether to ask, so only the first request
        // has to wake it.
        if self.demand.missing.fetch_add(permits, Ordering::AcqRel) == 0 {
            self.due.fetch_min(self.clock.now().as_nanos(), Ordering::Relaxed);
            self.wake.notify_one();
        }
    }

    /// Counts a request among those that wait for longer than an answer, until it is dropped.
    pub(in crate::limiter) fn waits(&self, permits: u64) -> Waits {
        let waiting = Arc::clone(&self.demand.waiting);
        waiting.fetch_add(permits, Ordering::Relaxed);
        Waits { waiting, permits }
    }

    /// Notes if the driver is far too late: its runtime is not driven, or is blocked.
    fn watch_driver(&self, now: Timestamp) {
        let due = Timestamp::from_nanos(self.due.load(Ordering::Relaxed));
        let is_late = now.saturating_since(due) > self.patience();
        if is_late
            && !self.is_closing.load(Ordering::Relaxed)
            && !self.is_stalled.swap(true, Ordering::Relaxed)
        {
            self.set_state(LeaseState::Stalled { since: due });
        }
    }

    /// Returns the longest time that a request waits for an answer, and that the driver may be late
    /// by.
    pub(in crate::limiter) fn patience(&self) -> Duration {
        self.answer_timeout.saturating_add(MAX_LATE)
    }

    /// Returns the permits in hand.
    pub(in crate::limiter) fn in_hand(&self, now: Timestamp) -> u64 {
        // The node has not been told yet what was used of a hand whose time is over.
        if !self.hand.is_usable(now) && self.renew(now).is_none() {
            return 0;
        }
        self.hand.left()
    }

    /// Gives back permits that were taken at `taken` or later, as far as that is possible. Returns
    /// whether all were.
    pub(in crate::limiter) fn give_back(&self, taken: Timestamp, permits: u64) -> bool {
        // A request that was admitted without a lease has no permits to return: none of that time or
        // an earlier one is taken for one that has. A child would return those of its parent.
        let was_open = taken.as_nanos() < self.open_until.load(Ordering::Relaxed);
        if was_open || self.reserve.is_some() || self.is_forked() {
            return false;
        }
        let taken = taken.as_micros();
        let give = |node: &mut Node, now| node.give_back(now, taken, permits) == permits;
        self.with_node(&mut self.lock(), self.clock.now(), give)
    }
}

/// Returns the refusal of a request in a forked child.
fn forked() -> Refusal {
    Refusal::new(Reason::Custom(FORKED), Retry::Never)
}
