//! The hub without its task, for benchmarks and tests that set the time. No part of the interface.

#![expect(missing_docs, missing_debug_implementations, reason = "no part of the interface")]

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use leaparray::MetricEvent::{Exception, Pass, Rt, Success};
use leaparray::{Clock, Registry, Timestamp};

use super::Hub;
use super::frame::Encoding;
use super::identity::Identity;
use super::judge::Judge;
use super::nodes::{Changes, Label, Nodes};
use super::readings::{Reading, Readings};
use super::viewer::{Target, Viewer, Wish};
use super::viewers::{Joined, Viewers};
use super::watch::Watch;
use crate::format::{Controller, ControllerState, Counts, Direction, Level, Row};
use crate::source::FleetSource;

/// A hub whose readings are called one by one.
pub struct Steps<C> {
    hub: Hub<C>,
    readings: Readings,
}

/// The results of a reading.
pub struct Found(Reading);

/// A viewer that takes its messages when asked.
pub struct SteppedViewer {
    viewer: Arc<Viewer>,
    viewers: Arc<Viewers>,
}

/// The rule and its alerts, without a registry: resources with a circuit breaker each.
pub struct Judging {
    nodes: Nodes,
    judge: Judge,
    watch: Watch,
    controllers: Vec<Controller>,
    rows: Vec<Row>,
    t: u64,
}

impl Judging {
    /// Each tenth resource fails.
    #[must_use]
    pub fn new(resources: usize) -> Self {
        let mut nodes = Nodes::default();
        let (mut controllers, mut rows) = (Vec::new(), Vec::new());
        for index in 0..resources {
            let name = format!("GET /orders/{index}");
            let label = Label { name: &name, context: None, direction: Direction::In };
            let position = nodes.named(label, &mut Changes::default());
            let failed = if index % 10 == 0 { 9 } else { 0 };
            let events = [(Pass, 15), (Success, 15 - failed), (Exception, failed), (Rt, 15)];
            let counts =
                Counts { events: events.into(), p99: Some(2_000_000), ..Counts::default() };
            rows.push(Row { id: nodes.at(position).id, counts });
            let state = ControllerState::Unknown;
            controllers.push(Controller {
                resource: name,
                name: None,
                state,
                level: Level::Quiet,
                shadow: None,
            });
        }
        let (judge, watch) = (Judge::default(), Watch::new(0));
        Self { nodes, judge, watch, controllers, rows, t: 1_000 }
    }

    /// Judges the next second, with the circuit breakers in this state. Returns the number of
    /// changes.
    pub fn second(&mut self, breakers: &str) -> usize {
        self.t += 1;
        for it in &mut self.controllers {
            let (probe_in, cause) = (None, None);
            it.state = ControllerState::Circuit { state: breakers.to_owned(), probe_in, cause };
        }
        self.judge.read_breakers(&mut self.controllers);
        let verdicts = self.judge.second(&self.nodes, self.t, &self.rows, &[]);
        let mut changes = Vec::new();
        let breakers = (self.judge.breakers(), true);
        self.watch.second(self.t, &self.nodes, &verdicts, breakers, &mut changes);
        changes.len()
    }
}

impl<C: Clock + Clone + Send + Sync + 'static> Steps<C> {
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        Self::with_delay(registry, Duration::ZERO)
    }

    /// Reads a second `delay` after its end.
    pub(crate) fn with_delay(registry: Arc<Registry<C>>, delay: Duration) -> Self {
        Self::with_fleet(registry, delay, FleetSource::default())
    }

    pub(crate) fn with_fleet(
        registry: Arc<Registry<C>>,
        delay: Duration,
        fleet: FleetSource,
    ) -> Self {
        let identity = Identity::new(registry.clock().now());
        let viewers = Arc::new(Viewers::new(identity.started.as_secs()));
        let life = Duration::from_secs(300);
        let hub = Hub::new(registry, identity, fleet, viewers, 64, life);
        let readings = Readings::new(&hub, delay);
        Self { hub, readings }
    }

    /// Reads the registry.
    pub fn read(&mut self, now: Timestamp) -> Found {
        Found(self.readings.read(&self.hub, now))
    }

    /// Serializes a reading, and sends it. Returns the number of bytes of its seconds.
    pub fn send(&mut self, Found(reading): Found) -> usize {
        let update = self.readings.serialize(&self.hub.identity, reading);
        let length = update.seconds.iter().map(|(_, frame)| frame.len()).sum();
        let now = update.now;
        self.hub.viewers.publish(update);
        self.hub.welcome(&self.readings, now);
        length
    }

    /// Reads the registry, and sends the seconds and the details.
    pub fn step(&mut self, now: Timestamp) {
        self.hub.step(&mut self.readings, now);
    }

    /// Sends the history and details to the viewers that have none.
    #[cfg(test)]
    pub(crate) fn welcome(&self) {
        let now = self.hub.registry.clock().now();
        self.hub.welcome(&self.readings, now);
        self.hub.send_details(&self.readings, now, false);
    }

    /// Returns the viewers.
    #[cfg(test)]
    pub(crate) fn shared_viewers(&self) -> Arc<Viewers> {
        Arc::clone(&self.hub.viewers)
    }

    /// Returns the number of viewers.
    #[must_use]
    pub fn viewers(&self) -> usize {
        self.hub.viewers.len()
    }

    /// Ends all streams.
    pub fn close(&self) {
        self.hub.viewers.close();
    }

    /// Adds a viewer; `None` if there are too many.
    pub fn join(&self, resource: Option<&str>, since: Option<u64>) -> Option<SteppedViewer> {
        self.join_as(resource, since, false)
    }

    /// Adds a viewer of the totals and the changes; `None` if there are too many.
    pub fn join_light(&self, since: Option<u64>) -> Option<SteppedViewer> {
        self.join_as(None, since, true)
    }

    fn join_as(
        &self,
        resource: Option<&str>,
        since: Option<u64>,
        is_light: bool,
    ) -> Option<SteppedViewer> {
        let target = resource.map(|it| Target { resource: it.into(), context: None });
        let now = self.hub.registry.clock().now();
        let hello = self.hub.hello(now);
        let wish = Wish { encoding: Encoding::Lines, since, target, is_light };
        let joined = self.hub.viewers.join(wish, now, &hello, self.hub.max_viewers).ok()?;
        let (Joined::First(viewer) | Joined::Later(viewer)) = joined;
        Some(SteppedViewer { viewer, viewers: Arc::clone(&self.hub.viewers) })
    }
}

impl SteppedViewer {
    /// Returns the next message; `Err` with the last one; `None` if there is none yet.
    #[must_use]
    pub fn take(&self) -> Option<Result<Bytes, Bytes>> {
        match self.viewer.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(message) => Some(message),
            Poll::Pending => None,
        }
    }
}

impl Drop for SteppedViewer {
    fn drop(&mut self) {
        self.viewers.leave(&self.viewer);
    }
}
