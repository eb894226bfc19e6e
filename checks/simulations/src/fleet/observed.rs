//! The observations of a run and its results.

use std::collections::VecDeque;

use leaparray_redis::lease::LeaseConfig;

use super::{Request, Scenario, float, micros};

/// The results of a run. All but the overshoot are about the measured seconds. A share of nothing
/// is not a number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// The most permits beyond the limit that were used in any interval of the server's time, from
    /// the start of the run on, as a share of the limit. For a limit of buckets, it is of their
    /// windows. A request counts at the server's time at which its node lets it go ahead.
    pub overshoot: f64,
    /// The same in any interval as long as that in which the limit holds.
    pub in_any_interval: f64,
    /// The number of admitted requests, divided by the number that a central limiter without
    /// latency admits; with workers, by the limit.
    pub utilisation: f64,
    /// The messages that the server handled in a second.
    pub operations: f64,
    /// The messages that the server handled for each request that was admitted.
    pub operations_per_admitted: f64,
    /// The quantile 0.99 of the time for which a command of another client waits until the server
    /// has handled the messages before it, in microseconds, if each takes 40 µs.
    pub others_wait_micros: f64,
    /// The share of the decisions that waited for no message.
    pub local: f64,
    /// The same share of the admissions.
    pub admitted_locally: f64,
    /// The mean time until a decision, in milliseconds.
    pub mean_millis: f64,
    /// The quantile 0.99 of the time until a decision, in milliseconds.
    pub p99_millis: f64,
    /// The share of the requests that were lost with their node.
    pub lost: f64,
    /// The share of the requests for half of the largest size or more that were admitted, 1 if
    /// there are none.
    pub large_admitted: f64,
    /// The least share of its demand that a node got, relative to the share of all nodes. Nodes
    /// that wanted fewer than a hundred permits do not count. All nodes with workers want the same.
    pub fairness: f64,
    /// The greatest such share.
    pub most_share: f64,
}

/// Counts requests, permits and decisions.
#[derive(Debug)]
pub(super) struct Observer {
    limit: u64,
    interval: u64,
    secs: u64,
    has_workers: bool,
    /// The start of the measured seconds.
    start: u64,
    /// The admissions of a central limiter without latency, and their number in the measured
    /// seconds.
    central: Recent,
    central_measured: u64,
    /// The permits that were admitted, and the most of them in an interval.
    admitted: Recent,
    most: u64,
    admitted_any: Recent,
    most_any: u64,
    admitted_measured: u64,
    /// The number of the requests that were admitted.
    admitted_requests: u64,
    admitted_locally: u64,
    operations: u64,
    others: Others,
    arrived: u64,
    lost: u64,
    /// How long each decision took.
    waits: Vec<u64>,
    /// The size from which on a request is large, and the large requests that were decided and
    /// admitted.
    large_from: u64,
    large: [u64; 2],
    /// The permits that the requests of each node wanted and got.
    by_node: Vec<[u64; 2]>,
}

impl Observer {
    pub(super) fn new(scenario: &Scenario, start: u64) -> Self {
        let config = &scenario.config;
        let is_any = config.interval() < config.bucket_len() * config.buckets();
        Self {
            limit: config.limit(),
            interval: micros(config.interval()),
            secs: scenario.secs,
            has_workers: scenario.workers > 0,
            start,
            central: Recent::new(config, is_any),
            central_measured: 0,
            admitted: Recent::new(config, is_any),
            most: 0,
            admitted_any: Recent::new(config, true),
            most_any: 0,
            admitted_measured: 0,
            admitted_requests: 0,
            admitted_locally: 0,
            operations: 0,
            others: Others::default(),
            arrived: 0,
            lost: 0,
            waits: Vec::new(),
            large_from: (config.limit() / 20).max(2),
            large: [0; 2],
            by_node: vec![[0; 2]; scenario.nodes],
        }
    }

