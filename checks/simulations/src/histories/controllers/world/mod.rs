//! The callers of a controller, in simulated time.

mod asked;
mod checks;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::circuit::CircuitState;
use leaparray::flow::{Ask, Reason, Refusal};
use leaparray::time::ForwardClock;
use leaparray::{Clock, ManualClock, Outcome, Permit, Timestamp};

use super::course::{Course, Period, Step};
use super::executor::{Ready, Timers};
use super::subject::{SimCircuit, SimClock, Subject, Way, float};
use asked::{Asked, plain};

/// The requests of the judged time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// The permits that were asked for.
    pub(super) offered: u64,
    /// The permits that were admitted.
    pub(super) admitted: u64,
    /// The permits × seconds of the calls that were asked for, and of the calls in flight.
    pub(super) offered_work: f64,
    pub(super) work: f64,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Success,
    Exception,
    Cancel,
    Drop,
    Refund,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    weight: u64,
    key: u64,
    /// The time from its admission to its end.
    length: Duration,
    fate: Fate,
    is_judged: bool,
}

struct Call {
    permit: Box<dyn Permit>,
    request: Request,
    /// The time of the decision, and the wait that it told.
    admitted: (Timestamp, Duration),
}

type Waits = Pin<Box<dyn Future<Output = Result<Box<dyn Permit>, Refusal>>>>;

struct Waiter {
    future: Waits,
    request: Request,
    is_queued: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End(usize),
    /// The future of a waiting request is dropped.
    Leave(usize),
}

struct World {
    subject: Subject,
    asked: Asked,
    circuit: Option<Arc<SimCircuit>>,
    source: ManualClock,
    clock: SimClock,
    /// By how much the clock's source is ahead of the time of the world, or behind.
    ahead: i64,
    now: Timestamp,
    timers: Timers,
    ready: Ready,
    waiters: BTreeMap<usize, Waiter>,
    calls: BTreeMap<usize, Call>,
    added: usize,
    events: BinaryHeap<Reverse<(Timestamp, Event)>>,
    in_flight: u64,
    judged: [Timestamp; 2],
    counts: Counts,
    broken: Option<String>,
    /// The head of a queue that its limiter would admit, and since when.
    starved: Option<(usize, Timestamp)>,
    /// The last request before a step forward. Its timer does not know of the step.
    before_step: usize,
}

/// Runs a course. Returns what was counted in the judged time, and what was broken first.
pub(super) fn simulate(course: &Course, seed: u64) -> (Counts, Option<String>) {
    simulate_from(course, course.settling_time(), seed)
}

pub(super) fn simulate_from(
    course: &Course,
    settling: Duration,
    seed: u64,
) -> (Counts, Option<String>) {
    let mut world = World::new(course.subject, seed);
    let periods: Vec<_> = course.past.iter().copied().chain([course.health]).collect();
    for (index, period) in periods.iter().enumerate() {
        let end = world.now.saturating_add(period.length);
        if index + 1 == periods.len() {
            world.judged = [world.now.saturating_add(settling), end];
        }
        // By the place from the end: a run of the last period alone gets the same requests.
        let rng = &mut Rng::with_seed(seed ^ (periods.len() - index) as u64);
        world.pass(period, end, rng);
    }
    world.drain();
    (world.counts, world.broken)
}

impl World {
    fn new(subject: Subject, seed: u64) -> Self {
        let now = Timestamp::from_secs(1_000_000);
        let source = ManualClock::new(now);
        let clock = ForwardClock::new(source.clone());
        let (asked, circuit) = Asked::build(subject, &clock, seed);
        let grain = match subject.way {
            Way::Queue { grain, .. } => grain,
            _ => Duration::from_nanos(1),
        };
        let timers = Timers::new(grain);
        timers.set(now);
        Self {
            subject,
            asked,
            circuit,
            source,
            clock,
            ahead: 0,
            now,
            timers,
            ready: Ready::default(),
            waiters: BTreeMap::new(),
            calls: BTreeMap::new(),
            added: 0,
            events: BinaryHeap::new(),
            in_flight: 0,
            judged: [Timestamp::MAX; 2],
            counts: Counts::default(),
            broken: None,
            starved: None,
            before_step: 0,
        }
    }

    fn is_judged(&self) -> bool {
        self.judged[0] <= self.now && self.now < self.judged[1]
    }

    /// Lets a time pass, without an event in it.
    fn advance(&mut self, now: Timestamp) {
        let [from, until] = self.judged.map(|it| it.clamp(self.now, now));
        self.counts.work += float(self.in_flight) * until.saturating_since(from).as_secs_f64();
        self.now = now;
        let shown = now.as_nanos().saturating_add_signed(self.ahead);
        self.source.set(Timestamp::from_nanos(shown));
        self.timers.set(now);
    }

