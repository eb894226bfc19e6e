//! The loop of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use leaparray::Timestamp;
use leaparray_envoy::quota::{Action, BucketId, BucketLimit, Quotas, ShareAsk, StreamId, Usage};

use super::audit::{Audit, Violation};
use super::client::{Client, Told};
use super::store::Store;
use super::{Faults, Scenario};

/// The time between two plans of an instance, and between two asks for its shares.
const TICK: Duration = Duration::from_millis(250);
const ASKS: Duration = Duration::from_millis(500);
/// For how long a share lasts beyond the charge of an assignment, and how late an answer may be.
const SPARE: Duration = Duration::from_secs(3);
const LATE: u64 = 1_000;

pub(super) struct Instance {
    pub(super) quotas: Quotas,
    /// Another one after each start.
    pub(super) number: u64,
    /// The subscriptions that it has to have.
    pub(super) subscribed: BTreeSet<(StreamId, usize)>,
    pub(super) answers: Vec<(Timestamp, ShareAsk, u64, Timestamp)>,
    /// Until when it does not reach the store.
    pub(super) away_until: Timestamp,
}

/// The state of a run.
pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) random: Rng,
    pub(super) faults: Faults,
    pub(super) now: Timestamp,
    pub(super) step: u64,
    /// The limit and the interval in seconds; `None` without a limit.
    pub(super) limit: Option<u32>,
    pub(super) window: u64,
    pub(super) instances: Vec<Instance>,
    pub(super) starts: u64,
    pub(super) clients: Vec<Client>,
    /// The streams that have broken, which the server has not noticed.
    pub(super) unnoticed: Vec<(Timestamp, usize, StreamId)>,
    pub(super) stores: Vec<Store>,
    pub(super) names: Vec<BucketId>,
    pub(super) audits: Vec<Audit>,
    pub(super) admitted: Vec<u64>,
    pub(super) violation: Option<Violation>,
}

