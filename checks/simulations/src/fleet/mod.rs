//! One limit over a fleet: nodes that lease permits, by discrete events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use leaparray_redis::lease::{Answer, Ask, LeaseConfig, Ledger, Node};

/// A fleet and what happens to it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The parameters of the limit.
    pub config: LeaseConfig,
    /// The number of nodes.
    pub nodes: usize,
    /// The requests of all nodes in a second. Their shares follow Zipf's law with exponent 1.1, and are dealt anew every five seconds.
    pub demand: f64,
    /// The mean round trip in microseconds. Each way takes half of it, give or take a half.
    pub round_trip: u64,
    /// The seconds that are measured, after the quarantine and a window.
    pub secs: u64,
    /// The share of the messages that are lost, and the share that are delivered twice.
    pub loss: f64,
    /// The share of the nodes that crash in a second.
    pub crashes: f64,
    /// The time between two failovers in microseconds, in turn a blank restart and the promotion of a replica that lags by 300 ms.
    pub failover_every: Option<u64>,
    /// The bound of the nodes' drift, in millionths.
    pub drift_ppm: u32,
}

/// What a run has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed {
    /// The most permits that were used in a window, beyond the limit.
    pub overshoot: u64,
    /// Permits that were used, as a share of those that a central limiter without latency admits.
    pub utilisation: f64,
    /// The asks that the server answered in a second.
    pub operations: f64,
    /// The same for each permit that was used.
    pub operations_per_permit: f64,
    /// The share of the requests that were decided without waiting for an answer.
    pub local: f64,
    /// The mean time until a decision, in milliseconds.
    pub mean_millis: f64,
    /// The quantile 0.99 of the time until a decision, in milliseconds.
    pub p99_millis: f64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Poll(usize),
    Ask(usize, Ask),
    Answer(usize, u64, Answer),
    GiveUp(usize, u64, u64),
    Crash,
    Replicate,
    Failover,
    Deal,
}

struct Member {
    node: Node,
    name: u64,
    asked: u64,
    /// The local time of the earliest poll that is planned.
    wakes: Option<u64>,
    /// The drift of its clock, in millionths.
    drift: i64,
    /// The times of the requests that wait.
    waiting: VecDeque<u64>,
}

struct Run {
    scenario: Scenario,
    random: fastrand::Rng,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    members: Vec<Member>,
    /// The cumulative shares of the demand, and which node has which.
    shares: Vec<f64>,
    dealt: Vec<usize>,
    ledger: Ledger,
    replica: Ledger,
    identity: u64,
    failovers: u64,
    names: u64,
    start: u64,
    /// The permits used in each bucket, and those of a central limiter.
    used: BTreeMap<u64, u64>,
    central: BTreeMap<u64, u64>,
    operations: u64,
    waits: Vec<u64>,
}

/// Simulates a scenario.
#[must_use]
pub fn simulate(scenario: &Scenario, seed: u64) -> Observed {
    let mut run = Run::new(scenario, seed);
    let end = run.start + scenario.secs * 1_000_000;
    while let Some(Reverse((time, _, event))) = run.events.pop()
        && time < end
    {
        run.handle(time, event);
    }
    run.observed()
}

impl Run {
    fn new(scenario: &Scenario, seed: u64) -> Self {
        let weights = (1..=scenario.nodes).map(|rank| 1.0 / libm::pow(float(rank as u64), 1.1));
        let mut sum = 0.0;
        let shares = weights
            .map(|it| {
                sum += it;
                sum
            })
            .collect();
        let config = scenario.config;
        let warm_up = config.quarantine() + config.bucket_len() * config.buckets();
        let ledger = Ledger::new(config);
        let mut run = Self {
            scenario: *scenario,
            random: fastrand::Rng::with_seed(seed),
            events: BinaryHeap::new(),
            count: 0,
            members: Vec::new(),
            shares,
            dealt: (0..scenario.nodes).collect(),
            replica: ledger.clone(),
            ledger,
            identity: 1,
            failovers: 0,
            names: 0,
            start: micros(warm_up),
            used: BTreeMap::new(),
            central: BTreeMap::new(),
            operations: 0,
            waits: Vec::new(),
        };
        for _ in 0..scenario.nodes {
            let member = run.member();
            run.members.push(member);
        }
        run.at(0, Event::Arrival);
        run.at(0, Event::Deal);
        if scenario.crashes > 0.0 {
            run.at(0, Event::Crash);
        }
        if let Some(every) = scenario.failover_every {
            run.at(run.start + every - 300_000, Event::Replicate);
        }
        run
    }

