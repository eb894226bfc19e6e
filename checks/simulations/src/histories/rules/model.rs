//! The reference of a set of rules: what the documentation of `Rules` says of changes.

use std::collections::BTreeMap;

use leaparray::Outcome;

use super::file::{Mode, Rule};
use super::history::Request;
use super::limiter::{Answer, Limiter};

/// The time for which a rule that is gone can come back to its state.
const KEEP: u64 = 3_600_000;

/// The state of a set of rules. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    limiters: Vec<Limiter>,
    active: Vec<Active>,
    gone: Vec<(Active, u64)>,
    /// What the requests in flight have charged, by their numbers.
    held: BTreeMap<usize, Vec<Charge>>,
}

/// A rule with the place of its limiter.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Active {
    rule: Rule,
    limiter: usize,
}

/// What a request has charged at one rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Charge {
    limiter: usize,
    key: usize,
    permits: u64,
    generation: u64,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Admitted,
    /// Refused, by one of these rules.
    Refused(Vec<u8>),
}

impl Model {
    /// Replaces the rules.
    pub(super) fn apply(&mut self, file: &[Rule], now: u64) {
        let before = self.clone();
        self.apply_since(&before, file, now);
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
                self.limiters.push(Limiter::new(rule.limit, now));
                self.limiters.len() - 1
            };
            self.limiters[limiter].set(rule.limit, now);
            let carried = known.filter(|it| !it.rule.is_keyed && !rule.is_keyed);
            if let Some(known) = carried
                && known.rule.limit.is_rate()
                && rule.limit.is_rate()
            {
                let taken = self.limiters[known.limiter].charged(now);
                let at_begin = begun.limiters[known.limiter].clone().charged(now);
                let to = &mut self.limiters[limiter];
                let has = to.charged(now);
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
    fn has(&self, limiter: usize) -> bool {
        self.active.iter().any(|it| it.limiter == limiter)
    }

    fn concerned(&self, request: &Request) -> Vec<Active> {
        let concerns = |it: &&Active| {
            it.rule.mode != Mode::Off && it.rule.resources & 1 << request.resource != 0
        };
        self.active.iter().filter(concerns).copied().collect()
    }

    /// Decides on a request. One that is admitted is held under its number.
    pub(super) fn decide(&mut self, request: &Request, number: usize, now: u64) -> Verdict {
        let concerned = self.concerned(request);
        let key = |it: &Active| if it.rule.is_keyed { request.client } else { 0 };
        let mut answers: Vec<_> = concerned
            .iter()
            .map(|it| self.limiters[it.limiter].answer(key(it), request.permits, now))
            .collect();
        let refusers = |answers: &[Answer]| -> Vec<u8> {
            let pairs = concerned.iter().zip(answers);
            let refuses = |(it, answer): &(&Active, &Answer)| {
                it.rule.mode == Mode::Enforce && **answer == Answer::Refuses
            };
            pairs.filter(refuses).map(|(it, _)| it.rule.name).collect()
        };
        let refused = refusers(&answers);
        if !refused.is_empty() {
            return Verdict::Refused(refused);
        }
        for (it, answer) in concerned.iter().zip(&mut answers) {
            if *answer == Answer::Unknown {
                self.limiters[it.limiter].settle(key(it), now);
                *answer = self.limiters[it.limiter].answer(key(it), request.permits, now);
            }
        }
        let refused = refusers(&answers);
        if !refused.is_empty() {
            return Verdict::Refused(refused);
        }
        let mut charges = Vec::new();
        for (it, answer) in concerned.iter().zip(answers) {
            if answer == Answer::Admits {
                let (key, permits) = (key(it), request.permits);
                let generation = self.limiters[it.limiter].take(key, permits, now);
                charges.push(Charge { limiter: it.limiter, key, permits, generation });
            }
        }
        self.held.insert(number, charges);
        Verdict::Admitted
    }

    /// Ends a request that was admitted.
    pub(super) fn end(&mut self, number: usize, outcome: Outcome, now: u64) {
        for Charge { limiter, key, permits, generation } in
            self.held.remove(&number).unwrap_or_default()
        {
            self.limiters[limiter].end(key, permits, generation, outcome, now);
        }
    }

    /// Decides on a request by these rules, then by those of `next`, the version after it. Of what
    /// it charges by these, `stays` says what stays charged: by the places among the charges that
    /// cannot be given back, which are those of keys, of buckets that are changed, and of limiters
    /// that replace another one. `None` if there are fewer.
    ///
    /// With `file`, the first decision is by the numbers before the change.
    pub(super) fn decide_twice(
        &self,
        next: &Self,
        file: Option<&[Rule]>,
        request: &Request,
        stays: u32,
        (number, now): (usize, u64),
    ) -> Option<(Self, Verdict)> {
        let mut twice = if file.is_some() { self.clone() } else { next.clone() };
        let (mut place, mut replaced) = (0, Vec::new());
        for it in self.concerned(request) {
            let is_bucket = matches!(it.rule.limit, super::Limit::Bucket { .. });
            let is_replaced = !next.has(it.limiter);
            let stays_charged = it.rule.is_keyed || is_bucket || is_replaced;
            if !(it.rule.limit.is_rate() && stays_charged) {
                continue;
            }
            if is_replaced {
                replaced.push(it.limiter);
            }
            if stays & 1 << place != 0 {
                let key = if it.rule.is_keyed { request.client } else { 0 };
                let limiter = &mut twice.limiters[it.limiter];
                if limiter.answer(key, request.permits, now) != Answer::Admits {
                    return None;
                }
                limiter.take(key, request.permits, now);
            }
            place += 1;
        }
        if stays >> place != 0 {
            return None;
        }
        if let Some(file) = file {
            twice.apply(file, now);
            // Those have it back. Their successors were charged with it.
            for limiter in replaced {
                twice.limiters[limiter] = self.limiters[limiter].clone();
            }
        }
        let verdict = twice.decide(request, number, now);
        Some((twice, verdict))
    }

    /// Returns the rules of this version that refuse a request by their number in `other`, the
    /// version before or after it.
    pub(super) fn refusers_by(&self, other: &mut Self, request: &Request, now: u64) -> Vec<u8> {
        let mut refusers = Vec::new();
        for it in self.concerned(request) {
            let key = if it.rule.is_keyed { request.client } else { 0 };
            let same = other.active.iter().find(|other| other.limiter == it.limiter);
            let is_enforced = |rule: &Rule| rule.mode == Mode::Enforce;
            if same.is_some_and(|same| is_enforced(&it.rule) || is_enforced(&same.rule))
                && other.limiters[it.limiter].answer(key, request.permits, now) == Answer::Refuses
            {
                refusers.push(it.rule.name);
            }
        }
        refusers
    }
}