/// Simulates a scenario, and returns the first difference.
#[must_use]
pub fn simulate(scenario: &Scenario, seed: u64) -> Option<Violation> {
    let mut run = Run::new(scenario, seed);
    run.run(Duration::from_secs(scenario.secs));
    run.end_faults();
    // Until what the others have had is free: its clients are silent or idle, and the assignments
    // of them have ended and have left the intervals. Shares are changed once more by then.
    let window = Duration::from_secs(run.window);
    let lasts = scenario.lasts() + window;
    let gone = scenario.silence.max(scenario.idle.min(Scenario::SHORT_IDLE));
    run.run(gone + 2 * lasts + Duration::from_secs(2));
    run.admitted = vec![0; scenario.buckets];
    run.run(2 * window);
    run.check_used();
    run.end_clients();
    run.run(lasts + 2 * TICK + lasts / 128);
    run.check_empty();
    run.violation
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let names = (0..scenario.buckets).map(|it| BucketId::new([("bucket", it.to_string())]));
        let mut run = Self {
            scenario,
            random: Rng::with_seed(seed),
            faults: scenario.faults,
            now: Timestamp::from_secs(1_000),
            step: 0,
            limit: Some(scenario.limit),
            window: scenario.window,
            instances: Vec::new(),
            starts: 0,
            clients: Vec::new(),
            unnoticed: Vec::new(),
            stores: vec![Store::default(); scenario.buckets],
            names: names.collect(),
            audits: vec![Audit::default(); scenario.buckets],
            admitted: vec![0; scenario.buckets],
            violation: None,
        };
        for _ in 0..scenario.instances {
            let instance = run.instance();
            run.instances.push(instance);
        }
        for load in &scenario.clients {
            run.join(*load);
        }
        run
    }

    pub(super) fn instance(&mut self) -> Instance {
        let config = self.scenario.config;
        let is_shared = self.scenario.instances > 1;
        let quotas = if is_shared { Quotas::with_shares(config) } else { Quotas::new(config) };
        self.starts += 1;
        let (subscribed, answers) = (BTreeSet::new(), Vec::new());
        Instance { quotas, number: self.starts, subscribed, answers, away_until: self.now }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now.saturating_add(time);
        while self.now < end && self.violation.is_none() {
            self.step();
        }
    }

    fn step(&mut self) {
        self.happen();
        self.requests();
        self.notice();
        for client in 0..self.clients.len() {
            if (self.step + self.clients[client].phase).is_multiple_of(self.scenario.reports) {
                self.report(client);
            }
        }
        for number in 0..self.instances.len() {
            let is_due = |every| (self.step + number as u64).is_multiple_of(self.steps(every));
            let (asks, plans) = (is_due(ASKS), is_due(TICK));
            if self.scenario.instances > 1 {
                self.exchange(number, asks);
            }
            if plans {
                self.tick(number);
            }
        }
        self.now = self.now.saturating_add(Duration::from_millis(self.scenario.step));
        self.step += 1;
    }

    /// The steps of a time.
    pub(super) fn steps(&self, time: Duration) -> u64 {
        millis(time).div_ceil(self.scenario.step)
    }

    pub(super) fn limit_of(limit: Option<u32>, window: u64) -> BucketLimit {
        let window = Duration::from_secs(window);
        limit.map_or(BucketLimit::Unlimited, |requests| BucketLimit::Requests { requests, window })
    }

    fn requests(&mut self) {
        let mut sums = vec![0_u64; self.names.len()];
        for client in &mut self.clients {
            client.receive(self.now);
            let wanted = client.wanted(self.step);
            for (sum, bucket) in sums.iter_mut().zip(&mut client.buckets) {
                if wanted == 0 {
                    continue;
                }
                let admitted = bucket.request(wanted, self.now);
                *sum += admitted.unwrap_or(0);
                let denied = wanted - admitted.unwrap_or(wanted);
                bucket.allowed += admitted.unwrap_or_else(|| wanted.min(1_000));
                bucket.denied += denied.min(1_000);
            }
        }
        let window = Duration::from_secs(self.window);
        let steps = (self.steps(window), self.steps(self.scenario.lasts() + window) + 1);
        for (bucket, (audit, sum)) in self.audits.iter_mut().zip(sums).enumerate() {
            let limit = self.limit.map_or(u64::MAX, u64::from);
            self.admitted[bucket] += sum;
            if let Some(found) = audit.add(self.step, sum, steps, limit) {
                self.violation.get_or_insert(found);
            }
        }
    }

    fn report(&mut self, number: usize) {
        let it = &mut self.clients[number];
        if self.now < it.silent_until || it.is_broken {
            // A stream with a lost message breaks.
            if it.is_broken {
                self.disconnect(number);
            }
            return;
        }
        let instance = &mut self.instances[it.instance];
        let stream = it.stream.unwrap_or_else(|| {
            it.on_way.clear();
            instance.quotas.open().expect("there are few")
        });
        it.stream = Some(stream);
        let mut usages = Vec::new();
        for (bucket, (known, name)) in it.buckets.iter_mut().zip(&self.names).enumerate() {
            let (allowed, denied) =
                (std::mem::take(&mut known.allowed), std::mem::take(&mut known.denied));
            // A bucket is subscribed by its first request.
            if !known.is_subscribed && allowed + denied == 0 {
                continue;
            }
            known.is_subscribed = true;
            instance.subscribed.insert((stream, bucket));
            usages.push(Usage { bucket: name.clone(), allowed, denied });
        }
        if usages.is_empty() {
            return;
        }
        let (limit, window) = (self.limit, self.window);
        let limit_of = |_: &str, _: &BucketId| Self::limit_of(limit, window);
        let told = instance.quotas.report(stream, "shop", usages, self.now, &limit_of);
        let (told, instance) = (told.expect("a report of an open stream"), it.instance);
        self.send(instance, told);
    }

    fn tick(&mut self, number: usize) {
        let told = self.instances[number].quotas.tick(self.now);
        self.send(number, told);
        let Instance { quotas, subscribed, .. } = &self.instances[number];
        let counts = quotas.counts();
        if counts.subscriptions != subscribed.len() {
            let counts = (counts.streams, counts.subscriptions, subscribed.len());
            self.violation.get_or_insert(Violation::Kept { counts });
        }
        for (bucket, name) in self.names.iter().enumerate() {
            let charged = quotas.charged("shop", name);
            let limit = self.limit.map_or(u64::MAX, u64::from);
            if charged > limit && self.audits[bucket].is_steady(self.step) {
                self.violation.get_or_insert(Violation::Charged { step: self.step, charged });
            }
        }
    }

    fn send(&mut self, number: usize, told: Vec<(StreamId, Action)>) {
        for (stream, action) in told {
            let (bucket, told) = match action {
                Action::Assign { bucket, strategy, ttl } => (bucket, Told::Assign(strategy, ttl)),
                Action::Abandon { bucket } => (bucket, Told::Abandon),
                _ => continue,
            };
            let bucket = self.names.iter().position(|it| *it == bucket).expect("a known bucket");
            if matches!(told, Told::Abandon) {
                self.instances[number].subscribed.remove(&(stream, bucket));
            }
            let delivery = millis(self.scenario.config.delivery());
            let slow = crate::fleet::float(delivery) * self.faults.slow;
            let steps = crate::fleet::whole(slow * self.random.f64()) / self.scenario.step;
            let is_lost = self.random.f64() < self.faults.loss;
            let is_its = |it: &&mut Client| it.instance == number && it.stream == Some(stream);
            let Some(client) = self.clients.iter_mut().find(is_its) else { continue };
            if is_lost || client.is_broken {
                client.is_broken = true;
                continue;
            }
            let after = Duration::from_millis(steps * self.scenario.step);
            let last = client.on_way.back().map_or(self.now, |it| it.0);
            client.on_way.push_back((self.now.saturating_add(after).max(last), bucket, told));
        }
    }

    /// Takes the answers of the store, and asks if it is time.
    fn exchange(&mut self, number: usize, is_due: bool) {
        let Instance { quotas, number: id, answers, away_until, .. } = &mut self.instances[number];
        for (_, ask, units, until) in answers.extract_if(.., |it| it.0 <= self.now) {
            quotas.set_share(&ask, units, units, until);
        }
        if !is_due || self.now < *away_until {
            return;
        }
        for ask in quotas.asks(self.now) {
            let bucket = self.names.iter().position(|it| *it == ask.bucket).expect("a known one");
            let until = self.now.saturating_add(ask.lasts + SPARE);
            let wanted = ask.wanted.max(ask.least);
            let store = &mut self.stores[bucket];
            let units = store.ask(&mut self.random, *id, wanted, ask.limit, (self.now, until));
            if self.random.f64() < self.faults.loss {
                continue;
            }
            let after = Duration::from_millis(self.random.u64(..LATE));
            // An answer that is later than the next one is not taken.
            answers.retain(|it| it.1.bucket != ask.bucket);
            answers.push((self.now.saturating_add(after), ask, units, until));
        }
    }

    fn check_used(&mut self) {
        let possible = u64::from(self.scenario.limit) * 2;
        let Some(&admitted) = self.admitted.iter().min() else { return };
        // A bucket has the tokens of a 40th of the interval, or one: others are lost in longer steps.
        let (step, window) = (self.scenario.step, self.window * 1_000);
        let limit = u64::from(self.scenario.limit);
        let is_fine = limit >= 200 && step * 80 <= window || step * limit * 20 <= window;
        // A client without requests has one until it is idle.
        let is_kept = self.scenario.idle > Scenario::SHORT_IDLE;
        let kept = if is_kept { 2 * self.clients.len() as u64 } else { 0 };
        // Some are a reserve for bursts, and some are lost between two steps.
        let lost = kept + possible / 4 + 2;
        if self.scenario.instances == 1 && is_fine && admitted + lost < possible {
            self.violation.get_or_insert(Violation::Unused { admitted, possible });
        }
    }

    fn check_empty(&mut self) {
        for instance in &self.instances {
            let counts = instance.quotas.counts();
            let counts = (counts.streams, counts.subscriptions, counts.budgets);
            if counts != (0, 0, 0) {
                self.violation.get_or_insert(Violation::Kept { counts });
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
