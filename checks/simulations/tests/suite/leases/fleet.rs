//! The states of a fleet and its server, and what a message does.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray_redis::lease::{Answer, Ask, Group, Holdings, LeaseConfig, Ledger};

pub(crate) const BUCKET: u64 = 1_000;
pub(crate) const BUCKETS: u64 = 2;
/// The bucket in which the server has opened, and the model starts: n + v + 1.
pub(crate) const OPEN: u64 = 4;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// The asks of both nodes: without a bound, the numbers of asks would make infinitely many
    /// states.
    pub(crate) asks: u8,
    pub(crate) repeats: u8,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    pub(crate) blank_restarts: u8,
    pub(crate) evictions: u8,
    pub(crate) promotions: u8,
    pub(crate) clock_steps_back: u8,
    /// A node becomes a clone of the other one.
    pub(crate) clones: u8,
    /// A request has not used its permit, and gives it back.
    pub(crate) give_backs: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(crate) limit: u64,
    /// The steps of time.
    pub(crate) steps: u64,
    pub(crate) faults: Faults,
    /// Whether the identity of a server names its process alone, and stays when the process is
    /// demoted and promoted again.
    pub(crate) identity_of_process: bool,
    /// Whether permits are granted before they are free.
    pub(crate) ahead: bool,
    /// Whether the limit is one of a group, which is known, while the limit is new.
    pub(crate) in_group: bool,
    /// How many times the limit may be used in a window.
    pub(crate) times: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    Ask(usize, Ask),
    Answer(usize, u64, Answer),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The time of the nodes, in buckets, and how far the server's clock is behind.
    pub(crate) time: u64,
    pub(crate) behind: u64,
    pub(crate) identity: u64,
    pub(crate) ledger: Ledger,
    pub(crate) group: Option<Group>,
    pub(crate) replica: Option<(Ledger, Option<Group>)>,
    /// With the name of the incarnation.
    pub(crate) nodes: [(u64, Holdings); 2],
    /// Whether a node was told that another one has its number.
    pub(crate) is_told: bool,
    /// Whether no node has acted since the start.
    pub(crate) untouched: bool,
    pub(crate) messages: Vec<Message>,
    /// By the bucket of the limit's time; by the time of the nodes, if permits are granted ahead: a
    /// clock that does not step.
    pub(crate) used: BTreeMap<u64, u64>,
    /// The same of the permits that were given back.
    pub(crate) given_back: BTreeMap<u64, u64>,
    /// The uses of each node that it may give back: the time of each, and its bucket in `used`.
    pub(crate) requests: [Vec<(u64, u64)>; 2],
    pub(crate) faults: Faults,
}

impl Fleet {
    pub(crate) fn new(limit: u64, steps: u64, faults: Faults) -> Self {
        let (identity_of_process, ahead, in_group, times) = (false, false, false, 1);
        Self { limit, steps, faults, identity_of_process, ahead, in_group, times }
    }

    pub(crate) fn config(&self) -> LeaseConfig {
        LeaseConfig::of_buckets(self.limit, 2, Duration::from_millis(2))
            .and_then(|it| it.with_validity(1))
            .and_then(|it| it.with_drift_ppm(0))
            .expect("valid")
    }

    pub(crate) fn reopens(&self) -> bool {
        let Faults { blank_restarts, evictions, promotions, .. } = self.faults;
        // Of a limit of a group, an eviction alone does not tell whether it has opened since.
        let losses = blank_restarts + if self.identity_of_process { 0 } else { promotions };
        losses > 0 || evictions > 0 && !self.in_group
    }

    /// Whether the mark of the limit may expire: n + v + 2 buckets after an ask.
    pub(crate) fn begins_anew(&self) -> bool {
        self.in_group && self.steps > OPEN && self.faults.asks > 2
    }

    pub(crate) fn node(&self, name: u64) -> (u64, Holdings) {
        (name, Holdings::new(self.config(), name))
    }

    pub(crate) fn blank(&self) -> Ledger {
        Ledger::new(self.config())
    }

    pub(crate) fn blank_group(&self) -> Option<Group> {
        self.in_group.then(Group::default)
    }
}

impl State {
    pub(crate) fn clock(&self) -> u64 {
        (self.time - self.behind) * BUCKET
    }

