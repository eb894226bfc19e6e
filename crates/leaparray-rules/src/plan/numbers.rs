//! The numbers of the buckets of a version.

use std::collections::HashMap;
use std::sync::Arc;

use leaparray::MonotonicClock;
use leaparray::flow::TokenBucket;

use super::Active;
use super::word::Words;
use crate::limiter::{BUCKETS, Buckets, RuleClock};

/// The numbers of the token buckets that the fast path finds by a word. The number of a bucket of a
/// group is its place there, after the places of the groups before it. The groups are numbered in
/// the order of the rules, and may have buckets of no rule. The buckets that are alone follow.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// By the places of the rules.
    of_rules: Box<[u32]>,
    /// The places of the rules, by these numbers.
    rules: Box<[u32]>,
}

/// Stands for no rule, and for no number.
const NONE: u32 = u32::MAX;

/// The numbered buckets.
#[derive(Default)]
pub(super) struct Numbered {
    groups: Box<[Arc<Buckets<MonotonicClock>>]>,
    alone: Box<[Arc<TokenBucket>]>,
}

impl Numbered {
    /// Returns the bucket with a number.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
    pub(super) fn get(&self, number: u64) -> Option<&TokenBucket> {
        let number = usize::try_from(number).ok()?;
        match self.groups.get(number / BUCKETS) {
            Some(group) => Some(group.get(number)),
            None => Some(self.alone.get(number - self.groups.len() * BUCKETS)?),
        }
    }
}

impl Numbers {
    /// Numbers the buckets of rules. Also returns these.
    pub(super) fn of<C: RuleClock>(rules: &[Active<C>]) -> (Self, Numbered) {
        let (mut groups, mut places, mut alone) = (Vec::new(), HashMap::new(), Vec::new());
        let mut numbers = Vec::new();
        for (active, rule) in rules.iter().zip(0..) {
            let Some(bucket) = active.fast_bucket() else { continue };
            match bucket.group() {
                Ok((group, slot)) => {
                    let group = *places.entry(Arc::as_ptr(group)).or_insert_with(|| {
                        groups.push(Arc::clone(group));
                        groups.len() - 1
                    });
                    numbers.push((rule, group * BUCKETS + slot));
                }
                Err(bucket) => alone.push((rule, Arc::clone(bucket))),
            }
        }
        let first = groups.len() * BUCKETS;
        numbers.extend(alone.iter().zip(first..).map(|((rule, _), number)| (*rule, number)));
        // Others are asked by the plan. A word has no number for them.
        numbers.retain(|(_, number)| *number < Words::RULES);
        let len = if numbers.is_empty() { 0 } else { rules.len() };
        let mut of_rules = vec![NONE; len];
        let mut all = vec![NONE; numbers.iter().map(|it| it.1 + 1).max().unwrap_or_default()];
        for (rule, number) in numbers {
            of_rules[rule as usize] = u32::try_from(number).unwrap_or(NONE);
            all[number] = rule;
        }
        // The word of a rule without a number would lead to further ones.
        groups.truncate(Words::RULES / BUCKETS);
        let alone = alone.into_iter().map(|(_, bucket)| bucket);
        let alone = alone.take(Words::RULES - groups.len() * BUCKETS).collect();
        let numbered = Numbered { groups: groups.into(), alone };
        (Self { of_rules: of_rules.into(), rules: all.into() }, numbered)
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
