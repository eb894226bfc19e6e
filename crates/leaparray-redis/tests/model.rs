//! Explores all interleavings of two nodes and a server: messages that are lost, delayed, doubled and overtaken, nodes that
//! crash, a server that loses its state or goes back to an older one. In none of them, the uses of any two consecutive
//! buckets are more than the limit.
//!
//! ```sh
//! cargo test --release -p leaparray-redis --test model -- --nocapture
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray_redis::{Answer, Ask, LeaseConfig, Ledger, Node, NodeId, RunId};
use stateright::{Checker, Model, Property};

const BUCKETS: u64 = 2;
const VALIDITY: u32 = 1;
const BUCKET: Duration = Duration::from_millis(1);

/// The faults that may happen, and how often.
#[derive(Clone, Copy, Debug)]
struct Faults {
    limit: u64,
    /// Messages that arrive once more.
    doubled: u8,
    /// Nodes that start again.
    crashes: u8,
    /// Losses of the state of the server.
    losses: u8,
    /// Returns to an older state of the server.
    promotions: u8,
    /// The number of asks that each of the nodes sends.
    asks: [u8; 2],
    /// The number of permits that a node without any asks for.
    wants: u64,
    /// The number of buckets that are explored.
    buckets: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The bucket of the server's time. All is done in its middle.
    bucket: u64,
    server: Ledger,
    run: u8,
    /// An older state of the server.
    replica: Option<Ledger>,
    nodes: [Node; 2],
    /// The number of nodes that have started.
    started: u8,
    /// Whether a node waits for an answer.
    awaits: [bool; 2],
    sent: [u8; 2],
    asks: Vec<(usize, Duration, Ask)>,
    answers: Vec<(usize, Duration, Answer)>,
    /// The number of permits used in each bucket.
    used: BTreeMap<u64, u64>,
    /// How often each fault has happened.
    doubled: u8,
    crashes: u8,
    losses: u8,
    promotions: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The next bucket begins.
    Advance,
    /// A request takes a permit that a node holds.
    Take(usize),
    /// A node sends an ask, for a request or to give permits back.
    Send(usize),
    /// A node waits no longer for an answer.
    GiveUp(usize),
    /// An ask arrives, and another copy of it may.
    Ask { index: usize, again: bool },
    /// An answer arrives.
    Answer(usize),
    /// A node starts again.
    Crash(usize),
    /// The server starts again without its state.
    Lose,
    /// The replica has the state of the server.
    Copy,
    /// The server starts again with the state of the replica.
    Promote,
}

struct Fleet {
    config: LeaseConfig,
    faults: Faults,
}

fn time(bucket: u64) -> Duration {
    BUCKET * u32::try_from(bucket).unwrap() + BUCKET / 2
}

fn run(number: u8) -> RunId {
    RunId([number; 20])
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            limit: 2,
            doubled: 0,
            crashes: 0,
            losses: 0,
            promotions: 0,
            asks: [0; 2],
            wants: 1,
            buckets: 1,
        }
    }
}

impl Fleet {
    fn new(faults: Faults) -> Self {
        let window = BUCKET * u32::try_from(BUCKETS).unwrap();
        let config =
            LeaseConfig::new(faults.limit, u32::try_from(BUCKETS).unwrap(), window).unwrap();
        let config = config.with_validity(VALIDITY).unwrap().with_clock_error(0).unwrap();
        // A node keeps no permits in reserve: it gives back at each ask what it has not used.
        Self { config: config.with_ask_interval(Duration::ZERO), faults }
    }

    fn node(&self, number: u8) -> Node {
        Node::new(self.config, NodeId(number.into()))
    }

    fn first_bucket(&self) -> u64 {
        // After the quarantine of the first start.
        u64::try_from(self.config.quarantine().as_millis()).unwrap() + 1
    }
}

