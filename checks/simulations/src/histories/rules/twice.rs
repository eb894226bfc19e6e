//! A decision beside a change: by numbers of two versions, or made anew.

use super::file::{Limit, Rule};
use super::history::Request;
use super::limiter::Answer;
use super::model::{Active, Model, Verdict};

/// The rest of the charge of a decision that was taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remains {
    /// It was given back, or never taken.
    Nothing,
    All,
    /// It was given back, but not the idle time before a request of a pace.
    IdleTime,
}

/// Returns each rest that the charge of a rule may leave.
fn remains(it: &Active, next: &Model) -> &'static [Remains] {
    use Remains::{All, IdleTime, Nothing};
    let is_kept = next.has(it.limiter);
    match it.rule.limit {
        Limit::Pace { .. } => &[Nothing, All, IdleTime],
        // They have no refund, or one for a limiter that was not changed.
        Limit::Bucket { .. } | Limit::WarmUp { .. } => &[Nothing, All],
        limit if limit.is_rate() && (it.rule.key.is_some() || !is_kept) => &[Nothing, All],
        _ => &[Nothing],
    }
}

impl Model {
    /// Decides on a request by these rules, then by those of `next`, the version after it. Returns
    /// the states for all combinations of what remains of the first decision: at a rule with a key,
    /// at a bucket that is changed, at a warm-up, at a pace, and at a limiter that is replaced.
    ///
    /// With `file`, the first decision is by the numbers before the change.
    pub(super) fn decide_twice(
        &self,
        next: &Self,
        file: Option<&[Rule]>,
        request: &Request,
        (number, now): (usize, u64),
    ) -> Vec<(Self, Verdict)> {
        let concerned = self.concerned(request);
        let charged: Vec<_> = concerned.iter().filter(|it| remains(it, next).len() > 1).collect();
        let mut states = vec![if file.is_some() { self.clone() } else { next.clone() }];
        for it in &charged {
            let asked = request.asked(&it.rule);
            for place in 0..states.len() {
                for remains in remains(it, next).iter().filter(|it| **it != Remains::Nothing) {
                    let mut state = states[place].clone();
                    let limiter = &mut state.limiters[it.limiter];
                    if let Answer::Admits | Answer::Waits(_) = limiter.answer(asked, now) {
                        limiter.take(asked, now);
                        if *remains == Remains::IdleTime {
                            limiter.give_back(asked);
                        }
                        states.push(state);
                    }
                }
            }
        }
        // The first one is that without a charge, by `next` alone.
        let states = states.into_iter().skip(1);
        let replaced = charged.iter().filter(|it| !next.has(it.limiter));
        let replaced: Vec<_> = replaced.map(|it| it.limiter).collect();
        let decide = |mut state: Self| {
            if let Some(file) = file {
                state.apply(file, now);
                // Those have it back. Their successors were charged with it.
                for limiter in &replaced {
                    state.limiters[*limiter] = self.limiters[*limiter].clone();
                }
            }
            state.decide(request, number, now)
        };
        states.flat_map(decide).collect()
    }

    /// Returns the rules of this version that refuse a request by their number in `other`, the
    /// version before or after it, or by what falls between the two.
    pub(super) fn refusers_by(&self, other: &Self, request: &Request, now: u64) -> Vec<u8> {
        let mut refusers = Vec::new();
        for it in self.concerned(request) {
            let same = other.active.iter().find(|other| other.limiter == it.limiter);
            let Some(same) = same.filter(|same| it.is_enforced() || same.is_enforced()) else {
                continue;
            };
            let strictest = it.rule.limit.strictest(same.rule.limit);
            let may_refuse = [same.rule.limit, strictest].into_iter().any(|limit| {
                let mut limiter = other.limiters[it.limiter].clone();
                limiter.limit = limit;
                let answer = limiter.answer(request.asked(&it.rule), now);
                matches!(answer, Answer::Refuses | Answer::Either)
            });
            if may_refuse {
                refusers.push(it.rule.name);
            }
        }
        refusers
    }

    /// Returns the state in which the limiters of this version have noted that they have refused a
    /// request.
    pub(super) fn with_refusal_of(&self, request: &Request, now: u64) -> Self {
        let mut noted = self.clone();
        for it in self.concerned(request) {
            noted.limiters[it.limiter].note_refused(request.asked(&it.rule), now);
        }
        noted
    }
}
