//! Ten hours of a backend that fails, hangs and recovers, in virtual time: each decision, each
//! state and each count beside those of a plain model.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use leaparray::count_window::CountTotals;
use leaparray::flow::circuit::CircuitState::{Closed, HalfOpen, Open};
use leaparray::flow::circuit::{CircuitState, RatioLimit, Wait};
use leaparray::flow::{CircuitBreaker, CircuitConfig, FeedbackPermit, LimiterExt};
use leaparray::{Clock, ManualClock, Timestamp, WindowConfig};

use crate::circuit::{Breaker, NOON};

const HOURS: u64 = 10;
const MILLIS: u64 = HOURS * 3_600_000;

const MIN_CALLS: usize = 20;
const PROBES: u16 = 5;
const SLOW_MILLIS: u64 = 800;
const BUCKETS: usize = 10;
const BUCKET_MILLIS: u64 = 1_000;
const FIRST_WAIT: u64 = 2_000;
const MAX_WAIT: u64 = 30_000;
const TIMEOUT: u64 = 5_000;

/// A call that has ended, at a time in milliseconds.
#[derive(Clone, Copy)]
struct Call {
    at: u64,
    is_exception: bool,
    is_slow: bool,
}

/// The calls that count.
#[derive(Clone, Copy)]
enum Counted {
    InWindow,
    Last(usize),
}

/// A breaker without atomics, with a list of its calls.
struct Model {
    counted: Counted,
    state: CircuitState,
    /// The number of the transition.
    generation: u64,
    calls: VecDeque<Call>,
    /// The end of the wait, or of the time of the last probe.
    until: u64,
    wait: u64,
    taken: u16,
}

impl Model {
    const fn new(counted: Counted) -> Self {
        Self {
            counted,
            state: Closed,
            generation: 0,
            calls: VecDeque::new(),
            until: 0,
            wait: FIRST_WAIT,
            taken: 0,
        }
    }

    fn go_to(&mut self, state: CircuitState) {
        self.state = state;
        self.generation += 1;
        self.calls.clear();
        self.taken = 0;
    }

    fn open(&mut self, now: u64) {
        if self.state == HalfOpen {
            self.wait = (self.wait * 2).min(MAX_WAIT);
        } else {
            self.wait = FIRST_WAIT;
        }
        self.until = now + self.wait;
        self.go_to(Open);
    }

    /// Whether the breaker is half-open, and its last probe has been in flight for too long.
    fn is_over(&self, now: u64) -> bool {
        let is_in_flight = usize::from(self.taken) > self.calls.len();
        self.state == HalfOpen && is_in_flight && now >= self.until
    }

    fn time_out(&mut self, now: u64) {
        if self.is_over(now) {
            self.open(self.until);
        }
    }

    /// Returns the generation of an admitted request.
    fn ask(&mut self, now: u64) -> Option<u64> {
        self.time_out(now);
        if self.state == Open && now >= self.until {
            self.go_to(HalfOpen);
        }
        let is_admitted = match self.state {
            Closed => true,
            HalfOpen => self.taken < PROBES,
            _ => false,
        };
        self.taken += u16::from(is_admitted);
        if self.state == HalfOpen && is_admitted {
            self.until = now + TIMEOUT;
        }
        is_admitted.then_some(self.generation)
    }

    fn cancel(&mut self, generation: u64, now: u64) {
        if generation == self.generation {
            self.time_out(now);
            if self.state == HalfOpen {
                self.taken -= 1;
            }
        }
    }

    fn end(&mut self, generation: u64, call: Call) {
        if generation != self.generation {
            return;
        }
        self.time_out(call.at);
        if generation != self.generation {
            return;
        }
        self.calls.push_back(call);
        if let (Closed, Counted::Last(last)) = (self.state, self.counted)
            && self.calls.len() > last
        {
            self.calls.pop_front();
        }
        let (calls, exceptions, slow) = self.totals(call.at);
        let fails = 2 * exceptions >= calls || 2 * slow >= calls;
        match self.state {
            Closed if calls >= self.min_calls() && fails => self.open(call.at),
            HalfOpen if calls == usize::from(PROBES) && fails => self.open(call.at),
            HalfOpen if calls == usize::from(PROBES) => self.go_to(Closed),
            _ => {}
        }
    }

    fn min_calls(&self) -> usize {
        match self.counted {
            Counted::InWindow => MIN_CALLS,
            Counted::Last(last) => MIN_CALLS.min(last),
        }
    }

    fn totals(&self, now: u64) -> (usize, usize, usize) {
        let bucket = |millis| millis / BUCKET_MILLIS + BUCKETS as u64;
        let counts = |call: &&Call| match (self.state, self.counted) {
            (Closed, Counted::InWindow) => bucket(call.at) + BUCKETS as u64 > bucket(now),
            _ => true,
        };
        let calls: Vec<_> = self.calls.iter().filter(counts).collect();
        let exceptions = calls.iter().filter(|call| call.is_exception).count();
        let slow = calls.iter().filter(|call| call.is_slow).count();
        (calls.len(), exceptions, slow)
    }
}

