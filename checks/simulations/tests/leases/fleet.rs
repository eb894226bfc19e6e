//! The states of a fleet and its server, and the steps between them.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray_redis::lease::{Answer, Ask, Group, Holdings, LeaseConfig, Ledger};
use stateright::{Checker, HasDiscoveries, Model, Property};

const BUCKET: u64 = 1_000;
const BUCKETS: u64 = 2;
const LIMIT: &str = "used <= limit";
/// The bucket in which the server has opened, and the model starts: n + v + 1.
const OPEN: u64 = 4;

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
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    Ask(usize, Ask),
    Answer(usize, u64, Answer),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The time of the nodes, in buckets, and how far the server's clock is behind.
    time: u64,
    behind: u64,
    identity: u64,
    ledger: Ledger,
    group: Option<Group>,
    replica: Option<(Ledger, Option<Group>)>,
    /// With the name of the incarnation.
    nodes: [(u64, Holdings); 2],
    /// Whether a node was told that another one has its number.
    is_told: bool,
    /// Whether no node has acted since the start.
    untouched: bool,
    messages: Vec<Message>,
    /// By the bucket of the limit's time; by the time of the nodes, if permits are granted ahead: a
    /// clock that does not step.
    used: BTreeMap<u64, u64>,
    faults: Faults,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    Use(usize),
    /// Asks for a number of permits.
    Want(usize, u64),
    Report(usize),
    Return(usize),
    /// Gives up the ask in flight. Messages are lost by never being delivered.
    GiveUp(usize),
    Deliver(usize),
    DeliverAndRepeat(usize),
    Crash(usize),
    BlankRestart,
    /// The charges are evicted.
    Evict,
    EvictMark,
    Replicate,
    Promote,
    /// The server's clock steps back, by a number of buckets.
    StepBack(u64),
    /// The memory of a node becomes a copy of the other node's memory.
    Clone(usize),
}

type Condition = fn(&Fleet, &State) -> bool;

impl Fleet {
    pub(crate) fn new(limit: u64, steps: u64, faults: Faults) -> Self {
        Self { limit, steps, faults, identity_of_process: false, ahead: false, in_group: false }
    }

    fn config(&self) -> LeaseConfig {
        LeaseConfig::of_buckets(self.limit, 2, Duration::from_millis(2))
            .and_then(|it| it.with_validity(1))
            .and_then(|it| it.with_drift_ppm(0))
            .expect("valid")
    }

    fn reopens(&self) -> bool {
        let Faults { blank_restarts, evictions, promotions, .. } = self.faults;
        // Of a limit of a group, an eviction alone does not tell whether it has opened since.
        blank_restarts + promotions > 0 || evictions > 0 && !self.in_group
    }

    /// Whether the mark of the limit may expire: n + v + 2 buckets after an ask.
    fn begins_anew(&self) -> bool {
        self.in_group && self.steps > OPEN && self.faults.asks > 2
    }

    fn node(&self, name: u64) -> (u64, Holdings) {
        (name, Holdings::new(self.config(), name))
    }

    fn blank(&self) -> Ledger {
        Ledger::new(self.config())
    }

    fn blank_group(&self) -> Option<Group> {
        self.in_group.then(Group::default)
    }
}

impl State {
    fn clock(&self) -> u64 {
        (self.time - self.behind) * BUCKET
    }

