//! Leases, by the protocol of `leaparray-redis`: its nodes and its ledger are simulated as they
//! are.

use std::collections::VecDeque;

use leaparray_redis::lease::{Answer, Ask, Ledger, Node};

use super::clock::Clock;
use super::network::TIME_OUT;
use super::run::Fleet;
use super::server::{FailOver, Server};
use super::world;

type World = world::World<Event>;

#[derive(Debug)]
pub(super) struct Leases {
    members: Vec<Member>,
    server: Server<Ledger>,
    /// The last name of an incarnation of a node.
    names: u64,
}

#[derive(Debug)]
struct Member {
    node: Node,
    name: u64,
    clock: Clock,
    /// The number of asks that were sent.
    asked: u64,
    /// The time of the earliest poll that is planned.
    wakes: Option<u64>,
    /// When the requests arrived that wait.
    waiting: VecDeque<u64>,
}

/// With the index of a node, and mostly the name of its incarnation.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Poll(usize),
    Ask(usize, Ask),
    Answer(usize, u64, Answer),
    GiveUp(usize, u64, u64),
}

impl Leases {
    pub(super) fn new(world: &mut World) -> Self {
        let server = Server::new(Ledger::new(*world.config()));
        let mut fleet = Self { members: Vec::new(), server, names: 0 };
        for _ in 0..world.scenario.nodes {
            let member = fleet.member(world);
            fleet.members.push(member);
        }
        fleet
    }

    fn member(&mut self, world: &mut World) -> Member {
        self.names += 1;
        Member {
            node: Node::new(*world.config(), self.names),
            name: self.names,
            clock: world.clock(),
            asked: 0,
            wakes: None,
            waiting: VecDeque::new(),
        }
    }

    /// Decides on the requests that wait, as far as the permits in hand last. If the server has
    /// told the node to ask later, it refuses the rest.
    fn retry(&mut self, world: &mut World, index: usize) {
        let member = &mut self.members[index];
        let now = member.clock.read(world.time);
        member.waiting.retain(|since| {
            let is_admitted = member.node.retry(now, 1);
            let is_decided = is_admitted || member.node.is_short(now);
            if is_decided {
                world.decide(*since, is_admitted);
            }
            !is_decided
        });
    }

    /// Sends the ask that is due, or plans the next poll.
    fn poll(&mut self, world: &mut World, index: usize) {
        let member = &mut self.members[index];
        let now = member.clock.read(world.time);
        if let Some(ask) = member.node.poll(now) {
            member.asked += 1;
            world.at(world.time + TIME_OUT, Event::GiveUp(index, member.name, member.asked));
            world.send(&Event::Ask(index, ask));
        } else if let Some(at) = member.node.next_poll(now) {
            let at = member.clock.time_of(at).max(world.time + 1);
            if member.wakes.is_none_or(|wakes| at < wakes) {
                member.wakes = Some(at);
                world.at(at, Event::Poll(index));
            }
        }
    }
}

impl Fleet for Leases {
    type Event = Event;

    fn arrive(&mut self, world: &mut World, index: usize) {
        let member = &mut self.members[index];
        let now = member.clock.read(world.time);
        if member.node.take(now, 1) {
            world.decide(world.time, true);
        } else if member.node.is_short(now) {
            world.decide(world.time, false);
        } else {
            member.waiting.push_back(world.time);
        }
        self.poll(world, index);
    }

    fn handle(&mut self, world: &mut World, event: Event) {
        let index = match event {
            Event::Poll(index) => {
                let member = &mut self.members[index];
                member.wakes = member.wakes.filter(|it| *it > world.time);
                index
            }
            Event::Ask(index, ask) => {
                world.operation();
                let Server { state, identity, .. } = &mut self.server;
                let answer = state.lease(world.time, *identity, &ask);
                return world.send(&Event::Answer(index, ask.node, answer));
            }
            Event::Answer(index, name, answer) => {
                let member = &mut self.members[index];
                let now = member.clock.read(world.time);
                if member.name != name || !member.node.on_answer(now, &answer) {
                    return;
                }
                self.retry(world, index);
                index
            }
            Event::GiveUp(index, name, asked) => {
                let member = &mut self.members[index];
                let is_in_flight = member.node.holdings().sent().is_some();
                if member.name != name || member.asked != asked || !is_in_flight {
                    return;
                }
                member.node.on_lost(member.clock.read(world.time));
                self.retry(world, index);
                index
            }
        };
        self.poll(world, index);
    }

    fn crash(&mut self, world: &mut World, index: usize) -> Vec<u64> {
        let member = self.member(world);
        std::mem::replace(&mut self.members[index], member).waiting.into()
    }

    fn server(&mut self) -> Option<&mut dyn FailOver> {
        Some(&mut self.server)
    }

    fn waiting(&self) -> Vec<u64> {
        self.members.iter().flat_map(|it| &it.waiting).copied().collect()
    }
}