impl Model for Fleet {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut server = Ledger::new(self.config);
        let ask = Ask { node: NodeId(99), seq: 1, epoch: None, want: 0, moves: Vec::new() };
        server.lease(micros(0), run(0), &ask);
        vec![State {
            bucket: self.first_bucket(),
            server,
            run: 0,
            replica: None,
            nodes: [self.node(1), self.node(2)],
            started: 2,
            awaits: [false; 2],
            sent: [0; 2],
            asks: Vec::new(),
            answers: Vec::new(),
            used: BTreeMap::new(),
            doubled: 0,
            crashes: 0,
            losses: 0,
            promotions: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let now = time(state.bucket);
        actions.push(Action::Advance);
        for index in 0..2 {
            let node = &state.nodes[index];
            if node.held(now) > 0 {
                actions.push(Action::Take(index));
            }
            let on_their_way = state.asks.iter().filter(|it| it.0 == index).count();
            if state.sent[index] < self.faults.asks[index]
                && on_their_way < 1 + usize::from(self.faults.doubled)
                && wanted(node, now, self.faults.wants).is_some()
            {
                actions.push(Action::Send(index));
            }
            if state.awaits[index] {
                actions.push(Action::GiveUp(index));
            }
            if state.crashes < self.faults.crashes {
                actions.push(Action::Crash(index));
            }
        }
        for index in 0..state.asks.len() {
            actions.push(Action::Ask { index, again: false });
            if state.doubled < self.faults.doubled {
                actions.push(Action::Ask { index, again: true });
            }
        }
        actions.extend((0..state.answers.len()).map(Action::Answer));
        if state.losses < self.faults.losses {
            actions.push(Action::Lose);
        }
        if state.promotions < self.faults.promotions {
            actions.push(if state.replica.is_some() { Action::Promote } else { Action::Copy });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let now = time(state.bucket);
        match action {
            Action::Advance => {
                state.bucket += 1;
                state.used.retain(|it, _| it + BUCKETS > state.bucket);
            }
            Action::Take(index) => {
                assert!(state.nodes[index].take(now, 1));
                *state.used.entry(state.bucket).or_default() += 1;
            }
            Action::Send(index) => {
                let (node, ask) = wanted(&state.nodes[index], now, self.faults.wants)?;
                state.nodes[index] = node;
                state.awaits[index] = true;
                state.sent[index] += 1;
                state.asks.push((index, now, ask));
            }
            Action::GiveUp(index) => {
                state.nodes[index].on_lost();
                state.awaits[index] = false;
                state.answers.retain(|it| it.0 != index);
            }
            Action::Ask { index, again } => {
                let (node, sent, ask) = state.asks[index].clone();
                if again {
                    state.doubled += 1;
                } else {
                    state.asks.remove(index);
                }
                let answer = state.server.lease(micros(state.bucket), run(state.run), &ask);
                state.answers.push((node, sent, answer));
            }
            Action::Answer(index) => {
                let (node, sent, answer) = state.answers.remove(index);
                state.nodes[node].on_answer(sent, now, &answer);
                state.awaits[node] = false;
            }
            Action::Crash(index) => {
                state.crashes += 1;
                state.started += 1;
                state.nodes[index] = self.node(state.started);
                state.awaits[index] = false;
                // Its asks may still arrive.
                state.answers.retain(|it| it.0 != index);
            }
            Action::Lose => {
                state.losses += 1;
                state.run += 1;
                state.server = Ledger::new(self.config);
            }
            Action::Copy => state.replica = Some(state.server.clone()),
            Action::Promote => {
                state.promotions += 1;
                state.run += 1;
                state.server = state.replica.take()?;
            }
        }
        // The order in which messages were sent has no effect.
        state.asks.sort_by_key(|(node, sent, ask)| (*node, *sent, ask.node, ask.seq, ask.want));
        state.answers.sort_by_key(|(node, sent, _)| (*node, *sent));
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("limit", |model: &Self, state: &State| {
                state.used.values().sum::<u64>() <= model.faults.limit
            }),
            Property::sometimes("full", |model: &Self, state: &State| {
                state.used.values().sum::<u64>() == model.faults.limit
            }),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.bucket < self.first_bucket() + self.faults.buckets
            && state.asks.len() <= 3
            && state.answers.len() <= 2
    }
}

/// Returns the node after it has sent an ask, and the ask: for a request if it holds nothing, and otherwise to give permits back.
fn wanted(node: &Node, now: Duration, wants: u64) -> Option<(Node, Ask)> {
    let mut node = node.clone();
    if node.held(now) == 0 {
        node.take(now, wants);
    }
    let ask = node.next_ask(now)?;
    Some((node, ask))
}

fn micros(bucket: u64) -> u64 {
    u64::try_from(time(bucket).as_micros()).unwrap()
}

/// Explores everything that can happen with these faults.
fn explore(faults: Faults) {
    let checker = Fleet::new(faults).checker().threads(2).spawn_dfs().join();
    println!("{faults:?}: {} states", checker.unique_state_count());
    if let Some(path) = checker.discovery("limit") {
        panic!("{faults:?}: {:#?}", path.into_actions());
    }
    assert!(checker.discovery("full").is_some(), "{faults:?}: the limit can be reached");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of states: `cargo test --release`")]
fn limit_holds_although_messages_are_late() {
    explore(Faults { asks: [2, 2], wants: 1, buckets: 4, ..Faults::default() });
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of states: `cargo test --release`")]
fn limit_holds_although_answers_are_lost() {
    explore(Faults { limit: 3, asks: [3, 1], wants: 2, buckets: 3, ..Faults::default() });
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of states: `cargo test --release`")]
fn limit_holds_although_messages_are_doubled() {
    explore(Faults { doubled: 1, asks: [2, 2], wants: 2, buckets: 2, ..Faults::default() });
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of states: `cargo test --release`")]
fn limit_holds_although_nodes_crash() {
    explore(Faults { crashes: 1, asks: [2, 1], wants: 2, buckets: 4, ..Faults::default() });
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of states: `cargo test --release`")]
fn limit_holds_although_the_server_loses_its_state() {
    explore(Faults { losses: 1, asks: [2, 1], wants: 2, buckets: 6, ..Faults::default() });
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of states: `cargo test --release`")]
fn limit_holds_although_the_server_goes_back_to_an_older_state() {
    explore(Faults { promotions: 1, asks: [2, 1], wants: 2, buckets: 5, ..Faults::default() });
}