    fn member(&mut self) -> Member {
        self.names += 1;
        let bound = i64::from(self.scenario.drift_ppm);
        Member {
            node: Node::new(self.scenario.config, self.names),
            name: self.names,
            asked: 0,
            wakes: None,
            drift: self.random.i64(-bound..=bound),
            waiting: VecDeque::new(),
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    /// Sends a message: it may be lost, or delivered twice.
    fn send(&mut self, time: u64, message: impl Fn() -> Event) {
        let loss = self.scenario.loss;
        for is_sent in [self.random.f64() >= loss, self.random.f64() < loss] {
            if is_sent {
                let half = self.scenario.round_trip / 2;
                let delay = half / 2 + self.random.u64(..=half);
                self.at(time + delay, message());
            }
        }
    }

    fn handle(&mut self, time: u64, event: Event) {
        match event {
            Event::Arrival => {
                let gap = -libm::log(1.0 - self.random.f64()) * 1e6 / self.scenario.demand;
                self.at(time + whole(gap).max(1), Event::Arrival);
                self.arrive(time);
            }
            Event::Poll(index) => self.poll(time, index),
            Event::Ask(index, ask) => {
                self.operations += u64::from(time >= self.start);
                let answer = self.ledger.lease(time, self.identity, &ask);
                self.send(time, || Event::Answer(index, ask.node, answer));
            }
            Event::Answer(index, name, answer) => {
                let member = &mut self.members[index];
                if member.name == name && member.node.on_answer(member.local(time), &answer) {
                    self.retry(time, index);
                    self.poll(time, index);
                }
            }
            Event::GiveUp(index, name, asked) => {
                let member = &mut self.members[index];
                let waits = member.node.holdings().sent().is_some();
                if member.name == name && member.asked == asked && waits {
                    member.node.on_lost(member.local(time));
                    self.retry(time, index);
                    self.poll(time, index);
                }
            }
            Event::Crash => {
                let a_second = self.scenario.crashes * float(self.scenario.nodes as u64);
                let gap = -libm::log(1.0 - self.random.f64()) * 1e6 / a_second;
                self.at(time + whole(gap).max(1), Event::Crash);
                let index = self.random.usize(..self.members.len());
                self.members[index] = self.member();
            }
            Event::Replicate => {
                self.replica = self.ledger.clone();
                self.at(time + 300_000, Event::Failover);
            }
            Event::Failover => {
                self.failovers += 1;
                self.identity += 1;
                let is_blank = self.failovers % 2 == 1;
                self.ledger =
                    if is_blank { Ledger::new(self.scenario.config) } else { self.replica.clone() };
                if let Some(every) = self.scenario.failover_every {
                    self.at(time + every - 300_000, Event::Replicate);
                }
            }
            Event::Deal => {
                self.random.shuffle(&mut self.dealt);
                self.at(time + 5_000_000, Event::Deal);
            }
        }
    }

    fn arrive(&mut self, time: u64) {
        let config = &self.scenario.config;
        let bucket = time / config.bucket_micros();
        let first = (bucket + 1).saturating_sub(u64::from(config.buckets()));
        let in_window: u64 = self.central.range(first..).map(|it| it.1).sum();
        if in_window < config.limit() {
            *self.central.entry(bucket).or_default() += 1;
        }
        let at = self.random.f64() * self.shares[self.shares.len() - 1];
        let rank = self.shares.partition_point(|it| *it <= at).min(self.shares.len() - 1);
        let index = self.dealt[rank];
        let member = &mut self.members[index];
        let now = member.local(time);
        if member.node.take(now, 1) {
            self.admit(time, time);
        } else if member.node.is_short(now) {
            self.decided(time, time);
        } else {
            member.waiting.push_back(time);
        }
        self.poll(time, index);
    }

    /// Decides on the requests that wait. The server has answered, so that what cannot be admitted now is refused.
    fn retry(&mut self, time: u64, index: usize) {
        let now = self.members[index].local(time);
        while let Some(since) = self.members[index].waiting.front().copied() {
            let member = &mut self.members[index];
            if member.node.retry(now, 1) {
                self.admit(time, since);
            } else if member.node.is_short(now) {
                self.decided(time, since);
            } else {
                break;
            }
            self.members[index].waiting.pop_front();
        }
    }

    fn poll(&mut self, time: u64, index: usize) {
        let member = &mut self.members[index];
        let now = member.local(time);
        if let Some(ask) = member.node.poll(now) {
            member.asked += 1;
            let (name, asked) = (member.name, member.asked);
            self.at(time + self.scenario.round_trip * 4, Event::GiveUp(index, name, asked));
            self.send(time, || Event::Ask(index, ask.clone()));
        } else if let Some(at) = member.node.next_poll(now)
            && member.wakes.is_none_or(|it| at < it || it <= now)
        {
            member.wakes = Some(at);
            self.at(
                time + at.saturating_sub(now) + at.saturating_sub(now) / 1_000 + 1,
                Event::Poll(index),
            );
        }
    }

    fn admit(&mut self, time: u64, since: u64) {
        *self.used.entry(time / self.scenario.config.bucket_micros()).or_default() += 1;
        self.decided(time, since);
    }

    fn decided(&mut self, time: u64, since: u64) {
        if since >= self.start {
            self.waits.push(time - since);
        }
    }

    fn observed(mut self) -> Observed {
        let config = self.scenario.config;
        let buckets = u64::from(config.buckets());
        let window = |first: u64| self.used.range(first..first + buckets).map(|it| it.1).sum();
        let most: u64 = self.used.keys().map(|&first| window(first)).max().unwrap_or_default();
        let first = self.start / config.bucket_micros();
        let sum = |of: &BTreeMap<u64, u64>| float(of.range(first..).map(|it| it.1).sum());
        let used = sum(&self.used);
        self.waits.sort_unstable();
        let decided = float(self.waits.len() as u64);
        let waited = self.waits.len() - self.waits.partition_point(|it| *it == 0);
        let p99 = self.waits.get(self.waits.len() * 99 / 100).copied().unwrap_or_default();
        Observed {
            overshoot: most.saturating_sub(config.limit()),
            utilisation: used / sum(&self.central),
            operations: float(self.operations) / float(self.scenario.secs),
            operations_per_permit: float(self.operations) / used,
            local: 1.0 - float(waited as u64) / decided,
            mean_millis: float(self.waits.iter().sum()) / decided / 1e3,
            p99_millis: float(p99) / 1e3,
        }
    }
}

impl Member {
    /// Returns the time of its clock.
    fn local(&self, time: u64) -> u64 {
        let ahead = i64::try_from(time).unwrap_or(i64::MAX) / 1_000 * self.drift / 1_000;
        time.saturating_add_signed(ahead)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn whole(number: f64) -> u64 {
    number as u64
}
