//! A backend of workers with one queue, behind a limiter.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::ready;
use std::mem;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::adaptive::LimitAlgorithm;
use leaparray::flow::{AdaptiveLimiter, AllOf, Ask, Decision, LimiterExt, WaitQueue};
use leaparray::{ManualClock, Outcome, Permit, Timestamp};

use super::{Asks, Stage};

type Limiter = AdaptiveLimiter<Box<dyn LimitAlgorithm>, ManualClock>;

/// The calls of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The calls that arrived.
    pub offered: u64,
    /// The calls that arrived and were refused.
    pub refused: u64,
    /// Of the refused calls, those for which enough workers were idle, while no call waited.
    pub refused_while_idle: u64,
    /// The permits × time in which workers worked on calls that had waited for less than the
    /// [longest wait](Stage::longest_wait). A limiter does not know the length of a call when it
    /// decides, so this is the number of good calls × their mean work, without the chance of the
    /// lengths: a few calls of a heavy tail are as long as hundreds of others.
    pub good: Duration,
    /// The permits × time in which workers worked on the other calls: the limit is too high.
    pub late: Duration,
}

struct Call<'a> {
    permit: Box<dyn Permit + 'a>,
    arrived: Timestamp,
    /// The time that a worker takes for it.
    length: Duration,
    weight: u64,
    fails: bool,
    /// The time at which workers have begun.
    served_since: Option<Timestamp>,
    /// Whether the call had not waited for too long by then.
    is_good: bool,
}

/// Events of the call with that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End,
    GiveUp,
}

struct World<'a> {
    limiter: &'a Limiter,
    queue_of_requests: WaitQueue<&'a Limiter>,
    clock: ManualClock,
    stage: Stage,
    calls: Vec<Option<Call<'a>>>,
    free: Vec<usize>,
    queue: VecDeque<usize>,
    /// With the number of the call's arrival, by which a call is told from a later one in its
    /// place.
    events: BinaryHeap<Reverse<(Timestamp, Event, usize, Timestamp)>>,
    busy: u64,
    judged_from: Timestamp,
    counts: Counts,
}

fn boxed<'a, P: Permit + 'a>(decision: Decision<P>) -> Option<Box<dyn Permit + 'a>> {
    decision.at_once().ok().map(|permit| Box::new(permit) as Box<dyn Permit>)
}

impl World<'_> {
    fn idle(&self) -> u64 {
        self.stage.workers.saturating_sub(self.busy)
    }

    fn arrive(&mut self, now: Timestamp, rng: &mut Rng) {
        // All drawn whatever becomes of the call, so that two limiters get the same calls.
        let length = self.stage.lengths.draw(rng);
        let weight = rng.u64(self.stage.weights[0]..=self.stage.weights[1]);
        let fails_fast = rng.f64() < self.stage.failures.fast;
        let fails = rng.f64() < self.stage.failures.late;
        let cancelled = Rng::with_seed(rng.clone().u64(..)).f64();
        let counts =
            if now >= self.judged_from { &mut self.counts } else { &mut Counts::default() };
        counts.offered += 1;
        let limiter = self.limiter;
        let ask = Ask::at(now).many(weight);
        let permit = match self.stage.asks {
            Asks::Direct => boxed(limiter.ask(&ask)),
            Asks::AfterPeek => limiter
                .foretell(&ask)
                .filter(Decision::is_admitted)
                .and_then(|_| boxed(limiter.ask(&ask.again()))),
            Asks::ThroughQueue => {
                // Nothing sleeps: the timeout is over, so the future is ready at the first poll.
                let queue = &self.queue_of_requests;
                let acquire = queue.acquire_with_at(now, weight, Duration::ZERO, |_| ready(()));
                let mut context = Context::from_waker(Waker::noop());
                let Poll::Ready(permit) = pin!(acquire).poll(&mut context) else {
                    unreachable!("the timeout is over");
                };
                permit.ok().map(|permit| Box::new(permit) as Box<dyn Permit>)
            }
            Asks::ThroughAllOf => boxed(AllOf::new((limiter, None::<&Limiter>)).ask(&ask)),
        };
        let Some(mut permit) = permit else {
            counts.refused += 1;
            let is_idle =
                self.queue.is_empty() && self.stage.workers.saturating_sub(self.busy) >= weight;
            counts.refused_while_idle += u64::from(is_idle);
            return;
        };
        if fails_fast {
            permit.end_at(now, Outcome::Exception);
            return;
        }
        let (served_since, is_good) = (None, false);
        let call = Call { permit, arrived: now, length, weight, fails, served_since, is_good };
        let number = self.free.pop().unwrap_or_else(|| {
            self.calls.push(None);
            self.calls.len() - 1
        });
        self.calls[number] = Some(call);
        self.queue.push_back(number);
        if let Some(patience) = self.stage.failures.patience {
            self.events.push(Reverse((now.saturating_add(patience), Event::GiveUp, number, now)));
        }
        // The share of the length at which it is cancelled, if it is.
        let share = cancelled / self.stage.failures.cancelled;
        if share < 1.0 {
            let time = now.saturating_add(length.mul_f64(share));
            self.events.push(Reverse((time, Event::GiveUp, number, now)));
        }
        self.serve(now);
    }

    fn serve(&mut self, now: Timestamp) {
        while let Some(&number) = self.queue.front() {
            let idle = self.idle();
            let call = self.calls[number].as_mut().expect("a call that waits");
            // A call for more workers than there are begins when all are idle.
            if call.weight > idle && self.busy > 0 {
                return;
            }
            self.queue.pop_front();
            self.busy += call.weight;
            call.served_since = Some(now);
            let waited = now.saturating_since(call.arrived);
            call.is_good = waited <= self.stage.longest_wait();
            let end = now.saturating_add(call.length);
            self.events.push(Reverse((end, Event::End, number, call.arrived)));
        }
    }

    /// Counts the work on a call up to `now`, as far as it is judged.
    fn count_work(&mut self, call: &Call<'_>, now: Timestamp) {
        if let Some(since) = call.served_since {
            let judged = now.saturating_since(since.max(self.judged_from));
            #[expect(clippy::cast_possible_truncation, reason = "small")]
            let permits = call.weight as u32;
            let counts = &mut self.counts;
            let work = if call.is_good { &mut counts.good } else { &mut counts.late };
            *work += judged * permits;
        }
    }

    fn handle(&mut self, now: Timestamp, event: Event, number: usize, arrived: Timestamp) {
        if self.calls[number].as_ref().is_none_or(|call| call.arrived != arrived) {
            return;
        }
        let mut call = self.calls[number].take().expect("checked");
        self.free.push(number);
        self.count_work(&call, now);
        if call.served_since.is_some() {
            self.busy -= call.weight;
        } else {
            self.queue.retain(|&it| it != number);
        }
        match event {
            Event::GiveUp => call.permit.end_at(now, Outcome::Cancelled),
            Event::End if call.fails => call.permit.end_at(now, Outcome::Exception),
            Event::End => call.permit.end_at(now, Outcome::Success),
        }
        drop(call);
        self.serve(now);
    }
}

