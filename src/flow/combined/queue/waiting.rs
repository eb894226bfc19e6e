//! A request that waits in the queue.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::QueuePermit;
use super::attempts::{Attempts, Next, out_of_time};
use super::waiters::{Place, Turn, Waiters};
use crate::flow::contract::{Limiter, Passed, Refusal, Retry};
use crate::node::Reason;
use crate::sync::Arc;
use crate::time::Timestamp;

/// A request that waits in the queue. Dropping it gives up its place, and holds no permit.
pub(super) struct Waiting<'a, L, N> {
    place: Place<'a>,
    attempts: Attempts<'a, L, N>,
    plan: Plan,
    /// The last answer was that permits are given back at an unknown time, or may be. The head
    /// announces that it waits for that before it asks.
    awaits_release: bool,
    /// The waker that the limiter gets for an answer from elsewhere; made when it is needed.
    waker: Option<Waker>,
    /// The limiter counts the request among those that wait.
    _note: Option<Box<dyn Send + Sync>>,
    has_deadline: bool,
    is_expired: bool,
}

/// The event for which the head waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// For nothing: it asks the limiter.
    Ask,
    /// For nothing: it asks once more, since no answer is to come.
    AskAgain,
    /// For its timer.
    Sleep(Duration),
    /// For its timer, which runs.
    Sleeping,
    /// For an answer that the limiter has from elsewhere: it registers its waker. `again` if it has
    /// done so before, and no answer was to come.
    Register { again: bool },
    /// For a permit that is given back.
    Await,
    /// For an answer. A permit that is given back may let it go ahead as well.
    AwaitAnswer,
}

/// The permit of an admitted request, and the time at which it was admitted.
type Admitted<L> = (QueuePermit<<L as Limiter>::Permit>, Timestamp);

impl<'a, L: Limiter, N: Passed> Waiting<'a, L, N> {
    /// Joins the queue, after the answer `next`, or without a question if another request is before
    /// this one.
    pub(super) fn join(
        waiters: &'a Arc<Waiters>,
        attempts: Attempts<'a, L, N>,
        next: Option<&Next<QueuePermit<L::Permit>>>,
        has_deadline: bool,
    ) -> Result<Self, Refusal> {
        let Ok(place) = Waiters::join(waiters) else { return Err(no_room()) };
        let plan = match next {
            Some(&Next::Sleep(wait)) => Plan::Sleep(wait),
            Some(Next::AwaitAnswer) => Plan::Register { again: false },
            // Permits may have been given back since.
            _ => Plan::Ask,
        };
        let awaits_release = matches!(next, Some(Next::AwaitRelease | Next::SleepOrRelease(_)));
        let note = attempts.note_wait();
        Ok(Self {
            place,
            attempts,
            plan,
            awaits_release,
            waker: None,
            _note: note,
            has_deadline,
            is_expired: false,
        })
    }

    /// Waits for permits. `sleep` returns a future that ends after the given time.
    pub(super) async fn run<F: Future>(
        mut self,
        mut sleep: impl FnMut(Duration) -> F,
    ) -> Result<Admitted<L>, Refusal> {
        let (mut timer, mut deadline) = (pin!(None), pin!(None));
        poll_fn(|cx| self.poll(cx, &mut sleep, timer.as_mut(), deadline.as_mut())).await
    }

