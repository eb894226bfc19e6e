//! A round trip to the server for each request.

use std::collections::BTreeMap;

use super::network::TIME_OUT;
use super::run::Fleet;
use super::server::{FailOver, Server};
use super::window::Window;
use super::world;

type World = world::World<Event>;

/// The server counts in a sliding window. It knows nothing of repeated messages. A node refuses a
/// request without an answer in time.
#[derive(Debug)]
pub(super) struct RoundTrips {
    server: Server<Window>,
    /// By its number: the node of a request that waits, and when it arrived.
    waiting: BTreeMap<u64, (usize, u64)>,
    requests: u64,
}

/// With the number of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Ask(u64),
    Answer(u64, bool),
    GiveUp(u64),
}

impl RoundTrips {
    pub(super) fn new(world: &World) -> Self {
        let server = Server::new(Window::new(world.config().buckets()));
        Self { server, waiting: BTreeMap::new(), requests: 0 }
    }
}

impl Fleet for RoundTrips {
    type Event = Event;

    fn arrive(&mut self, world: &mut World, index: usize) {
        self.requests += 1;
        self.waiting.insert(self.requests, (index, world.time));
        world.at(world.time + TIME_OUT, Event::GiveUp(self.requests));
        world.send(&Event::Ask(self.requests));
    }

    fn handle(&mut self, world: &mut World, event: Event) {
        let (number, is_admitted) = match event {
            Event::Ask(number) => {
                world.operation();
                let bucket = world.bucket();
                let is_free = self.server.state.sum_at(bucket) < world.config().limit();
                if is_free {
                    self.server.state.add(bucket, 1);
                }
                return world.send(&Event::Answer(number, is_free));
            }
            Event::Answer(number, is_admitted) => (number, is_admitted),
            Event::GiveUp(number) => (number, false),
        };
        if let Some((_, since)) = self.waiting.remove(&number) {
            world.decide(since, is_admitted);
        }
    }

    fn crash(&mut self, _world: &mut World, index: usize) -> Vec<u64> {
        let lost = self.waiting.values().filter(|it| it.0 == index).map(|it| it.1).collect();
        self.waiting.retain(|_, it| it.0 != index);
        lost
    }

    fn server(&mut self) -> Option<&mut dyn FailOver> {
        Some(&mut self.server)
    }

    fn waiting(&self) -> Vec<u64> {
        self.waiting.values().map(|it| it.1).collect()
    }
}