    /// Counts a request that arrives.
    pub(super) fn arrives(&mut self, request: &Request) {
        let Request { node, since: time, size } = *request;
        if self.central.sum_at(time) + size <= self.limit {
            self.central.add(time, size);
            self.central_measured += self.measured(time) * size;
        }
        self.arrived += self.measured(time);
        self.by_node[node][0] += self.measured(time) * size;
    }

    /// Counts a message that the server handles.
    pub(super) fn operation(&mut self, time: u64) {
        self.operations += self.measured(time);
        if self.measured(time) > 0 {
            self.others.operation(time);
        }
    }

    /// Counts a request that goes ahead at `time`.
    pub(super) fn admits(&mut self, time: u64, request: &Request) {
        let Request { node, since, size } = *request;
        self.most = self.most.max(self.admitted.sum_at(time) + size);
        self.admitted.add(time, size);
        self.most_any = self.most_any.max(self.admitted_any.sum_at(time) + size);
        self.admitted_any.add(time, size);
        self.admitted_measured += self.measured(time) * size;
        self.admitted_requests += self.measured(time);
        self.admitted_locally += self.measured(time) * u64::from(time == since);
        self.by_node[node][1] += self.measured(since) * size;
        self.large[1] += self.measured(since) * u64::from(size >= self.large_from);
        self.decides(time, request);
    }

    /// Counts a request that is refused at `time`.
    pub(super) fn refuses(&mut self, time: u64, request: &Request) {
        self.decides(time, request);
    }

    /// Counts a request that is lost.
    pub(super) fn loses(&mut self, request: &Request) {
        self.lost += self.measured(request.since);
    }

    fn decides(&mut self, time: u64, request: &Request) {
        if self.measured(request.since) > 0 {
            self.waits.push(time - request.since);
            self.large[0] += u64::from(request.size >= self.large_from);
        }
    }

    fn measured(&self, time: u64) -> u64 {
        u64::from(time >= self.start)
    }

    /// Returns the results of a run that ended at `end`, with these requests that wait: each
    /// counts as a decision that took until the end.
    ///
    /// # Panics
    ///
    /// Panics if a request was neither decided, nor lost, nor waits.
    pub(super) fn observed(mut self, end: u64, waiting: &[Request]) -> Observed {
        for request in waiting {
            self.decides(end, request);
        }
        assert_eq!(self.waits.len() as u64 + self.lost, self.arrived, "each request counts once");
        self.waits.sort_unstable();
        let decided = float(self.waits.len() as u64);
        let local = float(self.waits.partition_point(|it| *it == 0) as u64);
        let rank = (self.waits.len() * 99).div_ceil(100);
        let p99 = rank.checked_sub(1).map_or(0, |index| self.waits[index]);
        let (admitted, operations) = (float(self.admitted_measured), float(self.operations));
        let requests = float(self.admitted_requests);
        let mut usable = float(self.central_measured);
        if self.has_workers {
            usable = float(self.limit * self.secs) * 1e6 / float(self.interval);
            let mean = self.by_node.iter().map(|it| it[1]).sum::<u64>() / self.by_node.len() as u64;
            self.by_node.iter_mut().for_each(|it| it[0] = mean);
        }
        let beyond = |most: u64| float(most.saturating_sub(self.limit)) / float(self.limit);
        Observed {
            overshoot: beyond(self.most),
            in_any_interval: beyond(self.most_any),
            utilisation: admitted / usable,
            operations: operations / float(self.secs),
            operations_per_admitted: operations / requests,
            others_wait_micros: float(self.others.quantile()),
            local: local / decided,
            admitted_locally: float(self.admitted_locally) / requests,
            mean_millis: float(self.waits.iter().sum()) / decided / 1e3,
            p99_millis: float(p99) / 1e3,
            lost: float(self.lost) / float(self.arrived),
            large_admitted: share(self.large[1], self.large[0]),
            fairness: shares(&self.by_node).fold(1.0, f64::min),
            most_share: shares(&self.by_node).fold(1.0, f64::max),
        }
    }
}