    /// Goes on as far as possible without waiting. `timer` ends when the head asks again, and
    /// `deadline` when the timeout has passed.
    fn poll<F: Future>(
        &mut self,
        cx: &mut Context<'_>,
        sleep: &mut impl FnMut(Duration) -> F,
        mut timer: Pin<&mut Option<F>>,
        mut deadline: Pin<&mut Option<F>>,
    ) -> Poll<Result<Admitted<L>, Refusal>> {
        loop {
            // Before the turn: a request that has become the head by then asks once more.
            if has_ended(deadline.as_mut(), cx) {
                self.is_expired = true;
                self.attempts.expire();
            }
            // Stores the waker. A notification after this wakes the task.
            match self.place.look(cx.waker()) {
                Turn::Displaced => return Poll::Ready(Err(no_room())),
                // If this request was the head before, what it has heard is out of date by the time
                // it is again.
                Turn::Behind => self.plan = Plan::Ask,
                Turn::Head { notified, answered, announced } => {
                    // While an answer is to come, a question would be demand once more. After a
                    // release, a peek tells whether the answer is still needed.
                    let is_due = answered || self.plan != Plan::AwaitAnswer;
                    if notified && (is_due || self.attempts.would_go()) {
                        self.plan = Plan::Ask;
                    }
                    if let Plan::Sleep(wait) = self.plan {
                        timer.set(Some(sleep(wait)));
                        self.attempts.sleeps();
                        self.plan = Plan::Sleeping;
                    }
                    if self.plan == Plan::Sleeping && has_ended(timer.as_mut(), cx) {
                        self.attempts.slept();
                        self.plan = Plan::Ask;
                    }
                    if let Plan::Register { again } = self.plan {
                        self.register(announced, again);
                        continue;
                    }
                    if matches!(self.plan, Plan::Ask | Plan::AskAgain) {
                        if let Some(result) = self.ask(announced) {
                            return Poll::Ready(result);
                        }
                        continue;
                    }
                }
            }
            if self.plan != Plan::Sleeping {
                timer.set(None);
            }
            if self.is_expired {
                return Poll::Ready(Err(out_of_time()));
            }
            if self.plan == Plan::Sleeping || !self.has_deadline || deadline.is_some() {
                return Poll::Pending;
            }
            deadline.set(Some(sleep(self.attempts.left())));
        }
    }

    /// Asks the limiter, as the head. Returns the result, if that ends the wait.
    fn ask(&mut self, announced: bool) -> Option<Result<Admitted<L>, Refusal>> {
        if self.awaits_release && !announced && !self.place.announce() {
            // A newer request has become the head.
            return None;
        }
        let place = &self.place;
        match self.attempts.ask(|| place.gave_back()) {
            Next::Go(permit, now) => return Some(Ok((permit, now))),
            Next::GiveUp(refusal) => return Some(Err(refusal)),
            Next::Sleep(wait) => {
                self.plan = Plan::Sleep(wait);
                self.awaits_release = false;
            }
            Next::AwaitRelease if self.awaits_release => self.plan = Plan::Await,
            // A notification ends the sleep.
            Next::SleepOrRelease(wait) if self.awaits_release => self.plan = Plan::Sleep(wait),
            // Not announced before the question: asks once more.
            Next::AwaitRelease | Next::SleepOrRelease(_) => self.awaits_release = true,
            Next::AwaitAnswer => {
                self.plan = Plan::Register { again: self.plan == Plan::AskAgain };
            }
        }
        None
    }

    /// Registers a waker for the answer that the limiter has asked for, as the head. If no answer
    /// is to come, or if an answer has brought the permits since the question, the head asks again.
    fn register(&mut self, announced: bool, again: bool) {
        // Before the waker is registered: an answer notifies only a head that has announced itself,
        // as a release does.
        if !announced && !self.place.announce() {
            // A newer request has become the head.
            return;
        }
        let waker = self.waker.get_or_insert_with(|| self.place.waker());
        let is_to_come = self.attempts.wake_on_answer(waker);
        self.plan = if is_to_come {
            // The answer that is to come may be the one to a later ask.
            if self.attempts.would_go() { Plan::Ask } else { Plan::AwaitAnswer }
        } else if again {
            // The limiter does not tell of its answers, and is asked after a pause.
            self.attempts.pause().map_or(Plan::Await, Plan::Sleep)
        } else {
            Plan::AskAgain
        };
    }
}

/// Returns whether the timer has just ended, and clears it.
fn has_ended<F: Future>(mut timer: Pin<&mut Option<F>>, cx: &mut Context<'_>) -> bool {
    let has_ended = timer.as_mut().as_pin_mut().is_some_and(|timer| timer.poll(cx).is_ready());
    if has_ended {
        timer.set(None);
    }
    has_ended
}

/// The refusal of a request that has no place in the queue.
const fn no_room() -> Refusal {
    Refusal::new(Reason::QueueFull, Retry::Unknown)
}