    fn next_event(&self) -> Option<Timestamp> {
        let event = self.events.peek().map(|Reverse((time, _))| *time);
        event.into_iter().chain(self.timers.next()).min()
    }

    /// Handles all events up to a time.
    fn run_until(&mut self, end: Timestamp) {
        while let Some(time) = self.next_event()
            && time <= end
        {
            self.advance(time.max(self.now));
            while let Some(&Reverse((time, event))) = self.events.peek()
                && time <= self.now
            {
                self.events.pop();
                match event {
                    Event::End(call) => self.end(call),
                    Event::Leave(waiter) => drop(self.waiters.remove(&waiter)),
                }
            }
            self.poll();
        }
        self.advance(end.max(self.now));
    }

    fn pass(&mut self, period: &Period, end: Timestamp, rng: &mut Rng) {
        let mut arrival = self.now;
        let mut step = period.step;
        loop {
            let gap = -libm::log(1.0 - rng.f64()) / period.arrivals;
            arrival = arrival.saturating_add(Duration::from_secs_f64(gap.min(1e9)));
            let request = draw(period, rng);
            let meddles = rng.f64() < period.meddling;
            self.run_until(arrival.min(end));
            if arrival >= end {
                return;
            }
            let request = Request { is_judged: self.is_judged(), ..request };
            if meddles {
                self.meddle(&request, rng);
            }
            self.step(std::mem::replace(&mut step, Step::No), &request);
            self.arrive(period, request, rng);
            self.poll();
        }
    }

    /// A wrong time.
    fn step(&mut self, step: Step, request: &Request) {
        let nanos = |far: Duration| i64::try_from(far.as_nanos()).expect("short");
        match step {
            Step::No => return,
            Step::OfRequest(far) => {
                let ask = Ask::at(self.clock.now().saturating_add(far)).many(request.weight);
                self.ask_and_end(&ask, request.key);
            }
            Step::Forward(far) => {
                self.ahead += nanos(far);
                self.before_step = self.added;
            }
            Step::Back(far) => self.ahead -= nanos(far),
            Step::ForwardAndBack(far) => {
                self.ahead += nanos(far);
                self.advance(self.now);
                let ask = Ask::at(self.clock.now()).many(request.weight);
                self.ask_and_end(&ask, request.key);
                self.ahead -= nanos(far);
                self.before_step = self.added;
            }
        }
        self.advance(self.now);
    }

    fn ask_and_end(&mut self, ask: &Ask<'_>, key: u64) {
        if let Ok(delayed) = self.asked.decide(ask, key).into_result() {
            let (mut permit, _) = delayed.into_parts();
            permit.end_at(ask.now(), Outcome::Success);
        }
        if let Asked::Queue(queue) = &self.asked {
            // After a direct request.
            queue.recheck();
        }
        self.poll();
    }

    fn meddle(&mut self, request: &Request, rng: &mut Rng) {
        if let Some(circuit) = &self.circuit {
            let shown = circuit.state();
            let state =
                [CircuitState::HalfOpen, CircuitState::Open, CircuitState::Closed][rng.usize(0..3)];
            let is_set = circuit.set_state_at(self.clock.now(), state).is_ok();
            if is_set != (state != CircuitState::HalfOpen || shown == CircuitState::Open) {
                self.break_by(|| format!("set to {state} from {shown}: {is_set}"));
            }
        }
        match &self.asked {
            Asked::Direct(_) => {}
            Asked::Queue(queue) => queue.recheck(),
            Asked::Keys(keys) => {
                keys.remove(&request.key);
            }
        }
    }

