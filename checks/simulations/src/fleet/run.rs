//! The loop of a run.

use super::counts::Counts;
use super::leases::Leases;
use super::round_trips::RoundTrips;
use super::server::{FailOver, LAG};
use super::shares::Shares;
use super::world::{Event, World};
use super::{Failover, Observed, Request, Scenario, Strategy, demand, float, gap};

/// The nodes and the server of a strategy.
pub(super) trait Fleet {
    /// A message or an alarm.
    type Event;

    /// A request arrives at a node.
    fn arrive(&mut self, world: &mut World<Self::Event>, request: Request);

    fn handle(&mut self, world: &mut World<Self::Event>, event: Self::Event);

    /// A node crashes, and starts again at once. Returns the requests that waited on it.
    fn crash(&mut self, world: &mut World<Self::Event>, node: usize) -> Vec<Request>;

    /// Returns the server, if the strategy has one.
    fn server(&mut self) -> Option<&mut dyn FailOver> {
        None
    }

    /// Returns the requests that wait.
    fn waiting(&self) -> Vec<Request>;
}

/// Simulates a scenario with a strategy.
#[must_use]
pub fn simulate(strategy: Strategy, scenario: &Scenario, seed: u64) -> Observed {
    match strategy {
        Strategy::Leases => run(scenario, seed, Leases::new),
        Strategy::RoundTrips => run(scenario, seed, |world| RoundTrips::new(world)),
        Strategy::Shares => run(scenario, seed, |world| Shares::new(world)),
        Strategy::Counts { every } => run(scenario, seed, |world| Counts::new(world, every)),
    }
}

fn run<F: Fleet>(
    scenario: &Scenario,
    seed: u64,
    new: impl FnOnce(&mut World<F::Event>) -> F,
) -> Observed {
    let mut world = World::new(scenario, seed);
    let mut fleet = new(&mut world);
    if scenario.workers == 0 {
        let first = world.demand.gap();
        world.queue.add(first, Event::Arrival);
    }
    for node in (0..scenario.nodes).flat_map(|it| std::iter::repeat_n(it, scenario.workers)) {
        world.queue.add(0, Event::Work(node));
    }
    world.queue.add(0, Event::Deal);
    if world.scenario.faults.crashes > 0.0 {
        world.queue.add(0, Event::Crash);
    }
    let between = world.scenario.faults.failover_secs * 1_000_000;
    if world.scenario.faults.failovers != Failover::Never {
        world.queue.add(world.start + between - LAG, Event::Replicate);
    }
    let mut failovers = 0;
    while let Some((time, event)) = world.queue.next()
        && time < world.end
    {
        world.time = time;
        match event {
            Event::Arrival => {
                let (node, size) = (world.demand.node(), world.demand.size());
                let request = Request { node, since: time, size };
                world.observer.arrives(&request);
                fleet.arrive(&mut world, request);
                let next = time + world.demand.gap();
                world.queue.add(next, Event::Arrival);
            }
            Event::Work(node) => {
                let request = Request { node, since: time, size: world.demand.size() };
                world.observer.arrives(&request);
                fleet.arrive(&mut world, request);
            }
            Event::Deal => {
                world.demand.deal();
                world.network.deal();
                world.queue.add(time + demand::DEAL_EVERY, Event::Deal);
            }
            Event::Crash => {
                let nodes = world.scenario.nodes as u64;
                let node = usize::try_from(world.crashes.u64(..nodes)).unwrap_or_default();
                for request in fleet.crash(&mut world, node) {
                    world.observer.loses(&request);
                    world.work(request.node);
                }
                let per_second = world.scenario.faults.crashes * float(nodes);
                let next = time + gap(&mut world.crashes, per_second);
                world.queue.add(next, Event::Crash);
            }
            Event::Replicate => {
                if let Some(server) = fleet.server() {
                    server.replicate();
                }
                world.queue.add(time + LAG, Event::FailOver);
            }
            Event::FailOver => {
                failovers += 1;
                let faults = &world.scenario.faults;
                let is_promotion = match faults.failovers {
                    Failover::Promotion => true,
                    Failover::InTurn => failovers % 2 == 0,
                    _ => false,
                };
                match fleet.server() {
                    Some(server) if is_promotion => server.promote(faults.keeps_identity),
                    Some(server) => server.restart(),
                    None => {}
                }
                world.queue.add(time + between - LAG, Event::Replicate);
            }
            Event::Of(event) => fleet.handle(&mut world, event),
        }
    }
    world.observer.observed(world.end, &fleet.waiting())
}
