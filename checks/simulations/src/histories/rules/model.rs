//! The reference of a set of rules: what the documentation of `Rules` says of changes.

use std::collections::BTreeMap;

use leaparray::Outcome;

use super::file::{Mode, Rule};
use super::history::Request;
use super::limiter::{Answer, Asked, Limiter};

/// The time for which a rule that is gone can come back to its state.
const KEEP: u64 = 3_600_000;

/// The state of a set of rules. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    pub(super) limiters: Vec<Limiter>,
    pub(super) active: Vec<Active>,
    gone: Vec<(Active, u64)>,
    /// The charges of the requests in flight, by their numbers.
    held: BTreeMap<usize, Vec<Charge>>,
}

/// A rule with the place of its limiter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Active {
    pub(super) rule: Rule,
    pub(super) limiter: usize,
}

impl Active {
    pub(super) fn is_enforced(&self) -> bool {
        self.rule.mode == Mode::Enforce
    }
}

/// The charge of a request at one rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Charge {
    limiter: usize,
    key: usize,
    permits: u64,
    generation: u64,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Admitted after a wait.
    Admitted { wait: u64 },
    /// Refused, by one of these rules.
    Refused(Vec<u8>),
}

impl Model {
    /// Replaces the rules.
    pub(super) fn apply(&mut self, file: &[Rule], now: u64) {
        let before = self.clone();
        self.apply_since(&before, file, now);
    }

    /// Returns the state after the rules were replaced.
    pub(super) fn after(&self, file: &[Rule], now: u64) -> Self {
        let mut next = self.clone();
        next.apply(file, now);
        next
    }

    /// Replaces the rules, by a change that has begun when the state was `begun`. A limiter that
    /// replaces another one is charged with what that had charged then, also beyond its limit. It
    /// already decides when it is charged with the rest, which therefore counts as far as permits
    /// are left.
    pub(super) fn apply_since(&mut self, begun: &Self, file: &[Rule], now: u64) {
        self.gone.retain(|(_, since)| now - since < KEEP);
        let mut former = std::mem::take(&mut self.active);
        let mut replaced = Vec::new();
        for rule in file {
            let known = former.iter().position(|it| it.rule.name == rule.name);
            let known = known.map(|place| former.remove(place));
            if let Some(known) = known.filter(|it| it.rule.becomes(rule)) {
                self.limiters[known.limiter].set(rule.limit, now);
                self.active.push(Active { rule: *rule, ..known });
                continue;
            }
            let is_back = |it: &Active| it.rule.name == rule.name && it.rule.becomes(rule);
            let back = self.gone.iter().position(|(it, _)| is_back(it));
            let limiter = if let Some(place) = back {
                self.gone.remove(place).0.limiter
            } else {
                self.limiters.push(Limiter::new(rule, now));
                self.limiters.len() - 1
            };
            self.limiters[limiter].set(rule.limit, now);
            let carried = known.filter(|it| it.rule.key.is_none() && rule.key.is_none());
            if let Some(known) = carried
                && self.limiters[limiter].takes_over()
                && let Some(taken) = self.limiters[known.limiter].charged(now)
            {
                let at_begin = begun.limiters[known.limiter].clone().charged(now);
                let at_begin = at_begin.unwrap_or_default();
                let to = &mut self.limiters[limiter];
                let has = to.charged(now).unwrap_or_default();
                to.charge(at_begin.saturating_sub(has), now);
                let late = to.left(taken.saturating_sub(at_begin.max(has)), now);
                to.charge(late, now);
            }
            replaced.extend(known);
            self.active.push(Active { rule: *rule, limiter });
        }
        replaced.extend(former);
        self.gone.extend(replaced.into_iter().map(|it| (it, now)));
    }

    /// Returns whether a rule in force has that limiter.
    pub(super) fn has(&self, limiter: usize) -> bool {
        self.active.iter().any(|it| it.limiter == limiter)
    }

