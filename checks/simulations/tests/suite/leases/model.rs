//! The steps from each state, and the search through all of them.

use std::collections::BTreeMap;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::fleet::{BUCKET, Faults, Fleet, Message, OPEN, State};

const LIMIT: &str = "used <= limit";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    Use(usize),
    /// A request of a node gives back the permit of this place.
    GiveBack(usize, usize),
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

impl Action {
    /// Returns whether the action changes neither the time nor the memory of the server.
    fn is_of_node(self) -> bool {
        use Action::{Clone, Crash, GiveBack, GiveUp, Report, Return, Use, Want};
        matches!(
            self,
            Use(_)
                | GiveBack(..)
                | Want(..)
                | Report(_)
                | Return(_)
                | GiveUp(_)
                | Crash(_)
                | Clone(_)
        )
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
            given_back: BTreeMap::new(),
            requests: [const { Vec::new() }; 2],
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
            if faults.give_backs > 0 {
                let requests = 0..state.requests[node].len();
                actions.extend(requests.map(|request| Action::GiveBack(node, request)));
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
        let is_of_node = action.is_of_node();
        match action {
            Action::Tick => state.time += 1,
            Action::Use(node) => state.take(node, self)?,
            Action::GiveBack(node, request) => state.give_back(node, request)?,
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
                state.requests[node].clear();
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
                state.requests[node].clear();
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
            state.forget(state.time);
        } else if self.faults.clock_steps_back == 0 && !is_of_node {
            let bucket = state.bucket();
            assert!(bucket >= last.bucket(), "the time goes back");
            state.forget(bucket);
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let holds = |fleet: &Self, state: &State| state.most_used() <= fleet.limit * fleet.times;
        let mut properties = vec![Property::always(LIMIT, holds)];
        for (applies, name, condition) in self.reached() {
            if applies {
                properties.push(Property::sometimes(name, condition));
            }
        }
        properties
    }
}

/// Visits all states. Returns a run that overshoots, if there is one.
pub(crate) fn explore(fleet: Fleet) -> Option<Vec<Action>> {
    // With `spawn_bfs`, the run would be the shortest one, but a search in breadth keeps many
    // states at a time, and takes 2.5 times as long.
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
