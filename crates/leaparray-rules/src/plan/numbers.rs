//! The numbers of the buckets of a version.

use std::collections::HashMap;
use std::sync::Arc;

use leaparray::MonotonicClock;

use super::Active;
use super::word::Words;
use crate::limiter::{BUCKETS, Buckets, RuleClock};

/// The numbers of the token buckets that the fast path finds by a word. The number of a bucket is
/// its place in its group, after the places of the groups before it. The groups are numbered in the
/// order of the rules, and may have buckets of no rule.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// By the places of the rules.
    of_rules: Box<[u32]>,
    /// The places of the rules, by these numbers.
    rules: Box<[u32]>,
}

/// Stands for no rule, and for no number.
const NONE: u32 = u32::MAX;

/// The groups of the numbered buckets.
pub(super) type Groups = Box<[Arc<Buckets<MonotonicClock>>]>;

impl Numbers {
    /// Numbers the buckets of rules. Also returns their groups.
    pub(super) fn of<C: RuleClock>(rules: &[Active<C>]) -> (Self, Groups) {
        let (mut groups, mut places) = (Vec::new(), HashMap::new());
        let mut all = Vec::new();
        let of_rules = rules.iter().zip(0..).map(|(active, rule)| {
            let bucket = active.fast_bucket()?;
            let group = *places.entry(Arc::as_ptr(bucket.group())).or_insert_with(|| {
                groups.push(Arc::clone(bucket.group()));
                groups.len() - 1
            });
            let number = group * BUCKETS + bucket.slot();
            if number >= Words::RULES {
                return None;
            }
            all.resize(all.len().max((group + 1) * BUCKETS), NONE);
            all[number] = rule;
            u32::try_from(number).ok()
        });
        let of_rules = of_rules.map(|it: Option<u32>| it.unwrap_or(NONE)).collect();
        // The word of a rule without a bucket would lead to a group without a number.
        groups.truncate(Words::RULES / BUCKETS);
        (Self { of_rules, rules: all.into() }, groups.into())
    }

    /// Returns the number of the bucket of a rule, if it has one.
    pub(super) fn of_rule(&self, rule: usize) -> Option<u64> {
        let number = self.of_rules.get(rule).copied()?;
        (number != NONE).then_some(number.into())
    }

    /// Returns the place of the rule with a bucket.
    pub(super) fn rule(&self, number: u64) -> Option<usize> {
        let rule = self.rules.get(usize::try_from(number).ok()?).copied()?;
        (rule != NONE).then_some(rule as usize)
    }
}
