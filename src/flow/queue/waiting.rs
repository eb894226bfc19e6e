//! A request that waits in the queue.

use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::attempts::{Attempts, Event, Next, Source, out_of_time};
use super::waiters::{Place, Turn, Waiters};
use crate::flow::{Reason, Refusal, Retry};
use crate::sync::Arc;
use crate::time::Timestamp;

/// A request that waits in the queue. Dropping it gives up its place, and holds no permit.
#[derive(Debug)]
pub(super) struct Waiting<'a, S> {
    place: Place<'a>,
    attempts: Attempts<S>,
    plan: Plan,
    /// An answer of the limiter was that the time to ask again is not known, until a permit is
    /// given back or an answer arrives. The head announces that it waits for that before it asks.
    awaits: bool,
    /// The waker for an answer from elsewhere, which the limiter gets before each question. `None`
    /// as long as the limiter has not spoken of one.
    on_answer: Option<Waker>,
    has_deadline: bool,
    is_expired: bool,
}

/// The event for which the head waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// For nothing: it asks the limiter.
    Ask,
    /// For its timer.
    Sleep(Duration),
    /// For its timer, which runs.
    Sleeping,
    /// For a notification.
    Await,
}

impl<'a, S: Source> Waiting<'a, S> {
    /// Joins the queue, after the answer `next`, or without a question if another request is before
    /// this one.
    pub(super) fn join(
        waiters: &'a Arc<Waiters>,
        attempts: Attempts<S>,
        next: Option<&Next<S::Permit>>,
        has_deadline: bool,
    ) -> Result<Self, Refusal> {
        let Ok(place) = Waiters::join(waiters) else { return Err(no_room()) };
        let plan = match next {
            Some(&Next::Sleep(wait)) => Plan::Sleep(wait),
            // Permits may have been given back since, or an answer may have arrived.
            _ => Plan::Ask,
        };
        let (awaits, on_answer, is_expired) = (false, None, false);
        let mut waiting =
            Self { place, attempts, plan, awaits, on_answer, has_deadline, is_expired };
        if let Some(&Next::Await(event)) = next {
            waiting.awaits(event);
        }
        Ok(waiting)
    }

    /// Waits for permits. `sleep` returns a future that ends after the given time.
    pub(super) async fn run<F: Future>(
        mut self,
        mut sleep: impl FnMut(Duration) -> F,
    ) -> Result<(S::Permit, Timestamp), Refusal> {
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
    ) -> Poll<Result<(S::Permit, Timestamp), Refusal>> {
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
                Turn::Head { notified, announced } => {
                    if notified {
                        self.plan = Plan::Ask;
                    }
                    if let Plan::Sleep(wait) = self.plan {
                        timer.set(Some(sleep(wait)));
                        self.plan = Plan::Sleeping;
                    }
                    if self.plan == Plan::Sleeping && has_ended(timer.as_mut(), cx) {
                        self.attempts.slept();
                        self.plan = Plan::Ask;
                    }
                    if self.plan == Plan::Ask {
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
    fn ask(&mut self, announced: bool) -> Option<Result<(S::Permit, Timestamp), Refusal>> {
        if self.awaits && !announced && !self.place.announce() {
            // A newer request has become the head.
            return None;
        }
        if let Some(waker) = &self.on_answer {
            // Before the question, as the announcement is: an answer that comes too late for the
            // question wakes the waker.
            self.attempts.wake_on_answer(waker);
        }
        let place = &self.place;
        match self.attempts.ask(|| place.gave_back()) {
            Next::Go(permit, now) => return Some(Ok((permit, now))),
            Next::GiveUp(refusal) => return Some(Err(refusal)),
            Next::Sleep(wait) => {
                self.plan = Plan::Sleep(wait);
                self.awaits = false;
                self.on_answer = None;
            }
            Next::Await(event) => {
                // If it was not announced before the question, it asks once more.
                if !self.awaits(event) {
                    self.plan = Plan::Await;
                }
            }
        }
        None
    }

    /// Notes that the head waits for an event. Returns whether that is new: whether the event may
    /// have been between the question and now.
    fn awaits(&mut self, event: Event) -> bool {
        let mut is_new = !mem::replace(&mut self.awaits, true);
        if event == Event::Answer && self.on_answer.is_none() {
            self.on_answer = Some(self.place.waker());
            is_new = true;
        }
        is_new
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