/// A request that has reached the backend, by the time of its end.
struct InFlight<'a> {
    end: u64,
    number: u64,
    start: u64,
    permit: FeedbackPermit<&'a Breaker>,
    generation: u64,
}

fn at(millis: u64) -> Timestamp {
    NOON.saturating_add(Duration::from_millis(millis))
}

fn config(counted: Counted) -> CircuitConfig {
    let half = RatioLimit::at_least(0.5).unwrap();
    let config = CircuitConfig::default()
        .min_calls(MIN_CALLS as u64)
        .exception_ratio(half)
        .slow_ratio(half, Duration::from_millis(SLOW_MILLIS))
        .wait(
            Wait::new(Duration::from_millis(FIRST_WAIT))
                .growing(2.0, Duration::from_millis(MAX_WAIT))
                .unwrap(),
        )
        .probes(PROBES)
        .unwrap()
        .half_open_timeout(Some(Duration::from_millis(TIMEOUT)))
        .unwrap();
    match counted {
        Counted::InWindow => {
            let bucket = Duration::from_millis(BUCKET_MILLIS);
            config.window(WindowConfig::new(BUCKETS, bucket * 10).unwrap()).unwrap()
        }
        Counted::Last(last) => config.last_calls(u32::try_from(last).unwrap()).unwrap(),
    }
}

/// Returns the numbers of requests that were admitted and refused, and of transitions.
fn simulate(counted: Counted, seed: u64) -> (u64, u64, u64) {
    let clock = ManualClock::new(NOON);
    let breaker = CircuitBreaker::with_clock(config(counted), clock.clone());
    let mut model = Model::new(counted);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut in_flight: Vec<Option<InFlight<'_>>> = Vec::new();
    let mut ends = BinaryHeap::new();
    let (mut admitted, mut refused) = (0, 0);
    // The backend: its share of failures and its response time change every half a minute on
    // average.
    let (mut failing, mut mean) = (0.0, 50);
    let mut now = 0;
    while now < MILLIS {
        if random.u64(0..300) == 0 {
            failing = [0.0, 0.0, 0.1, 0.4, 0.6, 1.0][random.usize(0..6)];
            mean = [20, 50, 50, 400, 2_000, 9_000][random.usize(0..6)];
        }
        now += random.u64(1..200);
        while let Some(&Reverse((end, index))) = ends.peek()
            && end <= now
        {
            ends.pop();
            let request: InFlight<'_> = Option::take(&mut in_flight[index]).unwrap();
            clock.set(at(request.end));
            let InFlight { end, start, permit, generation, number } = request;
            let call = Call {
                at: end,
                is_exception: random.f64() < failing,
                is_slow: end - start > SLOW_MILLIS,
            };
            if number % 13 == 0 {
                permit.cancel();
                model.cancel(generation, end);
            } else {
                if call.is_exception {
                    permit.reject();
                } else {
                    permit.accept();
                }
                model.end(generation, call);
            }
            check(&breaker, &model, end);
        }
        clock.set(at(now));
        let decision = breaker.try_acquire().at_once();
        let expected = model.ask(now);
        assert_eq!(decision.is_ok(), expected.is_some(), "at {now} ms: {:?}", model.state);
        match decision {
            Ok(permit) => {
                admitted += 1;
                let end = now + random.u64(1..2 * mean);
                let generation = expected.unwrap();
                ends.push(Reverse((end, in_flight.len())));
                let number = admitted;
                in_flight.push(Some(InFlight { end, number, start: now, permit, generation }));
            }
            Err(_) => refused += 1,
        }
        check(&breaker, &model, now);
    }
    (admitted, refused, model.generation)
}

#[track_caller]
fn check(breaker: &Breaker, model: &Model, now: u64) {
    assert_eq!(breaker.clock().now(), at(now));
    let snapshot = breaker.snapshot();
    let is_over = model.is_over(now);
    assert_eq!(snapshot.state, if is_over { Open } else { model.state }, "at {now} ms");
    let CountTotals { calls, exceptions, slow, .. } = snapshot.calls;
    let (of_model, exceptions_of_model, slow_of_model) = model.totals(now);
    let expected = [of_model, exceptions_of_model, slow_of_model];
    let expected = expected.map(|it| if is_over { 0 } else { it as u64 });
    assert_eq!([calls, exceptions, slow], expected, "at {now} ms: {:?}", model.state);
}

#[test]
fn ten_hours_are_those_of_a_plain_model() {
    for (counted, seed) in [(Counted::InWindow, 1), (Counted::Last(50), 2), (Counted::Last(7), 3)] {
        let (admitted, refused, transitions) = simulate(counted, seed);
        assert!(
            admitted > 50_000 && refused > 10_000 && transitions > 500,
            "{admitted} {refused} {transitions}"
        );
    }
}
