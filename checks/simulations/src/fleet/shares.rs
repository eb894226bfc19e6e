//! Static shares of the limit.

use super::Request;
use super::run::Fleet;
use super::window::Window;
use super::world;

type World = world::World<NoEvent>;

/// Each node has a sliding window of its own, whose buckets are those of the server's time: its
/// clock has no error.
#[derive(Debug)]
pub(super) struct Shares {
    members: Vec<Window>,
}

/// There is none.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoEvent {}

impl Shares {
    pub(super) fn new(world: &World) -> Self {
        let window = Window::new(world.config().buckets());
        Self { members: vec![window; world.scenario.nodes] }
    }
}

impl Fleet for Shares {
    type Event = NoEvent;

    fn arrive(&mut self, world: &mut World, request: Request) {
        let index = request.node;
        let (limit, nodes) = (world.config().limit(), self.members.len() as u64);
        let share = limit / nodes + u64::from((index as u64) < limit % nodes);
        let bucket = world.bucket();
        let is_free = self.members[index].sum_at(bucket) + request.size <= share;
        if is_free {
            self.members[index].add(bucket, request.size);
        }
        world.decide(&request, is_free);
    }

    fn handle(&mut self, _world: &mut World, event: NoEvent) {
        match event {}
    }

    fn crash(&mut self, world: &mut World, index: usize) -> Vec<Request> {
        self.members[index] = Window::new(world.config().buckets());
        Vec::new()
    }

    fn waiting(&self) -> Vec<Request> {
        Vec::new()
    }
}