/// The time for which the server is busy with the messages that it has.
#[derive(Debug, Default)]
struct Others {
    /// The time of the last message, and how long the server was busy from then on.
    last: u64,
    busy: u64,
    /// At index i, for how many microseconds the server had i microseconds of work left.
    micros: Vec<u64>,
}

impl Others {
    /// The microseconds that the server takes for an ask. The script takes 37 of them on a Zen 5.
    const ASK: u64 = 40;

    /// Notes a message. Times do not go back.
    fn operation(&mut self, time: u64) {
        let passed = if self.last == 0 { 0 } else { time - self.last };
        let busy = self.busy.min(passed);
        let index = |micros| usize::try_from(micros).expect("some seconds");
        let (first, last) = (index(self.busy - busy) + 1, index(self.busy));
        if self.micros.len() <= last {
            self.micros.resize(last + 1, 0);
        }
        self.micros[0] += passed - busy;
        self.micros[first..=last].iter_mut().for_each(|it| *it += 1);
        (self.last, self.busy) = (time, self.busy - busy + Self::ASK);
    }

    /// Returns the quantile 0.99 over the time.
    fn quantile(&self) -> u64 {
        let all: u64 = self.micros.iter().sum();
        let mut rest = all - all / 100;
        let at = self.micros.iter().position(|it| {
            let is_here = rest <= *it;
            rest = rest.saturating_sub(*it);
            is_here
        });
        at.unwrap_or_default() as u64
    }
}

/// The permits of the interval that ends now, or of the window of buckets.
#[derive(Debug)]
struct Recent {
    interval: u64,
    /// Times count from the start of such a bucket. A microsecond, for any interval.
    bucket: u64,
    taken: VecDeque<(u64, u64)>,
    sum: u64,
}

impl Recent {
    fn new(config: &LeaseConfig, is_any: bool) -> Self {
        let bucket = if is_any { 1 } else { config.bucket_micros() };
        Self { interval: micros(config.interval()), bucket, taken: VecDeque::new(), sum: 0 }
    }

    /// Returns the permits of the interval that ends with `time`. Times do not go back.
    fn sum_at(&mut self, time: u64) -> u64 {
        while let Some(&(first, count)) = self.taken.front()
            && first + self.interval <= time
        {
            self.sum -= count;
            self.taken.pop_front();
        }
        self.sum
    }

    fn add(&mut self, time: u64, count: u64) {
        self.taken.push_back((time - time % self.bucket, count));
        self.sum += count;
    }
}

impl Observed {
    /// Returns the worse of two results in each respect.
    #[must_use]
    pub const fn worse(self, other: Self) -> Self {
        Self {
            overshoot: self.overshoot.max(other.overshoot),
            in_any_interval: self.in_any_interval.max(other.in_any_interval),
            utilisation: self.utilisation.min(other.utilisation),
            operations: self.operations.max(other.operations),
            operations_per_admitted: self
                .operations_per_admitted
                .max(other.operations_per_admitted),
            others_wait_micros: self.others_wait_micros.max(other.others_wait_micros),
            local: self.local.min(other.local),
            admitted_locally: self.admitted_locally.min(other.admitted_locally),
            mean_millis: self.mean_millis.max(other.mean_millis),
            p99_millis: self.p99_millis.max(other.p99_millis),
            lost: self.lost.max(other.lost),
            large_admitted: self.large_admitted.min(other.large_admitted),
            fairness: self.fairness.min(other.fairness),
            most_share: self.most_share.max(other.most_share),
        }
    }
}

/// Returns a part of a whole, 1 if there is nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { float(part) / float(whole) }
}

/// Returns for each node the share of the wanted permits that it got, divided by the share that
/// all nodes got together.
fn shares(nodes: &[[u64; 2]]) -> impl Iterator<Item = f64> {
    let sum = |at: usize| nodes.iter().map(|it| it[at]).sum();
    let all = share(sum(1), sum(0));
    let nodes = nodes.iter().filter(|it| it[0] >= 100);
    nodes.map(move |[wanted, got]| share(*got, *wanted) / all)
}
