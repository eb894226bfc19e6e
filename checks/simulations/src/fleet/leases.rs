//! Leases, by the protocol of `leaparray-redis`: its nodes and its ledger are simulated as they
//! are.

use std::collections::VecDeque;

use leaparray_redis::lease::{Answer, Ask, Decided, Ledger, Node};

use super::clock::Clock;
use super::run::Fleet;
use super::server::{FailOver, Server};
use super::{Request, Waits, micros, world};

type World = world::World<Event>;

#[derive(Debug)]
pub(super) struct Leases {
    members: Vec<Member>,
    server: Server<Ledger>,
    /// The last name of an incarnation of a node.
    names: u64,
    /// The number of asks of all nodes.
    asks: u64,
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
    starts: Option<u64>,
    /// The requests that wait, and for how many answers they have.
    waiting: VecDeque<(Request, u32)>,
}

/// With the index of a node, and mostly the name of its incarnation.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Poll(usize),
    Ask(usize, Ask),
    Answer(usize, u64, Answer),
    GiveUp(usize, u64, u64),
    /// Permits that were granted ahead may be used.
    Start(usize),
    /// A request has waited for long enough.
    Over(usize),
}

impl Leases {
    pub(super) fn new(world: &mut World) -> Self {
        let server = Server::new(Ledger::new(*world.config()));
        let mut fleet = Self { members: Vec::new(), server, names: 0, asks: 0 };
        for index in 0..world.scenario.nodes {
            // Clones of one image: each second one has the number of the one before.
            if world.scenario.faults.twins && index % 2 == 1 {
                fleet.names -= 1;
            }
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
            starts: None,
            waiting: VecDeque::new(),
        }
    }

    /// Decides on the requests that wait, as far as the permits in hand last. If the server has
    /// told the node to ask later, or after their time, it refuses the rest.
    fn retry(&mut self, world: &mut World, index: usize, is_answer: bool) {
        let member = &mut self.members[index];
        let now = member.clock.read(world.time);
        let window = micros(world.config().bucket_len() * world.config().buckets());
        let is_patient = world.scenario.waits == Waits::Window;
        if !is_answer && !member.waiting.is_empty() {
            // Tells the node the time, once for all that wait.
            member.node.settle(now, &Decided::default());
        }
        let mut in_hand = member.node.holdings().in_hand(now);
        member.waiting.retain_mut(|(request, answers)| {
            *answers += u32::from(is_answer);
            let is_admitted = if is_answer {
                member.node.retry(now, request.size)
            } else {
                let is_in_hand = in_hand >= request.size;
                if is_in_hand {
                    let used = request.size;
                    member.node.settle(now, &Decided { used, ..Decided::default() });
                    in_hand -= used;
                }
                is_in_hand
            };
            let is_short = member.node.is_short(now);
            let is_over = if is_patient {
                world.time >= request.since + window
            } else {
                is_short || *answers == 2
            };
            let is_decided = is_admitted || is_over;
            if is_decided {
                world.decide(request, is_admitted);
            } else if is_answer && is_short {
                // A request that waits longer is noted although the node is short.
                member.node.wait(request.size);
            }
            !is_decided
        });
    }

    /// Sends the ask that is due, or plans the next poll.
    fn poll(&mut self, world: &mut World, index: usize) {
        let member = &mut self.members[index];
        let now = member.clock.read(world.time);
        if world.scenario.waits == Waits::Window {
            member.node.set_waiting(member.waiting.iter().map(|it| it.0.size).sum());
        }
        if let Some(start) = member.node.holdings().next_start(now) {
            let at = member.clock.time_of(start).max(world.time + 1);
            if member.starts.is_none_or(|starts| at < starts) {
                member.starts = Some(at);
                world.at(at, Event::Start(index));
            }
        }
        if let Some(ask) = member.node.poll(now) {
            member.asked += 1;
            self.asks += 1;
            let ask = Ask { nonce: self.asks, ..ask };
            world.at(
                world.time + world.network.time_out,
                Event::GiveUp(index, member.name, member.asked),
            );
            world.send(index, &Event::Ask(index, ask));
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

    fn arrive(&mut self, world: &mut World, request: Request) {
        let Request { node: index, size, .. } = request;
        let Member { node, clock, waiting, .. } = &mut self.members[index];
        let now = clock.read(world.time);
        let (waits, is_short) = (world.scenario.waits, node.is_short(now));
        if waits == Waits::Not {
            let is_admitted = node.holdings().in_hand(now) >= size;
            let used = if is_admitted { size } else { 0 };
            let missing = if is_admitted || is_short { 0 } else { size };
            let at_once = if is_admitted || !is_short { size } else { 0 };
            let decided = Decided { used, demanded: size, missing, largest: size, at_once };
            node.settle(now, &decided);
            world.decide(&request, is_admitted);
        } else if node.take(now, size) {
            world.decide(&request, true);
        } else if waits == Waits::Window {
            if is_short {
                node.wait(size);
            }
            waiting.push_back((request, 0));
            let window = micros(world.config().bucket_len() * world.config().buckets());
            world.at(world.time + window, Event::Over(index));
        } else if is_short {
            world.decide(&request, false);
        } else {
            waiting.push_back((request, 0));
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
            Event::Start(index) => {
                let member = &mut self.members[index];
                member.starts = member.starts.filter(|it| *it > world.time);
                self.retry(world, index, false);
                index
            }
            Event::Ask(index, ask) => {
                world.operation();
                let Server { state, identity, .. } = &mut self.server;
                let answer = state.lease(world.server_time(), *identity, &ask);
                return world.send(index, &Event::Answer(index, ask.node, answer));
            }
            Event::Answer(index, name, answer) => {
                let member = &mut self.members[index];
                let now = member.clock.read(world.time);
                if member.name != name || !member.node.on_answer(now, &answer) {
                    return;
                }
                if answer.is_taken {
                    self.names += 1;
                    member.name = self.names;
                    member.node.rename(self.names);
                }
                self.retry(world, index, true);
                index
            }
            Event::Over(index) => {
                self.retry(world, index, false);
                index
            }
            Event::GiveUp(index, name, asked) => {
                let member = &mut self.members[index];
                let is_in_flight = member.node.holdings().sent().is_some();
                if member.name != name || member.asked != asked || !is_in_flight {
                    return;
                }
                member.node.on_lost(member.clock.read(world.time));
                self.retry(world, index, true);
                index
            }
        };
        self.poll(world, index);
    }

    fn crash(&mut self, world: &mut World, index: usize) -> Vec<Request> {
        let member = self.member(world);
        let waiting = std::mem::replace(&mut self.members[index], member).waiting;
        waiting.into_iter().map(|it| it.0).collect()
    }

    fn server(&mut self) -> Option<&mut dyn FailOver> {
        Some(&mut self.server)
    }

    fn waiting(&self) -> Vec<Request> {
        self.members.iter().flat_map(|it| &it.waiting).map(|it| it.0).collect()
    }
}