    pub(crate) fn ask(&mut self, node: usize, want: u64, keep: u64, fleet: &Fleet) -> Option<()> {
        let now = self.time * BUCKET;
        let ask = self.nodes[node].1.ask(now, want, 1, keep)?;
        // The nodes draw different ones. With the number of the ask, it names the ask.
        let ask = Ask { nonce: node as u64 + 1, ..ask };
        let ask = if fleet.ahead { Ask { horizon: 1, weight: want, ..ask } } else { ask };
        self.messages.push(Message::Ask(node, ask));
        self.faults.asks = self.faults.asks.saturating_sub(1);
        self.untouched = false;
        Some(())
    }

    pub(crate) fn deliver(&mut self, fleet: &Fleet, message: Message) {
        match message {
            Message::Ask(node, ask) => {
                let (time, identity) = (self.clock(), self.identity);
                let answer = lease(&mut self.ledger, self.group.as_mut(), time, identity, &ask);
                self.messages.push(Message::Answer(node, ask.node, answer));
            }
            Message::Answer(node, name, answer) => {
                let (at, holdings) = &mut self.nodes[node];
                if *at == name && holdings.on_answer(self.time * BUCKET, &answer) && answer.is_taken
                {
                    self.is_told = true;
                    (*at, *holdings) = fleet.node(name + 2);
                }
            }
        }
    }

    /// Returns the bucket of the limit's time.
    pub(crate) fn bucket(&self) -> u64 {
        self.peek().now / BUCKET
    }

    /// Returns the server's answer to a node that wants nothing.
    pub(crate) fn peek(&self) -> Answer {
        let (node, seq, nonce) = (0, 1, 0);
        let nothing = Ask {
            node,
            seq,
            nonce,
            epoch: None,
            seen: 0,
            want: 0,
            validity: 0,
            horizon: 0,
            weight: 0,
            moves: vec![],
        };
        let (mut ledger, mut group) = (self.ledger.clone(), self.group.clone());
        lease(&mut ledger, group.as_mut(), self.clock(), self.identity, &nothing)
    }

    /// Uses a permit, if the node has one.
    pub(crate) fn take(&mut self, node: usize, fleet: &Fleet) -> Option<()> {
        let now = self.time * BUCKET;
        self.nodes[node].1.take(now, 1).then_some(())?;
        let at = if fleet.ahead { self.time } else { self.bucket() };
        *self.used.entry(at).or_default() += 1;
        if self.faults.give_backs > 0 {
            self.requests[node].push((self.time, at));
        }
        Some(())
    }

    /// Gives back a permit of a request, if the node takes it.
    pub(crate) fn give_back(&mut self, node: usize, request: usize) -> Option<()> {
        self.faults.give_backs -= 1;
        let (taken, at) = self.requests[node].remove(request);
        let now = self.time * BUCKET;
        (self.nodes[node].1.give_back(now, taken * BUCKET, 1) == 1).then_some(())?;
        // Otherwise, no window has the use any more.
        if let Some(used) = self.used.get_mut(&at) {
            *used -= 1;
            *self.given_back.entry(at).or_default() += 1;
        }
        if self.faults.give_backs == 0 {
            self.requests = [const { Vec::new() }; 2];
        }
        Some(())
    }

    /// Drops the uses that no window shares with one in `bucket` or later.
    pub(crate) fn forget(&mut self, bucket: u64) {
        self.used.retain(|at, _| at + BUCKETS > bucket);
        self.given_back.retain(|at, _| at + BUCKETS > bucket);
    }

    pub(crate) fn most_used(&self) -> u64 {
        self.most(|first, state| sum(&state.used, first))
    }

    /// Returns the most permits that were taken in a window, including permits given back later.
    pub(crate) fn most_taken(&self) -> u64 {
        self.most(|first, state| sum(&state.used, first) + sum(&state.given_back, first))
    }

    fn most(&self, of_window: impl Fn(u64, &Self) -> u64) -> u64 {
        let firsts = self.used.keys().chain(self.given_back.keys());
        firsts.map(|&first| of_window(first, self)).max().unwrap_or_default()
    }
}

fn lease(
    ledger: &mut Ledger,
    group: Option<&mut Group>,
    time: u64,
    identity: u64,
    ask: &Ask,
) -> Answer {
    match group {
        Some(group) => ledger.lease_in(group, time, identity, ask),
        None => ledger.lease(time, identity, ask),
    }
}

/// Returns the permits of the window that begins with a bucket.
fn sum(of: &BTreeMap<u64, u64>, first: u64) -> u64 {
    of.range(first..first + BUCKETS).map(|it| it.1).sum()
}