    pub(super) fn concerned(&self, request: &Request) -> Vec<Active> {
        let concerns = |it: &&Active| {
            it.rule.mode != Mode::Off && it.rule.resources & 1 << request.resource != 0
        };
        self.active.iter().filter(concerns).copied().collect()
    }

    /// Notes that a request beside a change to `next` may have been decided before: a refusal makes
    /// a tenant hungry, and permits that are taken back end an epoch that is over.
    pub(super) fn may_have_decided(&mut self, next: &Self, request: &Request) {
        for it in self.concerned(request) {
            let same = next.active.iter().find(|other| other.limiter == it.limiter);
            let same = same.map_or(it.rule, |it| it.rule);
            for rule in [it.rule, same] {
                self.limiters[it.limiter].may_have_asked(same.limit, request.asked(&rule));
            }
        }
    }

    /// Returns the state after a decision on the state `asked`. A refusal may be by the numbers of
    /// one rule, while another one had those after a change: it has each course of the tenants.
    pub(super) fn by_any_numbers(mut self, verdict: &Verdict, asked: &Self) -> Self {
        if let Verdict::Refused(_) = verdict {
            for (limiter, asked) in self.limiters.iter_mut().zip(&asked.limiters) {
                limiter.keep_tenants(asked);
            }
        }
        self
    }

    /// Decides on a request: returns the states and the verdicts that there may be. One that is
    /// admitted is held under its number.
    pub(super) fn decide(self, request: &Request, number: usize, now: u64) -> Vec<(Self, Verdict)> {
        let mut states = vec![self];
        for it in states[0].concerned(request).into_iter().filter(|it| it.rule.key.is_some()) {
            let key = request.key(&it.rule);
            let mut evicted = Vec::new();
            for state in &mut states {
                if state.limiters[it.limiter].may_be_evicted(key, now) {
                    let mut anew = state.clone();
                    anew.limiters[it.limiter].evict(key);
                    evicted.push(anew);
                }
            }
            states.extend(evicted);
        }
        states.into_iter().flat_map(|it| it.decide_stored(request, number, now)).collect()
    }

    /// Decides on a request by these states of its keys.
    fn decide_stored(mut self, request: &Request, number: usize, now: u64) -> Vec<(Self, Verdict)> {
        let concerned = self.concerned(request);
        let answers = self.answers(&concerned, request, now);
        if answers.iter().any(|(it, answer)| it.is_enforced() && *answer == Answer::Refuses) {
            return self.refused(&answers, request, now);
        }
        for (it, _) in &answers {
            self.limiters[it.limiter].note_asked(request.asked(&it.rule), now);
        }
        let mut all = Vec::new();
        let is_unknown = |(_, answer): &&(Active, Answer)| *answer == Answer::Unknown;
        let unknown: Vec<_> = answers.iter().filter(is_unknown).map(|(it, _)| *it).collect();
        if !unknown.is_empty() {
            // A limiter that adapts itself may refuse the request before.
            all.extend(self.clone().refused(&answers, request, now));
        }
        for it in &unknown {
            self.limiters[it.limiter].settle(request.key(&it.rule), now);
        }
        let answers = self.answers(&concerned, request, now);
        all.extend(self.clone().refused(&answers, request, now));
        if answers.iter().any(|(it, answer)| it.is_enforced() && *answer == Answer::Refuses) {
            return all;
        }
        // A probe that was taken before is given back.
        let probe =
            |(it, answer): &&(Active, Answer)| *answer == Answer::Admits && unknown.contains(it);
        for (it, _) in answers.iter().filter(probe) {
            let mut given_back = self.clone();
            let (asked, limiter) = (request.asked(&it.rule), &mut given_back.limiters[it.limiter]);
            let generation = limiter.take(asked, now);
            limiter.end(asked.key, asked.permits, generation, Outcome::Cancelled, now);
            all.extend(given_back.refused(&answers, request, now));
        }
        all.extend(self.admitted(&answers, request, number, now));
        all
    }

    fn answers(
        &mut self,
        concerned: &[Active],
        request: &Request,
        now: u64,
    ) -> Vec<(Active, Answer)> {
        let answer =
            |it: &Active| (*it, self.limiters[it.limiter].answer(request.asked(&it.rule), now));
        concerned.iter().map(answer).collect()
    }

