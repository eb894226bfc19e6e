//! The questions of one request to its limiter, and the times of them.

use std::cell::Cell;
use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::turn::LATE;
use super::waiters::Notice;
use super::{QueuePermit, WaitQueue};
use crate::flow::contract::{Ask, Decision, Limiter, Passed, Refusal, Retry};
use crate::node::Reason;
use crate::time::Timestamp;

/// The time between two questions to a limiter that refuses until it has an answer, and does not
/// tell when it has.
const PAUSE: Duration = Duration::from_millis(1);

/// The next step of a request.
#[derive(Debug)]
pub(super) enum Next<P> {
    /// It is admitted, at that time.
    Go(P, Timestamp),
    /// It is refused, and waiting longer does not help, or not in time.
    GiveUp(Refusal),
    /// It asks again after that time.
    Sleep(Duration),
    /// It asks again after that time, or after a permit was given back.
    SleepOrRelease(Duration),
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
        /// The retry time is the time at which the request is due, as a limiter that paces has one.
        is_due_then: bool,
    },
}

/// The questions of one request to the limiter of a queue. Over a node, the times are those of its
/// clock.
pub(super) struct Attempts<'a, L, N> {
    queue: &'a WaitQueue<L>,
    node: Option<&'a N>,
    permits: u64,
    /// The time of the arrival.
    arrival: Timestamp,
    /// No question was asked yet.
    is_first: Cell<bool>,
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

impl<'a, L: Limiter, N: Passed> Attempts<'a, L, N> {
    pub(super) fn begin(
        queue: &'a WaitQueue<L>,
        node: Option<&'a N>,
        now: Timestamp,
        permits: u64,
        timeout: Duration,
    ) -> Self {
        let until = now.saturating_add(timeout);
        let (clock, wakes, has_slept) = (now, (now, false), false);
        let is_first = Cell::new(true);
        let arrival = now;
        Self { queue, node, permits, arrival, is_first, now, until, clock, wakes, has_slept }
    }

    /// Returns the time of the clock.
    fn clock(&self) -> Timestamp {
        self.node.map_or_else(|| self.queue.limiter.account().now(), Passed::now)
    }