    fn ask(&mut self, node: usize, want: u64, keep: u64, fleet: &Fleet) -> Option<()> {
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

    fn deliver(&mut self, fleet: &Fleet, message: Message) {
        match message {
            Message::Ask(node, ask) => {
                let answer = self.lease(&ask);
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

    fn lease(&mut self, ask: &Ask) -> Answer {
        let (time, identity) = (self.clock(), self.identity);
        match &mut self.group {
            Some(group) => self.ledger.lease_in(group, time, identity, ask),
            None => self.ledger.lease(time, identity, ask),
        }
    }

    /// Returns the bucket of the limit's time.
    fn bucket(&self) -> u64 {
        self.peek().now / BUCKET
    }

    /// Returns the server's answer to a node that wants nothing.
    fn peek(&self) -> Answer {
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
        self.clone().lease(&nothing)
    }

    fn is_answered_twice(&self) -> bool {
        self.messages.windows(2).any(|it| match it {
            [Message::Answer(_, a, one), Message::Answer(_, b, two)] => {
                (a, one.seq) == (b, two.seq)
            }
            _ => false,
        })
    }

    fn is_overtaken(&self) -> bool {
        self.messages.windows(2).any(|it| match it {
            [Message::Ask(_, one), Message::Ask(_, two)] => one.node == two.node,
            _ => false,
        })
    }

    fn has_recovered(&self) -> bool {
        let now = self.time * BUCKET;
        self.nodes.iter().any(|(name, holdings)| *name > 2 && holdings.in_hand(now) > 0)
    }

    /// Whether a node has permits that it may use later.
    fn has_permits_ahead(&self) -> bool {
        self.nodes.iter().any(|it| it.1.ahead(self.time * BUCKET) > 0)
    }

    fn has_reopened(&self) -> bool {
        let (peek, identity) = (self.peek(), self.identity);
        let is_lost = if self.group.is_none() { peek.epoch.since > 0 } else { identity > 1 };
        is_lost && peek.open_in == 0 && self.used.contains_key(&self.bucket())
    }

    /// Whether a node that has used the limit before is granted permits by an ask that begins an
    /// epoch: the mark of the limit has expired.
    fn has_begun_anew(&self) -> bool {
        self.messages.iter().any(|it| {
            matches!(it, Message::Answer(_, _, it)
                if it.seq > 1 && it.granted > 0 && it.epoch.since == it.now)
        })
    }

    fn is_granted_at_a_standstill(&self) -> bool {
        // Without the step back, the last bucket of such a lease would have ended earlier.
        let end = (self.bucket() + 2) * BUCKET;
        self.clock() < self.peek().now && self.nodes.iter().any(|it| it.1.first_end() > Some(end))
    }

    fn most_used(&self) -> u64 {
        let window = |first: u64| self.used.range(first..first + BUCKETS).map(|it| it.1).sum();
        self.used.keys().map(|&first| window(first)).max().unwrap_or_default()
    }
}

impl Model for Fleet {
    type State = State;
    type Action = Action;

    /// Returns a state in which the server has opened, and both nodes know its epoch.
    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            time: 0,
            behind: 0,
            identity: 1,
            ledger: self.blank(),
            group: self.blank_group(),
            replica: None,
            nodes: [self.node(1), self.node(2)],
            is_told: false,
            untouched: true,
            messages: Vec::new(),
            used: BTreeMap::new(),
            faults: Faults::default(),
        };
        for time in [0, OPEN] {
            state.time = time;
            for node in 0..2 {
                state.ask(node, 0, 0, self).expect("none is in flight");
                while let Some(message) = state.messages.pop() {
                    state.deliver(self, message);
                }
            }
        }
        if self.in_group {
            // A new limit of the group, and nodes that have not asked for it.
            (state.ledger, state.nodes) = (self.blank(), [self.node(1), self.node(2)]);
        }
        state.faults = self.faults.clone();
        state.untouched = true;
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let now = state.time * BUCKET;
        let faults = &state.faults;
        if state.time < OPEN + self.steps {
            actions.push(Action::Tick);
        }
        // Until one of the nodes acts, they are alike, so only the first one can.
        let count = if state.untouched { 1 } else { 2 };
        for (node, (_, holdings)) in state.nodes.iter().enumerate().take(count) {
            let holds = holdings.in_hand(now) > 0;
            if holds {
                actions.push(Action::Use(node));
            }
            if holdings.sent().is_none() && faults.asks > 0 {
                for want in 1..=self.limit.saturating_sub(holdings.in_hand(now)) {
                    actions.push(Action::Want(node, want));
                }
                if holdings.unreported() > 0 {
                    actions.push(Action::Report(node));
                }
                if holds {
                    actions.push(Action::Return(node));
                }
            }
            if holdings.sent().is_some() && faults.losses > 0 {
                actions.push(Action::GiveUp(node));
            }
            if faults.crashes > 0 {
                actions.push(Action::Crash(node));
            }
            // Permits in hand would be used twice: no message can prevent that.
            if faults.clones > 0 && !holds && holdings.ahead(now) == 0 {
                actions.push(Action::Clone(1 - node));
            }
        }
        for index in 0..state.messages.len() {
            actions.push(Action::Deliver(index));
            if faults.repeats > 0 {
                actions.push(Action::DeliverAndRepeat(index));
            }
        }
        for (budget, action) in [
            (faults.blank_restarts, Action::BlankRestart),
            (faults.evictions, Action::Evict),
            (if self.in_group { faults.evictions } else { 0 }, Action::EvictMark),
            (faults.clock_steps_back, Action::StepBack(2)),
            // Seen by no ask, if the next one comes in the bucket after.
            (if self.ahead { faults.clock_steps_back } else { 0 }, Action::StepBack(1)),
        ] {
            if budget > 0 {
                actions.push(action);
            }
        }
        if faults.promotions > 0 {
            actions.push(if state.replica.is_none() { Action::Replicate } else { Action::Promote });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let now = state.time * BUCKET;
        match action {
            Action::Tick => state.time += 1,
            Action::Use(node) => {
                if !state.nodes[node].1.take(now, 1) {
                    return None;
                }
                let at = if self.ahead { state.time } else { state.bucket() };
                *state.used.entry(at).or_default() += 1;
            }
            Action::Want(node, want) => state.ask(node, want, u64::MAX, self)?,
            Action::Report(node) => state.ask(node, 0, u64::MAX, self)?,
            Action::Return(node) => state.ask(node, 0, 0, self)?,
            Action::GiveUp(node) => {
                state.faults.losses -= 1;
                state.nodes[node].1.on_lost();
            }
            Action::Deliver(index) => {
                let message = state.messages.remove(index);
                state.deliver(self, message);
            }
            Action::DeliverAndRepeat(index) => {
                state.faults.repeats -= 1;
                let message = state.messages[index].clone();
                state.deliver(self, message);
            }
            Action::Crash(node) => {
                state.faults.crashes -= 1;
                let (name, holdings) = &mut state.nodes[node];
                let gone = *name;
                (*name, *holdings) = self.node(gone + 2);
                state.untouched = false;
                state.messages.retain(|it| !matches!(it, Message::Answer(_, to, _) if *to == gone));
            }
            Action::BlankRestart => {
                state.faults.blank_restarts -= 1;
                state.identity += 1;
                (state.ledger, state.group) = (self.blank(), self.blank_group());
            }
            Action::Evict => {
                state.faults.evictions -= 1;
                state.ledger.evict_charges();
            }
            Action::EvictMark => {
                state.faults.evictions -= 1;
                state.ledger.evict_mark();
            }
            Action::Replicate => {
                state.replica = Some((state.ledger.clone(), state.group.clone()));
            }
            Action::Promote => {
                state.faults.promotions -= 1;
                (state.ledger, state.group) = state.replica.take()?;
                if !self.identity_of_process {
                    state.identity += 1;
                }
            }
            Action::Clone(node) => {
                state.faults.clones -= 1;
                state.nodes[node] = state.nodes[1 - node].clone();
                // No answer gets there by the connection of the other one.
                state.nodes[node].1.on_lost();
                state.messages.retain(|it| !matches!(it, Message::Answer(to, ..) if *to == node));
                state.untouched = false;
            }
            Action::StepBack(buckets) => {
                state.faults.clock_steps_back -= 1;
                state.behind += buckets;
            }
        }
        state.messages.sort();
        // Drops the uses that no window shares with a use to come. The bucket never goes back
        // unless the clock does: the ledger knows only the time of the last ask.
        if self.ahead {
            state.used.retain(|at, _| at + BUCKETS > state.time);
        } else if self.faults.clock_steps_back == 0 {
            let bucket = state.bucket();
            assert!(bucket >= last.bucket(), "the time goes back");
            state.used.retain(|at, _| at + BUCKETS > bucket);
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let holds = |fleet: &Self, state: &State| state.most_used() <= fleet.limit;
        let mut properties = vec![Property::always(LIMIT, holds)];
        let faults = &self.faults;
        let reached: [(bool, &str, Condition); 9] = [
            (true, "the whole limit is used", |fleet, it| it.most_used() == fleet.limit),
            (faults.repeats > 0, "an ask is answered twice", |_, it| it.is_answered_twice()),
            (faults.losses > 0, "two asks of a node are in flight", |_, it| it.is_overtaken()),
            (faults.crashes > 0, "a node has permits after a crash", |_, it| it.has_recovered()),
            (self.begins_anew(), "the limit begins anew", |_, it| it.has_begun_anew()),
            (self.reopens(), "a permit is used after a quarantine", |_, it| it.has_reopened()),
            (self.ahead, "permits are granted ahead", |_, it| it.has_permits_ahead()),
            (faults.clones > 0, "a clone is told", |_, it| it.is_told),
            (faults.clock_steps_back > 0, "a permit is granted at a standstill", |_, it| {
                it.is_granted_at_a_standstill()
            }),
        ];
        for (applies, name, condition) in reached {
            if applies {
                properties.push(Property::sometimes(name, condition));
            }
        }
        properties
    }
}

/// Visits all states. Returns a run that overshoots, if there is one.
pub(crate) fn explore(fleet: Fleet) -> Option<Vec<Action>> {
    // With `spawn_bfs`, the run would be the shortest one, but a search in breadth keeps many states
    // at a time, and takes 2.5 times as long.
    let checker = fleet.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    println!("{} states", checker.unique_state_count());
    if let Some(run) = checker.discovery(LIMIT) {
        return Some(run.into_actions());
    }
    assert!(checker.is_done(), "some states were not visited");
    for property in checker.model().properties() {
        let is_reached = checker.discovery(property.name).is_some();
        assert!(property.name == LIMIT || is_reached, "no run reaches: {}", property.name);
    }
    None
}
