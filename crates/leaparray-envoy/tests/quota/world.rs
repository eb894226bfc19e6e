//! Clients, the server, and an audit.

use std::time::Duration;

use leaparray::Timestamp;
use leaparray_envoy::quota::{Action, BucketId, BucketLimit, QuotaConfig, Quotas, Usage};

use crate::client::{Client, Load};

pub(crate) const STEP: Duration = Duration::from_millis(10);
const REPORTS: u64 = 50;
const TICK: u64 = 25;

pub(crate) struct World {
    pub(crate) quotas: Quotas,
    pub(crate) clients: Vec<Client>,
    pub(crate) now: Timestamp,
    /// The requests that were admitted in each step.
    pub(crate) admitted: Vec<u64>,
    pub(crate) limit: u32,
    pub(crate) window: Duration,
    steps: u64,
}

impl World {
    pub(crate) fn new(config: QuotaConfig, limit: u32, window: u64) -> Self {
        Self {
            quotas: Quotas::new(config),
            clients: Vec::new(),
            now: Timestamp::from_secs(1_000),
            admitted: Vec::new(),
            limit,
            window: Duration::from_secs(window),
            steps: 0,
        }
    }

    pub(crate) fn add(&mut self, load: Load) -> usize {
        let stream = self.quotas.open().unwrap();
        self.clients.push(Client::new(stream, load));
        self.clients.len() - 1
    }

    /// Takes a step. `delay` returns how long a message takes; `None` if it is lost.
    pub(crate) fn step(&mut self, delay: &mut dyn FnMut() -> Option<Duration>) {
        let mut sum = 0;
        for client in &mut self.clients {
            sum += client.step(self.now, self.steps);
        }
        self.admitted.push(sum);
        for index in 0..self.clients.len() {
            if (self.steps + index as u64).is_multiple_of(REPORTS) {
                self.report(index, delay);
            }
        }
        if self.steps.is_multiple_of(TICK) {
            let actions = self.quotas.tick(self.now);
            self.send(actions, delay);
        }
        assert!(self.quotas.charged("shop", &bucket()) <= self.limit.into());
        self.now = self.now.saturating_add(STEP);
        self.steps += 1;
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now.saturating_add(time);
        while self.now < end {
            self.step(&mut || Some(Duration::from_millis(5)));
        }
    }

    fn report(&mut self, index: usize, delay: &mut dyn FnMut() -> Option<Duration>) {
        let client = &mut self.clients[index];
        let Some(stream) = client.stream.filter(|_| client.reports) else { return };
        let (allowed, denied) =
            (std::mem::take(&mut client.allowed), std::mem::take(&mut client.denied));
        let usage = Usage { bucket: bucket(), allowed, denied };
        let limit = BucketLimit::Requests { requests: self.limit, window: self.window };
        let actions = self.quotas.report(stream, "shop", [usage], self.now, &|_, _| limit);
        self.send(actions.unwrap(), delay);
    }

    fn send(
        &mut self,
        actions: Vec<(leaparray_envoy::quota::StreamId, Action)>,
        delay: &mut dyn FnMut() -> Option<Duration>,
    ) {
        for (stream, action) in actions {
            let Some(client) = self.clients.iter_mut().find(|it| it.stream == Some(stream)) else {
                continue;
            };
            let Action::Assign { strategy, ttl, .. } = action else { continue };
            match delay() {
                Some(delay) if !client.is_broken => {
                    let arrival = self.now.saturating_add(delay).max(client.last_arrival);
                    client.last_arrival = arrival;
                    client.on_way.push((arrival, strategy, ttl));
                }
                _ => client.is_broken = true,
            }
        }
    }

    /// The most requests that were admitted in an interval.
    pub(crate) fn most(&self) -> u64 {
        let steps = usize::try_from(self.window.as_nanos() / STEP.as_nanos()).unwrap();
        most(&self.admitted, steps)
    }

    /// The requests that were admitted in the last `time`.
    pub(crate) fn last(&self, time: Duration) -> u64 {
        let steps = usize::try_from(time.as_nanos() / STEP.as_nanos()).unwrap();
        self.admitted[self.admitted.len() - steps..].iter().sum()
    }
}

/// The most requests that were admitted in `steps` steps, one after another.
pub(crate) fn most(admitted: &[u64], steps: usize) -> u64 {
    let mut sum = 0;
    let mut most = 0;
    for (index, &count) in admitted.iter().enumerate() {
        sum += count;
        if index >= steps {
            sum -= admitted[index - steps];
        }
        most = most.max(sum);
    }
    most
}

pub(crate) fn bucket() -> BucketId {
    BucketId::new([("path", "/orders")])
}
