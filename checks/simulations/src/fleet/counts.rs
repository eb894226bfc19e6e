//! Counting in all nodes, and exchanging the counts in intervals.

use std::collections::BTreeMap;

use super::Request;
use super::run::Fleet;
use super::server::{FailOver, Server};
use super::window::Window;
use super::world;

type World = world::World<Event>;

/// Each node counts in buckets of the server's time: its clock has no error. It sends the counts of
/// its window, not what has changed, so that messages that are lost, repeated or overtaken do no
/// harm. It gets the counts of all other nodes by bucket, so that it knows what leaves the window.
#[derive(Debug)]
pub(super) struct Counts {
    every: u64,
    members: Vec<Member>,
    server: Server<Global>,
    names: u64,
}

#[derive(Debug)]
struct Member {
    name: u64,
    own: Window,
    others: Window,
}

#[derive(Clone, Debug)]
struct Global {
    all: Window,
    /// By the name of an incarnation of a node.
    of: BTreeMap<u64, Window>,
}

/// With the index of a node, and the name of its incarnation.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Send(usize),
    Report(usize, u64, Window),
    Answer(usize, u64, Window),
}

impl Counts {
    pub(super) fn new(world: &mut World, every_millis: u64) -> Self {
        let every = every_millis * 1_000;
        let blank = Global { all: Self::window(world), of: BTreeMap::new() };
        let mut fleet = Self { every, members: Vec::new(), server: Server::new(blank), names: 0 };
        for index in 0..world.scenario.nodes {
            let member = fleet.member(world);
            fleet.members.push(member);
            let phase = world.phase(every);
            world.at(phase, Event::Send(index));
        }
        fleet
    }

    fn member(&mut self, world: &World) -> Member {
        self.names += 1;
        Member { name: self.names, own: Self::window(world), others: Self::window(world) }
    }

    fn window(world: &World) -> Window {
        Window::new(world.config().buckets())
    }
}

impl Global {
    /// Takes the counts of a node. Returns those of all others.
    fn exchange(&mut self, name: u64, report: &Window, bucket: u64) -> Window {
        let known = self.of.entry(name).or_insert_with(|| report.blank());
        for (bucket, count) in report.buckets() {
            let more = count.saturating_sub(known.count(bucket));
            known.add(bucket, more);
            self.all.add(bucket, more);
        }
        self.all.sum_at(bucket);
        let mut others = report.blank();
        for (bucket, count) in self.all.buckets() {
            others.add(bucket, count - known.count(bucket));
        }
        others
    }
}

impl Fleet for Counts {
    type Event = Event;

    fn arrive(&mut self, world: &mut World, request: Request) {
        let bucket = world.bucket();
        let Member { own, others, .. } = &mut self.members[request.node];
        let used = own.sum_at(bucket) + others.sum_at(bucket);
        let is_free = used + request.size <= world.config().limit();
        if is_free {
            own.add(bucket, request.size);
        }
        world.decide(&request, is_free);
    }

    fn handle(&mut self, world: &mut World, event: Event) {
        match event {
            Event::Send(index) => {
                let member = &mut self.members[index];
                member.own.sum_at(world.bucket());
                world.send(index, &Event::Report(index, member.name, member.own.clone()));
                world.at(world.time + self.every, Event::Send(index));
            }
            Event::Report(index, name, report) => {
                world.operation();
                let others = self.server.state.exchange(name, &report, world.bucket());
                world.send(index, &Event::Answer(index, name, others));
            }
            Event::Answer(index, name, others) => {
                let member = &mut self.members[index];
                if member.name == name {
                    member.others = others;
                }
            }
        }
    }

    fn crash(&mut self, world: &mut World, index: usize) -> Vec<Request> {
        self.members[index] = self.member(world);
        Vec::new()
    }

    fn server(&mut self) -> Option<&mut dyn FailOver> {
        Some(&mut self.server)
    }

    fn waiting(&self) -> Vec<Request> {
        Vec::new()
    }
}