    /// Returns the states after a refusal by each of the rules that refuse, or may refuse.
    fn refused(
        self,
        answers: &[(Active, Answer)],
        request: &Request,
        now: u64,
    ) -> Vec<(Self, Verdict)> {
        let may_refuse = |it: &Active, answer| {
            it.is_enforced() && matches!(answer, Answer::Refuses | Answer::Either)
        };
        let mut states = Vec::new();
        // Rules that decide together refuse by a peek, which is no demand at a warm-up.
        let alone = answers.len() == 1 && self.active.len() == 1;
        for (place, (it, answer)) in answers.iter().enumerate() {
            if !may_refuse(it, *answer) {
                continue;
            }
            let mut refused = self.clone();
            for (other, (it, answer)) in answers.iter().enumerate() {
                let answer = if other == place { Answer::Refuses } else { *answer };
                refused.limiters[it.limiter].note_answer(request.asked(&it.rule), answer);
            }
            let verdict = Verdict::Refused(vec![it.rule.name]);
            states.push((refused.with_refusals(answers, request, now), verdict.clone()));
            if !alone {
                states.push((refused, verdict));
            }
        }
        states
    }

    /// Returns the state in which each warm-up that refuses has noted that as demand.
    fn with_refusals(&self, answers: &[(Active, Answer)], request: &Request, now: u64) -> Self {
        let mut noted = self.clone();
        for (it, _) in answers.iter().filter(|(_, answer)| *answer == Answer::Refuses) {
            noted.limiters[it.limiter].note_refused(request.asked(&it.rule), now);
        }
        noted
    }

    /// Returns the states after an admission. A limiter in the shadow that may have refused the
    /// request has given its permits or not.
    fn admitted(
        mut self,
        answers: &[(Active, Answer)],
        request: &Request,
        number: usize,
        now: u64,
    ) -> Vec<(Self, Verdict)> {
        let wait = answers
            .iter()
            .filter(|(it, _)| it.is_enforced())
            .map(|(_, answer)| if let Answer::Waits(wait) = answer { *wait } else { 0 });
        let verdict = Verdict::Admitted { wait: wait.max().unwrap_or_default() };
        for (it, answer) in answers.iter().filter(|(_, answer)| *answer == Answer::Refuses) {
            self.limiters[it.limiter].note_answer(request.asked(&it.rule), *answer);
        }
        let noted = self.with_refusals(answers, request, now);
        let mut states = vec![(noted, Vec::new())];
        if states[0].0 != self {
            states.push((self, Vec::new()));
        }
        for (it, answer) in answers {
            let asked = request.asked(&it.rule);
            let may_give = matches!(answer, Answer::Admits | Answer::Waits(_) | Answer::Either);
            // Of a breaker, the reference has at least the requests that count.
            let may_refuse =
                *answer == Answer::Either && !it.is_enforced() && it.rule.limit.is_in_flight();
            if !may_give {
                continue;
            }
            let mut without = if may_refuse { states.clone() } else { Vec::new() };
            for (state, _) in &mut without {
                state.limiters[it.limiter].note_answer(asked, Answer::Refuses);
            }
            for (state, charges) in &mut states {
                let generation = state.limiters[it.limiter].take(asked, now);
                let Asked { key, permits, .. } = asked;
                charges.push(Charge { limiter: it.limiter, key, permits, generation });
            }
            states.extend(without);
        }
        let held = |(mut state, charges): (Self, _)| {
            state.held.insert(number, charges);
            (state, verdict.clone())
        };
        states.into_iter().map(held).collect()
    }

    /// Ends a request that was admitted.
    pub(super) fn end(&mut self, number: usize, outcome: Outcome, now: u64) {
        for Charge { limiter, key, permits, generation } in
            self.held.remove(&number).unwrap_or_default()
        {
            self.limiters[limiter].end(key, permits, generation, outcome, now);
        }
    }
}
