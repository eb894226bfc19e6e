//! A decision between the steps of a change: what falls falls, the list of rules is replaced, and
//! what rises rises. Each number does so on its own.

use super::file::Rule;
use super::history::Request;
use super::model::{Model, Verdict};

impl Model {
    /// Decides on a request between the steps of a change from these rules to `file`. Returns the
    /// states after the change, whichever numbers have changed by then.
    pub(super) fn decide_between(
        &self,
        file: &[Rule],
        request: &Request,
        (number, now): (usize, u64),
    ) -> Vec<(Self, Verdict)> {
        let mut states = Vec::new();
        let former: Vec<_> = self.active.iter().map(|it| it.rule).collect();
        for rules in mixtures(&former, &fallen(&former, &former, file)) {
            let mut state = self.clone();
            state.apply(&rules, now);
            for (mut state, verdict) in state.decide(request, number, now) {
                state.apply_since(self, file, now);
                states.push((state, verdict));
            }
        }
        let fallen = fallen(file, &former, file);
        for rules in mixtures(&fallen, file) {
            let mut state = self.clone();
            state.apply(&fallen, now);
            state.apply(&rules, now);
            for (mut state, verdict) in state.decide(request, number, now) {
                state.apply(file, now);
                states.push((state, verdict));
            }
        }
        states
    }
}

/// Returns rules of one of two lists with the numbers after what falls has fallen, and before what
/// rises has risen.
fn fallen(rules: &[Rule], from: &[Rule], to: &[Rule]) -> Vec<Rule> {
    let fall = |rule: &Rule| {
        let of_name = |list: &[Rule]| list.iter().find(|it| it.name == rule.name).copied();
        let limit = match (of_name(from), of_name(to)) {
            (Some(from), Some(to)) if from.becomes(&to) => from.limit.strictest(to.limit),
            _ => rule.limit,
        };
        Rule { limit, ..*rule }
    };
    rules.iter().map(fall).collect()
}

/// Returns each list that has, at each place, the rule of one list or of the other one.
fn mixtures(one: &[Rule], other: &[Rule]) -> Vec<Vec<Rule>> {
    let mut mixtures = vec![Vec::new()];
    for (&one, &other) in one.iter().zip(other) {
        let next = if one == other { vec![one] } else { vec![one, other] };
        let longer =
            |it: &Vec<Rule>| next.iter().map(|&rule| [&it[..], &[rule]].concat()).collect();
        mixtures = mixtures.iter().flat_map(|it| -> Vec<_> { longer(it) }).collect();
    }
    mixtures
}
