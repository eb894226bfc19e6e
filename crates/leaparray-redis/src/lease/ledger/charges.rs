//! Charged and free permits of a limit.

use std::collections::BTreeMap;

use super::demand::{Demand, Share, UNIT, pace};
use crate::lease::LeaseConfig;
use crate::lease::message::{Ahead, Ask, MAX_MOVES};

/// The part of the state that expires once no window needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Charges {
    pub(super) expires: u64,
    /// The permits charged in each bucket.
    pub(super) buckets: BTreeMap<u64, u64>,
    /// The permits granted ahead, by the first bucket of their use, and the permits granted at once
    /// in the last step.
    pub(super) begins: BTreeMap<u64, u64>,
    pub(super) demand: Demand,
}

/// The permits that are not used, from each bucket on.
#[derive(Debug)]
pub(super) struct Free {
    limit: u64,
    /// The most permits that can be used in a window that ends with the bucket of this index, from
    /// the present one on, or with a later one.
    used: Vec<u64>,
    /// The permits that were granted since then.
    pub(super) taken: u64,
}

impl Free {
    /// Returns the permits that are free from the bucket of this index on.
    fn from(&self, index: usize) -> u64 {
        let used = self.used.get(index).copied().unwrap_or_default();
        self.limit.saturating_sub(used + self.taken)
    }

    pub(super) fn now(&self) -> u64 {
        self.from(0)
    }
}

impl Charges {
    /// Returns what is free in bucket `k` and in those to come in which a lease may begin.
    pub(super) fn free(&self, config: &LeaseConfig, k: u64) -> Free {
        let at = |map: &BTreeMap<u64, u64>, bucket| map.get(&bucket).copied().unwrap_or_default();
        let n = u64::from(config.buckets());
        // A window has all permits charged in it or later, except for permits that begin after its
        // end. In the window that ends now, charges in buckets to come count, too: their permits may
        // be used in it.
        let later: u64 = self.begins.range(k + 1..).map(|it| it.1).sum();
        let mut sum = self.buckets.values().sum::<u64>().saturating_sub(later);
        let mut used = vec![sum];
        for end in k + 1..=k + u64::from(config.validity()) {
            let leaves = end.checked_sub(n).map_or(0, |bucket| at(&self.buckets, bucket));
            sum = (sum + at(&self.begins, end)).saturating_sub(leaves);
            used.push(sum);
        }
        for index in (1..used.len()).rev() {
            used[index - 1] = used[index - 1].max(used[index]);
        }
        Free { limit: config.limit(), used, taken: 0 }
    }

    /// Returns the most permits that a node of this weight may have at once. If other nodes have
    /// requests that wait, it is a share of what a step has if the limit is used evenly: permits
    /// that become free in one burst would be used in one burst, by the nodes that ask first.
    pub(super) fn most_at_once(&self, config: &LeaseConfig, weight: u64, k: u64) -> u64 {
        let others = self.demand.weights();
        if others.waiting == 0 {
            return u64::MAX;
        }
        let step = u64::from(config.step());
        let granted: u64 = self.begins.range(..=k).map(|it| it.1).sum();
        let rest = (pace(config) * step).saturating_sub(granted);
        let part = weight * UNIT / (others.all + weight).max(1);
        (rest * part / UNIT).max(1).min(rest)
    }

    /// Grants a node its share of the permits that become free within its horizon, up to `want`.
    ///
    /// Its share is by its weight, also for a node whose answers take long: it is told what it may
    /// use before that is free. In each bucket, at most as many permits are shared as a bucket has
    /// if the limit is used evenly.
    pub(super) fn grant_ahead(
        &mut self,
        config: &LeaseConfig,
        share: &mut Share,
        free: &mut Free,
        ask: &Ask,
        k: u64,
        want: u64,
    ) -> Vec<Ahead> {
        let validity = u64::from(config.validity());
        let part = share.weight * UNIT / self.demand.weights().all.max(1);
        let (mut ahead, mut want) = (Vec::new(), want);
        // Less than a window: if the clock steps back unseen, the node uses the permits before
        // their bucket. A permit that is used from now on leaves no window that ends with it.
        let horizon = ask.horizon.min(validity).min(u64::from(config.buckets()) - 1);
        for from in share.to + 1..=k + horizon {
            let unused = usize::try_from(from - k).map_or(0, |index| free.from(index));
            let begins = self.begins.get(&from).copied().unwrap_or_default();
            let due = share.rest + (unused + begins).min(pace(config)) * part;
            let count = (due / UNIT).min(want).min(unused);
            // Up to a permit is kept for the next bucket. A node that wants no more loses the rest.
            (share.to, share.rest) = (from, (due - count * UNIT).min(UNIT));
            if count > 0 {
                let bucket = (from + u64::from(ask.validity)).min(k + validity);
                *self.buckets.entry(bucket).or_default() += count;
                *self.begins.entry(from).or_default() += count;
                ahead.push(Ahead { from, bucket, count });
                want -= count;
                free.taken += count;
            }
        }
        ahead
    }

    /// Applies the moves of an ask in bucket `k` of a window of `n` buckets.
    pub(super) fn apply(&mut self, ask: &Ask, n: u64, k: u64) {
        for it in ask.moves.iter().take(MAX_MOVES) {
            if it.to.is_some_and(|to| to > it.from) {
                continue;
            }
            // At most the charge: the ask may have arrived late, after its bucket was dropped.
            let charged = self.buckets.get(&it.from).copied().unwrap_or_default();
            let count = it.count.min(charged);
            if count > 0 {
                self.buckets.insert(it.from, charged - count);
                if let Some(to) = it.to.filter(|to| to + n > k) {
                    *self.buckets.entry(to).or_default() += count;
                }
            }
        }
        self.buckets.retain(|_, charged| *charged > 0);
    }
}
