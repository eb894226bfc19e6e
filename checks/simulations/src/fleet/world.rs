//! The state that all strategies share.

use fastrand::Rng;
use leaparray_redis::lease::LeaseConfig;

use super::clock::Clock;
use super::demand::Demand;
use super::network::Network;
use super::observed::Observer;
use super::{Request, Scenario, micros};
use crate::queue::Queue;

/// The time between two steps back of the server's clock, in microseconds.
const STEP_EVERY: u64 = 2_300_000;

/// The time, the events to come, the surroundings and the observer of a run.
#[derive(Debug)]
pub(super) struct World<E> {
    pub(super) scenario: Scenario,
    pub(super) time: u64,
    pub(super) queue: Queue<Event<E>>,
    pub(super) observer: Observer,
    pub(super) demand: Demand,
    pub(super) network: Network,
    /// Draws clocks, and phases of what repeats.
    nodes: Rng,
    /// Draws crashes.
    pub(super) crashes: Rng,
    /// The start and the end of the measured seconds.
    pub(super) start: u64,
    pub(super) end: u64,
}

/// An event of all strategies, or of one.
#[derive(Debug)]
pub(super) enum Event<E> {
    Arrival,
    /// A worker of a node makes a request.
    Work(usize),
    Deal,
    Crash,
    Replicate,
    FailOver,
    Of(E),
}

impl<E> World<E> {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let config = &scenario.config;
        let start = micros(config.quarantine() + config.bucket_len() * config.buckets());
        // A generator of its own for each purpose: so all strategies see the same requests.
        let mut seeds = Rng::with_seed(seed);
        let [demand, network, nodes, crashes, sizes] =
            [(); 5].map(|()| Rng::with_seed(seeds.u64(..)));
        Self {
            scenario: *scenario,
            time: 0,
            queue: Queue::new(),
            observer: Observer::new(scenario, start),
            demand: Demand::new(scenario, demand, sizes),
            network: Network::new(scenario, network),
            nodes,
            crashes,
            start,
            end: start + scenario.secs * 1_000_000,
        }
    }

    pub(super) const fn config(&self) -> &LeaseConfig {
        &self.scenario.config
    }

    /// Returns the bucket of the server's time.
    pub(super) const fn bucket(&self) -> u64 {
        self.time / self.config().bucket_micros()
    }

    /// Returns what the server's clock reads.
    pub(super) const fn server_time(&self) -> u64 {
        self.time - self.time / STEP_EVERY * self.scenario.faults.step_back
    }

    pub(super) fn clock(&mut self) -> Clock {
        Clock::draw(&mut self.nodes, self.scenario.faults.drift_ppm)
    }

    /// Draws the first time of what repeats after `every` microseconds.
    pub(super) fn phase(&mut self, every: u64) -> u64 {
        self.nodes.u64(..every)
    }

    /// Plans an event.
    pub(super) fn at(&mut self, time: u64, event: E) {
        self.queue.add(time, Event::Of(event));
    }

    /// Sends a message to or from a node. Each delivery is an event.
    pub(super) fn send(&mut self, node: usize, message: &E)
    where
        E: Clone,
    {
        for delay in self.network.deliveries(node) {
            self.queue.add(self.time + delay, Event::Of(message.clone()));
        }
    }

    /// Plans the next request of a worker whose request is decided or lost.
    pub(super) fn work(&mut self, node: usize) {
        if self.scenario.workers > 0 {
            self.queue.add(self.time + 1, Event::Work(node));
        }
    }

    pub(super) fn operation(&mut self) {
        self.observer.operation(self.time);
    }

    pub(super) fn decide(&mut self, request: &Request, is_admitted: bool) {
        if is_admitted {
            self.observer.admits(self.time, request);
        } else {
            self.observer.refuses(self.time, request);
        }
        self.work(request.node);
    }
}
