//! Random histories of rules.

use fastrand::Rng;
use leaparray::Outcome;

use super::draw;
use super::file::{self, Key, Rule, Shares};
use super::limiter::Asked;

/// A history: a file, and what happens then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The rules at the beginning.
    pub first: Vec<Rule>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time since the step before, in milliseconds.
    pub after: u64,
    /// The action.
    pub action: Action,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A request.
    Ask(Request),
    /// A request in flight ends: the one with this number, modulo theirs.
    End(usize, Outcome),
    /// The rules are replaced.
    Apply(Vec<Rule>),
    /// The rules are replaced in the middle of the decision on a request, or right after it if the
    /// middle is never reached.
    ApplyWithin(Request, Middle, Vec<Rule>),
    /// A request is decided in the middle of a change, at that reading of the clock, or right after
    /// it.
    AskWithin(Vec<Rule>, u8, Request),
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the resource.
    pub resource: usize,
    /// The client: none for 0, which is also the key of all requests of a rule without a key.
    pub client: usize,
    /// The context in which it enters the resource: none for 0.
    pub context: usize,
    /// Its class, and its tenant: none for 0, which `shares` and `weights` never name.
    pub class: usize,
    /// The permits that it asks for.
    pub permits: u64,
    /// The way in which it asks.
    pub way: Way,
}

/// The way in which a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By `Rules::ask`.
    Ask,
    /// By a limiter of `Rules::limiter`.
    Limiter,
    /// By `Rules::try_enter_at`.
    Enter,
}

/// The middle of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Middle {
    /// When the caller is asked for its key.
    Key,
    /// At a reading of the clock.
    Reading(u8),
}

impl Request {
    fn random(rng: &mut Rng) -> Self {
        let way = [Way::Ask, Way::Limiter, Way::Enter][rng.usize(0..3)];
        let permits = [1, 1, 1, 2, 3][rng.usize(0..5)];
        let [client, context, class] = [(); 3].map(|()| rng.usize(0..3));
        Self { resource: rng.usize(0..2), client, context, class, permits, way }
    }
}

impl Request {
    /// Returns the number of the key, or of the tenant, by which a rule counts it.
    pub(super) const fn key(&self, rule: &Rule) -> usize {
        match rule.key {
            None if rule.weights.is_some() => self.class,
            None => 0,
            Some(Key::Client) => self.client,
            Some(Key::Context) => self.context,
        }
    }

    /// Returns what it asks a rule for.
    pub(super) fn asked(&self, rule: &Rule) -> Asked {
        let share = rule.shares.as_ref().map(|it: &Shares| it.of(self.class));
        let weight = rule.weights.map(|it| it.of(self.class));
        let can_wait = self.way != Way::Enter;
        Asked { key: self.key(rule), permits: self.permits, share, weight, can_wait }
    }
}

impl Middle {
    fn random(rng: &mut Rng) -> Self {
        if rng.bool() { Self::Key } else { Self::Reading(rng.u8(0..3)) }
    }
}

impl History {
    /// Draws a history: of up to 80 steps, or of up to 240 if tenants share a limit, whose epochs
    /// end by the permits that come back.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let first = draw::random(rng);
        let has_epochs = first[0].weights.is_some() && rng.bool();
        let mut former = first.clone();
        let mut present = first.clone();
        let mut next = |rng: &mut Rng| {
            present = match rng.u8(0..8) {
                _ if has_epochs && rng.u8(0..8) > 0 => draw::with_other_shares(rng, &present),
                0 | 1 => draw::turned(rng, &present),
                _ => draw::changed(rng, &present, &former),
            };
            former.extend_from_slice(&present);
            present.clone()
        };
        let (most, weights) =
            if has_epochs { (240, [10, 18, 19, 20]) } else { (80, [10, 14, 18, 19]) };
        let steps = (0..rng.usize(10..most)).map(|_| {
            let drawn = rng.u8(0..if has_epochs { 21 } else { 20 });
            let action = match weights.iter().position(|end| drawn < *end) {
                Some(0) => Action::Ask(Request::random(rng)),
                Some(1) => {
                    let outcomes = [Outcome::Success, Outcome::Exception, Outcome::Cancelled];
                    Action::End(rng.usize(0..8), outcomes[rng.usize(0..3)])
                }
                Some(2) => Action::Apply(next(rng)),
                Some(3) => {
                    Action::ApplyWithin(Request::random(rng), Middle::random(rng), next(rng))
                }
                _ => Action::AskWithin(next(rng), rng.u8(0..4), Request::random(rng)),
            };
            Step { after: time(rng), action }
        });
        let steps = steps.collect();
        Self { first, steps }
    }

    /// Returns histories that are simpler in one respect each, the simplest first.
    pub(super) fn simpler(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut changed = self.clone();
            change(&mut changed);
            if changed != *self {
                all.push(changed);
            }
        };
        let steps = self.steps.len();
        for part in [2, 4, 8].map(|it| steps / it).into_iter().filter(|it| *it > 1) {
            for start in (0..steps).step_by(part) {
                add(&|it| drop(it.steps.drain(start..(start + part).min(steps))));
            }
        }
        for place in 0..steps {
            add(&|it| drop(it.steps.remove(place)));
        }
        let mut rules: Vec<_> = self.files().flatten().copied().collect();
        rules.dedup();
        let mut names: Vec<_> = rules.iter().map(|it| it.name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            add(&|it| it.files_mut().for_each(|file| file.retain(|it| it.name != name)));
        }
        for rule in &rules {
            for simpler in file::simpler(rule) {
                add(&|it| {
                    let all = it.files_mut().flatten();
                    all.filter(|it| *it == rule).for_each(|it| *it = simpler);
                });
            }
        }
        for place in 0..steps {
            add(&|it| it.steps[place].after = 0);
            add(&|it| it.steps[place].simplify());
        }
        all
    }

    fn files(&self) -> impl Iterator<Item = &Vec<Rule>> {
        [&self.first].into_iter().chain(self.steps.iter().filter_map(|it| it.action.file()))
    }

    fn files_mut(&mut self) -> impl Iterator<Item = &mut Vec<Rule>> {
        let of_steps = self.steps.iter_mut().filter_map(|it| match &mut it.action {
            Action::Ask(_) | Action::End(..) => None,
            Action::Apply(file)
            | Action::ApplyWithin(_, _, file)
            | Action::AskWithin(file, _, _) => Some(file),
        });
        [&mut self.first].into_iter().chain(of_steps)
    }
}

impl Action {
    const fn file(&self) -> Option<&Vec<Rule>> {
        match self {
            Self::Ask(_) | Self::End(..) => None,
            Self::Apply(file) | Self::ApplyWithin(_, _, file) | Self::AskWithin(file, _, _) => {
                Some(file)
            }
        }
    }
}

impl Step {
    fn simplify(&mut self) {
        match &mut self.action {
            Action::ApplyWithin(_, _, file) | Action::AskWithin(file, _, _) => {
                self.action = Action::Apply(std::mem::take(file));
            }
            Action::Ask(request) => {
                *request = Request { permits: 1, context: 0, class: 0, way: Way::Ask, ..*request };
            }
            Action::End(..) | Action::Apply(_) => {}
        }
    }
}

fn time(rng: &mut Rng) -> u64 {
    match rng.u8(0..20) {
        0..=8 => 0,
        9..=13 => rng.u64(1..100),
        14..=17 => rng.u64(1..2_000),
        18 => rng.u64(1..15_000),
        _ => [3_599_000, 3_600_000, 3_700_000][rng.usize(0..3)],
    }
}
