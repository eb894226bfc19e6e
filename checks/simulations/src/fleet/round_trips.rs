//! A round trip to the server for each request.

use std::collections::BTreeMap;

use super::Request;
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
    /// The requests that wait, by their numbers.
    waiting: BTreeMap<u64, Request>,
    requests: u64,
}

/// With the number of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Ask(u64, Request),
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

    fn arrive(&mut self, world: &mut World, request: Request) {
        self.requests += 1;
        self.waiting.insert(self.requests, request);
        world.at(world.time + world.network.time_out, Event::GiveUp(self.requests));
        world.send(request.node, &Event::Ask(self.requests, request));
    }

    fn handle(&mut self, world: &mut World, event: Event) {
        let (number, is_admitted) = match event {
            Event::Ask(number, Request { node, size, .. }) => {
                world.operation();
                let bucket = world.bucket();
                let used = self.server.state.sum_at(bucket);
                let is_free = used + size <= world.config().limit();
                if is_free {
                    self.server.state.add(bucket, size);
                }
                return world.send(node, &Event::Answer(number, is_free));
            }
            Event::Answer(number, is_admitted) => (number, is_admitted),
            Event::GiveUp(number) => (number, false),
        };
        if let Some(request) = self.waiting.remove(&number) {
            world.decide(&request, is_admitted);
        }
    }

    fn crash(&mut self, _world: &mut World, index: usize) -> Vec<Request> {
        let lost = self.waiting.values().filter(|it| it.node == index).copied().collect();
        self.waiting.retain(|_, it| it.node != index);
        lost
    }

    fn server(&mut self) -> Option<&mut dyn FailOver> {
        Some(&mut self.server)
    }

    fn waiting(&self) -> Vec<Request> {
        self.waiting.values().copied().collect()
    }
}
