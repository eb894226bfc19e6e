//! The questions of one request to its limiter, and the times of them.

use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::waiters::Notice;
use super::{QueuePermit, WaitQueue};
use crate::flow::{Decision, Limiter, Reason, Refusal, Retry};
use crate::node::ResourceNode;
use crate::time::{Clock, Timestamp};

/// The time between two questions to a limiter that refuses until it has an answer, and does not
/// tell when it has.
const PAUSE: Duration = Duration::from_millis(1);

/// A limiter, for requests that enter a node or that do not.
pub(super) trait Source {
    type Permit;

    fn now(&self) -> Timestamp;

    /// Returns the decision that a request would get. Takes nothing.
    fn peek(&self, now: Timestamp, permits: u64) -> Option<Decision>;

    /// Takes permits only for a request that can go ahead at `now`. The permit lets the head ask
    /// when it is dropped, whatever panics until the request has it.
    fn take(&self, now: Timestamp, permits: u64) -> Result<Self::Permit, Refusal>;

    /// Wakes `waker` once, when the limiter has an answer from elsewhere. Returns whether one is to
    /// come.
    fn wake_on_answer(&self, waker: &Waker) -> bool;
}

/// The limiter of a queue, by itself.
#[derive(Debug)]
pub(super) struct Direct<'a, L>(pub(super) &'a WaitQueue<L>);

impl<L: Limiter> Source for Direct<'_, L> {
    type Permit = QueuePermit<L::Permit>;

    fn now(&self) -> Timestamp {
        self.0.limiter.now()
    }

    fn peek(&self, now: Timestamp, permits: u64) -> Option<Decision> {
        self.0.limiter.peek_at(now, permits)
    }

    fn take(&self, now: Timestamp, permits: u64) -> Result<Self::Permit, Refusal> {
        let decision = self.0.limiter.try_acquire_at_once(None, now, permits);
        decision.at_once().map(|permit| self.0.permit(permit))
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.0.limiter.wake_on_answer(waker)
    }
}

/// The limiter of a queue, for the requests that enter a node, with the clock of the node.
#[derive(Debug)]
pub(super) struct OverNode<'a, L, C: Clock + Clone>(
    pub(super) &'a WaitQueue<L>,
    pub(super) &'a ResourceNode<C>,
);

impl<L: Limiter, C: Clock + Clone> Source for OverNode<'_, L, C> {
    type Permit = QueuePermit<L::Permit>;

    fn now(&self) -> Timestamp {
        self.1.clock().now()
    }

    fn peek(&self, now: Timestamp, permits: u64) -> Option<Decision> {
        self.0.limiter.peek_at(now, permits)
    }

    fn take(&self, now: Timestamp, permits: u64) -> Result<Self::Permit, Refusal> {
        let decision = self.0.limiter.try_acquire_at_once(Some(self.1), now, permits);
        decision.at_once().map(|permit| self.0.permit(permit))
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.0.limiter.wake_on_answer(waker)
    }
}

/// The next step of a request.
#[derive(Debug)]
pub(super) enum Next<P> {
    /// It is admitted, at that time.
    Go(P, Timestamp),
    /// It is refused, and waiting longer does not help, or not in time.
    GiveUp(Refusal),
    /// It asks again after that time.
    Sleep(Duration),
    /// It asks again after a permit was given back.
    AwaitRelease,
    /// It asks again after the limiter has got an answer from elsewhere.
    AwaitAnswer,
}

/// An answer of the limiter, before the times are compared.
enum Answer<P> {
    Granted(P),
    Refused {
        refusal: Refusal,
        /// The retry time is the time at which the request is due, as a limiter that paces has one,
        /// or from which its wait is short enough for the limiter.
        is_due_then: bool,
    },
}