    /// Returns the question at a time.
    fn question(&self, now: Timestamp) -> Ask<'a> {
        let ask = Ask::at(now).many(self.permits).at_once();
        let ask = if self.is_first.replace(false) { ask } else { ask.again() };
        match self.node {
            Some(node) => ask.over(node),
            None => ask,
        }
    }

    /// Notes that the sleep of [`Next::Sleep`] is over.
    pub(super) fn slept(&mut self) {
        self.now = self.now.max(self.wakes.0);
        self.has_slept = true;
    }

    /// Notes that the sleep of [`Next::Sleep`] begins.
    pub(super) fn sleeps(&self) {
        let (until, is_due) = self.wakes;
        self.queue.waiters.turn.set_sleep(is_due.then_some(until));
    }

    /// Notes that the timeout has passed.
    pub(super) fn expire(&mut self) {
        self.now = self.now.max(self.until);
    }

    /// Returns the time that is left until the timeout.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_since(self.clock().max(self.now))
    }

    /// Notes in the limiter that the request waits, until the note is dropped.
    pub(super) fn note_wait(&self) -> Option<Box<dyn Send + Sync>> {
        self.queue.limiter.account().note_wait(self.permits)
    }

    /// Wakes `waker` once, when the limiter has an answer from elsewhere. Returns whether one is to
    /// come.
    pub(super) fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.queue.limiter.account().wake_on_answer(waker)
    }

    /// Returns whether the limiter tells that it would admit the request now.
    pub(super) fn would_go(&self) -> bool {
        let ask = self.question(self.clock().max(self.now));
        matches!(ask.foretold_by(&self.queue.limiter), Some(Decision::Admitted(())))
    }

    /// Begins a pause before the next question, which ends before the timeout; `None` if that has
    /// passed.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let left = self.left();
        let pause = PAUSE.min(left);
        self.wakes = (self.clock().max(self.now).saturating_add(pause), false);
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
            Next::GiveUp(refusal) if refusal.retry() != Retry::Unknown => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Asks the limiter at the time of the arrival. `gave_back` is called after each decision that
    /// admits no request: the limiter may have held permits for a moment.
    pub(super) fn ask_at_arrival(&mut self, gave_back: impl Fn()) -> Next<QueuePermit<L::Permit>> {
        self.ask_at(self.now, &gave_back)
    }

    /// Asks the limiter now, as [`ask_at_arrival`](Self::ask_at_arrival) does.
    pub(super) fn ask(&mut self, gave_back: impl Fn()) -> Next<QueuePermit<L::Permit>> {
        self.ask_at(self.clock(), &gave_back)
    }

    /// Asks the limiter at the time `clock` of the clock.
    fn ask_at(&mut self, clock: Timestamp, gave_back: &impl Fn()) -> Next<QueuePermit<L::Permit>> {
        let former = mem::replace(&mut self.clock, clock);
        // The clock may stand still while the request waits. The wait has passed all the same.
        let now = clock.max(self.now);
        let has_slept = mem::take(&mut self.has_slept);
        let granted = self.grant_in_turn(now, has_slept, gave_back);
        match granted.unwrap_or_else(|| self.answer(now, gave_back)) {
            Answer::Granted(permit) => Next::Go(permit, now),
            Answer::Refused { refusal, is_due_then } => {
                let stands_still = has_slept && former == clock;
                self.next(refusal, is_due_then, clock, now, stands_still)
            }
        }
    }

    /// Asks for the time at which the request was due, if that was before `now`, because its own
    /// timer was late, or the timer of the request before it. So the delays of many requests do not
    /// add up, and a limiter whose permits come by time keeps its rate, also if its permits come
    /// faster than timers tick.
    fn grant_in_turn(
        &self,
        now: Timestamp,
        has_slept: bool,
        gave_back: &impl Fn(),
    ) -> Option<Answer<QueuePermit<L::Permit>>> {
        let (due, is_due) = self.wakes;
        let at = if has_slept {
            // Permits that come by time, and are taken for an earlier time, come again until now.
            // So that time is bounded.
            is_due.then_some(due.max(now.saturating_sub(LATE)))?
        } else {
            self.queue.waiters.turn.begin(self.arrival, now)?
        };
        let grant = |at: Timestamp| {
            if at >= now {
                return None;
            }
            let answer = self.answer(at, gave_back);
            if matches!(answer, Answer::Granted(_)) {
                self.queue.waiters.turn.set(at, now);
            }
            Some(answer)
        };
        match grant(at)? {
            // Due after the request before it, and before now.
            Answer::Refused { refusal, is_due_then: true } => {
                grant(refusal.retry_at()?).filter(|it| matches!(it, Answer::Granted(_)))
            }
            answer => matches!(answer, Answer::Granted(_)).then_some(answer),
        }
    }

    /// Returns what the limiter says at `now`. It makes a decision only for a request that it would
    /// admit at once, or if it cannot tell.
    fn answer(&self, now: Timestamp, gave_back: &impl Fn()) -> Answer<QueuePermit<L::Permit>> {
        self.foretold(now).unwrap_or_else(|| {
            let notice = Notice::new(gave_back);
            match self.question(now).decided_by(&self.queue.limiter).at_once() {
                // The permit lets the head ask when it is dropped, whatever panics until the
                // request has it.
                Ok(permit) => {
                    let permit = self.queue.permit(permit);
                    notice.cancel();
                    Answer::Granted(permit)
                }
                Err(refusal) => refused(refusal),
            }
        })
    }

    /// Returns the refusal that the request would get; `None` if it would be admitted at once, or
    /// if the limiter cannot tell.
    fn foretold(&self, now: Timestamp) -> Option<Answer<QueuePermit<L::Permit>>> {
        let peek = self.question(now).foretold_by(&self.queue.limiter)?;
        peek.refusal().map(refused)
    }

    /// Returns what to do after a refusal at `now`.
    fn next(
        &mut self,
        refusal: Refusal,
        is_due_then: bool,
        clock: Timestamp,
        now: Timestamp,
        stands_still: bool,
    ) -> Next<QueuePermit<L::Permit>> {
        let retry_at = match refusal.retry() {
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
            if refusal.is_at_latest() && now < self.until {
                // Permits may be given back in time.
                return Next::AwaitRelease;
            }
            return Next::GiveUp(refusal.because(Reason::WaitTooLong));
        }
        self.wakes = (wakes, is_due_then);
        let wait = wakes.saturating_since(now);
        if refusal.is_at_latest() { Next::SleepOrRelease(wait) } else { Next::Sleep(wait) }
    }
}

/// The answer to a refused request.
fn refused<P>(refusal: Refusal) -> Answer<P> {
    Answer::Refused { refusal, is_due_then: refusal.is_due() }
}

/// The refusal of a request whose timeout has passed, and that cannot tell how much longer it would
/// have to wait.
pub(super) const fn out_of_time() -> Refusal {
    Refusal::new(Reason::WaitTooLong, Retry::Unknown)
}