/// Simulates stages one after the other, of which the calls that arrive at or after `judged_from`
/// in the last stage are counted. Returns them and the last limit.
pub(super) fn simulate(
    algorithm: Box<dyn LimitAlgorithm>,
    stages: &[Stage],
    judged_from: Duration,
    seed: u64,
) -> (Counts, u64) {
    let begin = Timestamp::from_secs(1_000_000);
    let clock = ManualClock::new(begin);
    let limiter = AdaptiveLimiter::with_clock(algorithm, clock.clone());
    let mut world = World {
        limiter: &limiter,
        queue_of_requests: WaitQueue::new(&limiter),
        clock,
        stage: stages[0],
        calls: Vec::new(),
        free: Vec::new(),
        queue: VecDeque::new(),
        events: BinaryHeap::new(),
        busy: 0,
        judged_from: Timestamp::MAX,
        counts: Counts::default(),
    };
    let mut start = begin;
    for (index, stage) in stages.iter().enumerate() {
        world.stage = *stage;
        if index + 1 == stages.len() {
            world.judged_from = start.saturating_add(judged_from);
        }
        // By the place from the end: a run of the last stage alone gets the same calls.
        let rng = &mut Rng::with_seed(seed ^ (stages.len() - index) as u64);
        let end = start.saturating_add(stage.length);
        let mut steps_ahead = !stage.step.is_zero();
        let mut arrival = start;
        loop {
            let gap = -libm::log(1.0 - rng.f64()) / stage.arrivals;
            arrival = arrival.saturating_add(Duration::from_secs_f64(gap.min(1e9)));
            while let Some(&Reverse((now, event, number, arrived))) = world.events.peek()
                && now <= arrival.min(end)
            {
                world.events.pop();
                world.clock.set(now);
                world.handle(now, event, number, arrived);
            }
            if arrival >= end {
                break;
            }
            let now = arrival;
            world.clock.set(now);
            if steps_ahead {
                steps_ahead = false;
                let ahead = now.saturating_add(stage.step);
                world.clock.set(ahead);
                if let Ok(permit) = limiter.try_acquire_at(ahead, 1).at_once() {
                    permit.end_at(ahead, Outcome::Success);
                }
                world.clock.set(now);
            }
            world.arrive(now, rng);
        }
        start = end;
    }
    for call in mem::take(&mut world.calls).iter().flatten() {
        world.count_work(call, start);
    }
    (world.counts, limiter.limit())
}