/// The questions of one request.
#[derive(Debug)]
pub(super) struct Attempts<S> {
    source: S,
    permits: u64,
    /// The time that has passed for this request: of its arrival, and later of its last sleep. It
    /// may be ahead of a clock that stands still, as one that the sleeping thread refreshes.
    now: Timestamp,
    /// The latest time of a question.
    until: Timestamp,
    /// The last reading of the clock; at first, the time of the arrival.
    clock: Timestamp,
    /// The end of the sleep, and whether the request is due then.
    wakes: (Timestamp, bool),
    /// The request has slept since the last question.
    has_slept: bool,
}

impl<S: Source> Attempts<S> {
    pub(super) fn begin(source: S, now: Timestamp, permits: u64, timeout: Duration) -> Self {
        let until = now.saturating_add(timeout);
        let (clock, wakes, has_slept) = (now, (now, false), false);
        Self { source, permits, now, until, clock, wakes, has_slept }
    }

    /// Notes that the sleep of [`Next::Sleep`] is over.
    pub(super) fn slept(&mut self) {
        self.now = self.now.max(self.wakes.0);
        self.has_slept = true;
    }

    /// Notes that the timeout has passed.
    pub(super) fn expire(&mut self) {
        self.now = self.now.max(self.until);
    }

    /// Returns the time that is left until the timeout.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_since(self.source.now().max(self.now))
    }

    /// Wakes `waker` once, when the limiter has an answer from elsewhere. Returns whether one is to
    /// come.
    pub(super) fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.source.wake_on_answer(waker)
    }

    /// Returns whether the limiter tells that it would admit the request now.
    pub(super) fn would_go(&self) -> bool {
        let peek = self.source.peek(self.source.now().max(self.now), self.permits);
        matches!(peek, Some(Decision::Admitted(())))
    }

    /// Begins a pause before the next question, which ends before the timeout; `None` if that has
    /// passed.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let left = self.left();
        let pause = PAUSE.min(left);
        self.wakes = (self.source.now().max(self.now).saturating_add(pause), false);
        (!left.is_zero()).then_some(pause)
    }

    /// Returns the refusal of a request that cannot be admitted in time, whatever the requests
    /// before it do; `Ok` if it may be, or if the limiter cannot tell.
    pub(super) fn foresee(&mut self) -> Result<(), Refusal> {
        if self.until <= self.now {
            return Err(out_of_time());
        }
        let now = self.now;
        let Some(Answer::Refused { refusal, is_due_then }) = self.foretold(now) else {
            return Ok(());
        };
        match self.next(refusal, is_due_then, now, now, false) {
            Next::GiveUp(refusal) if refusal.retry != Retry::Unknown => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Asks the limiter at the time of the arrival. `gave_back` is called after each decision that
    /// admits no request: the limiter may have held permits for a moment.
    pub(super) fn ask_at_arrival(&mut self, gave_back: impl Fn()) -> Next<S::Permit> {
        self.ask_at(self.now, &gave_back)
    }

    /// Asks the limiter now, as [`ask_at_arrival`](Self::ask_at_arrival) does.
    pub(super) fn ask(&mut self, gave_back: impl Fn()) -> Next<S::Permit> {
        self.ask_at(self.source.now(), &gave_back)
    }

    /// Asks the limiter at the time `clock` of the clock.
    fn ask_at(&mut self, clock: Timestamp, gave_back: &impl Fn()) -> Next<S::Permit> {
        let former = mem::replace(&mut self.clock, clock);
        // The clock may stand still while the request waits. The wait has passed all the same.
        let now = clock.max(self.now);
        let has_slept = mem::take(&mut self.has_slept);
        let granted = if has_slept { self.grant_of_a_late_timer(now, gave_back) } else { None };
        match granted.unwrap_or_else(|| self.answer(now, gave_back)) {
            Answer::Granted(permit) => Next::Go(permit, now),
            Answer::Refused { refusal, is_due_then } => {
                let stands_still = has_slept && former == clock;
                self.next(refusal, is_due_then, clock, now, stands_still)
            }
        }
    }

    /// Asks at the time at which the request was due, if that was before `now`, because the timer
    /// was late. So the delays of many requests do not add up, and a limiter that paces keeps its
    /// rate.
    fn grant_of_a_late_timer(
        &self,
        now: Timestamp,
        gave_back: &impl Fn(),
    ) -> Option<Answer<S::Permit>> {
        let (mut due, mut is_due) = self.wakes;
        // Twice: a limiter may first name the time from which the wait is short enough for it, and
        // then the due time.
        for _ in 0..2 {
            if !is_due || due >= now {
                break;
            }
            match self.answer(due, gave_back) {
                granted @ Answer::Granted(_) => return Some(granted),
                Answer::Refused { refusal, is_due_then } => match refusal.retry {
                    Retry::At(later) => (due, is_due) = (later.max(due), is_due_then),
                    Retry::OnAnswer | Retry::Unknown | Retry::Never => break,
                },
            }
        }
        None
    }

    /// Returns what the limiter says at `now`. It makes a decision only for a request that it would
    /// admit at once, or if it cannot tell.
    fn answer(&self, now: Timestamp, gave_back: &impl Fn()) -> Answer<S::Permit> {
        self.foretold(now).unwrap_or_else(|| {
            let notice = Notice::new(gave_back);
            match self.source.take(now, self.permits) {
                Ok(permit) => {
                    notice.cancel();
                    Answer::Granted(permit)
                }
                Err(refusal) => refused(refusal),
            }
        })
    }

    /// Returns the refusal that the request would get; `None` if it would be admitted at once, or
    /// if the limiter cannot tell.
    fn foretold(&self, now: Timestamp) -> Option<Answer<S::Permit>> {
        match self.source.peek(now, self.permits)? {
            Decision::Admitted(()) => None,
            Decision::Wait(delayed) => {
                let due = Retry::At(now.saturating_add(delayed.wait()));
                Some(refused(Refusal::new(Reason::WaitTooLong, due)))
            }
            Decision::Refused(refusal) => Some(refused(refusal)),
        }
    }

    /// Returns what to do after a refusal at `now`.
    fn next(
        &mut self,
        refusal: Refusal,
        is_due_then: bool,
        clock: Timestamp,
        now: Timestamp,
        stands_still: bool,
    ) -> Next<S::Permit> {
        let retry_at = match refusal.retry {
            Retry::At(time) => time,
            // The permits are held by other requests.
            Retry::Unknown if refusal.reason == Reason::LimitReached => {
                return Next::AwaitRelease;
            }
            Retry::OnAnswer => return Next::AwaitAnswer,
            Retry::Unknown | Retry::Never => return Next::GiveUp(refusal),
        };
        if retry_at <= now && retry_at > clock && stands_still {
            // The sleep was longer than the limiter's lead, and the clock has not moved: no sleep
            // would be long enough.
            return Next::GiveUp(refusal);
        }
        // A limiter whose clock is further behind than its lead returns a time that has passed
        // here, but not by its clock: the request sleeps for what its clock lacks. A pause in any
        // case prevents a busy loop.
        let from = if retry_at > now { now } else { clock };
        let wait = retry_at.saturating_since(from).max(Duration::from_nanos(1));
        let wakes = now.saturating_add(wait);
        if wakes == now {
            // At the end of time.
            return Next::GiveUp(refusal);
        }
        if wakes > self.until {
            return Next::GiveUp(Refusal::new(Reason::WaitTooLong, refusal.retry));
        }
        self.wakes = (wakes, is_due_then);
        Next::Sleep(wakes.saturating_since(now))
    }
}

/// The answer to a refused request.
fn refused<P>(refusal: Refusal) -> Answer<P> {
    // A limiter that paces refuses for this reason before a request is due.
    Answer::Refused { refusal, is_due_then: refusal.reason == Reason::WaitTooLong }
}

/// The refusal of a request whose timeout has passed, and that cannot tell how much longer it would
/// have to wait.
pub(super) const fn out_of_time() -> Refusal {
    Refusal::new(Reason::WaitTooLong, Retry::Unknown)
}