    fn arrive(&mut self, period: &Period, request: Request, rng: &mut Rng) {
        if request.is_judged {
            self.counts.offered += request.weight;
            self.counts.offered_work += float(request.weight) * request.length.as_secs_f64();
        }
        // Both drawn always: two limiters get the same requests.
        let (peeks, waits, leaves) = (rng.bool(), rng.bool(), rng.f64());
        let now = self.clock.now();
        if let Asked::Queue(queue) = &self.asked {
            let (queue, timers) = (Rc::clone(queue), self.timers.clone());
            let (weight, patience) = (request.weight, period.patience);
            let future: Waits = Box::pin(async move {
                let sleep = |time| timers.sleep(time);
                let permit = queue.acquire_with_at(now, weight, patience, sleep).await?;
                Ok(Box::new(permit) as Box<dyn Permit>)
            });
            self.added += 1;
            let waiter = Waiter { future, request, is_queued: false };
            self.waiters.insert(self.added, waiter);
            if let Fate::Cancel | Fate::Drop = request.fate {
                let time = self.now.saturating_add(patience.mul_f64(leaves));
                self.events.push(Reverse((time, Event::Leave(self.added))));
            }
            self.ready.add(self.added);
            return;
        }
        let ask = Ask::at(now).many(request.weight);
        let ask = if waits { ask } else { ask.at_once() };
        let foretold = if peeks { self.asked.peek(&ask.again(), request.key) } else { None };
        let decision = self.asked.decide(&ask, request.key);
        if let Some(foretold) = foretold
            && foretold != plain(&decision)
        {
            let decision = plain(&decision);
            self.break_by(|| format!("foretold {foretold:?}, and decided {decision:?}"));
        }
        match decision.into_result() {
            Ok(delayed) => {
                let (permit, wait) = delayed.into_parts();
                self.begin(Box::new(permit), request, wait);
            }
            Err(refusal) => self.refused(&request, refusal),
        }
    }

    fn refused(&mut self, request: &Request, refusal: Refusal) {
        let is_wrong = self.subject.base.is_breaker() || refusal.reason == Reason::NO_ROOM_FOR_KEY;
        if request.is_judged && is_wrong {
            self.break_by(|| format!("in health: {refusal:?}"));
        }
    }

    fn begin(&mut self, permit: Box<dyn Permit>, request: Request, wait: Duration) {
        if self.is_judged() && (request.is_judged || !self.subject.base.is_breaker()) {
            self.counts.admitted += request.weight;
        }
        self.in_flight += request.weight;
        self.added += 1;
        let admitted = (self.clock.now(), wait);
        self.calls.insert(self.added, Call { permit, request, admitted });
        let end = self.now.saturating_add(wait).saturating_add(request.length);
        self.events.push(Reverse((end, Event::End(self.added))));
    }

    fn end(&mut self, number: usize) {
        let Some(call) = self.calls.remove(&number) else { return };
        let Call { mut permit, request, admitted: (asked, wait) } = call;
        self.in_flight -= request.weight;
        let now = self.clock.now();
        if request.fate == Fate::Refund {
            let ask = Ask::at(asked).many(request.weight);
            self.asked.refund(&ask, request.key, wait);
        }
        match request.fate {
            Fate::Success => permit.end_at(now, Outcome::Success),
            Fate::Exception => permit.end_at(now, Outcome::Exception),
            Fate::Cancel | Fate::Refund => permit.end_at(now, Outcome::Cancelled),
            Fate::Drop => {}
        }
        drop(permit);
        self.check_books();
    }

    /// Polls the waiting requests that were woken.
    fn poll(&mut self) {
        while let Some(number) = self.ready.next() {
            let Some(waiter) = self.waiters.get_mut(&number) else { continue };
            let waker = self.ready.waker(number);
            waiter.is_queued = true;
            match waiter.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => {}
                Poll::Ready(result) => {
                    let request = waiter.request;
                    self.waiters.remove(&number);
                    match result {
                        Ok(permit) => self.begin(permit, request, Duration::ZERO),
                        Err(refusal) => self.refused(&request, refusal),
                    }
                }
            }
        }
        self.check_head();
        self.check_books();
    }
}

fn draw(period: &Period, rng: &mut Rng) -> Request {
    let usual = period.lengths.draw(rng);
    let weight = rng.u64(period.weights[0]..=period.weights[1]);
    let (fate, early) = (rng.f64(), rng.f64());
    let (client, stranger, is_stranger) =
        (rng.u64(0..Period::CLIENTS), rng.u64(Period::CLIENTS..u64::MAX), rng.f64());
    let key = if is_stranger < period.strangers { stranger } else { client };
    let it = &period.outcomes;
    let shares = [it.exceptions, it.hangs, it.cancelled, it.dropped, it.refunded];
    let mut sum = 0.0;
    let found = shares.iter().position(|share| {
        sum += share;
        fate < sum
    });
    let (fate, length) = match found {
        Some(0) => (Fate::Exception, usual),
        Some(1) => (Fate::Exception, period.patience),
        Some(2) => (Fate::Cancel, usual.mul_f64(early)),
        Some(3) => (Fate::Drop, usual.mul_f64(early)),
        Some(_) => (Fate::Refund, usual.mul_f64(early).min(Duration::from_secs(1))),
        None => (Fate::Success, usual),
    };
    Request { weight, key, length, fate, is_judged: false }
}
