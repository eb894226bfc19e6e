//! The demand of all nodes, and the shares and turns of nodes that lack permits.

use std::collections::BTreeMap;

use crate::lease::LeaseConfig;
use crate::lease::message::MAX_EXACT;

/// As many nodes may ask in each step, also if it has fewer permits: they cost the server little.
const FEW_ASKS: u64 = 64;

/// At most as many nodes that lack permits are told to ask in a second.
const MOST_ASKS: u64 = 1_800;

/// The most time between two of these asks in a bucket, in microseconds. The permits of a bucket
/// are free from its start on, so the nodes of a long bucket do not wait for most of it.
const SPACING: u64 = 1_000;

/// The demand of all nodes, for fair shares. The limit does not depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Demand {
    /// The [step](LeaseConfig::step) of the last ask.
    step: u64,
    /// The permits that were granted in that step.
    pub(super) granted: u64,
    /// The permits that were wanted in that step, and in the one before.
    wanted: u64,
    wanted_before: u64,
    /// The weights of the nodes that lack permits, by the step of their last ask.
    lacking: BTreeMap<u64, Weights>,
    /// The number of the nodes that were told to ask again in each bucket to come.
    due: BTreeMap<u64, u64>,
}

/// The weights of nodes that lack permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Weights {
    pub(super) all: u64,
    /// Of the nodes with requests that wait for longer than an answer.
    pub(super) waiting: u64,
}

/// The share of a node that lacks permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Share {
    /// The step of its last ask.
    pub(super) since: u64,
    pub(super) weight: u64,
    pub(super) is_waiting: bool,
    /// The bucket up to which it has had its share of the permits that become free.
    pub(super) to: u64,
    /// The part of a permit that it has not had, in units of 1 / [`UNIT`].
    pub(super) rest: u64,
}

/// Parts of permits are multiples of 1 / 4,096.
pub(super) const UNIT: u64 = 4_096;

impl Demand {
    /// Notes that `want` permits are wanted in bucket `k` of a step, while `free` are free. Returns
    /// how many of them a node may have: in a shortage, a share in proportion to what it wants, and
    /// at least one.
    pub(super) fn share_of(&mut self, want: u64, free: u64, config: &LeaseConfig, k: u64) -> u64 {
        let step = k / u64::from(config.step());
        if self.step != step {
            let wanted_before = if self.step + 1 == step { self.wanted } else { 0 };
            (self.step, self.granted, self.wanted, self.wanted_before) =
                (step, 0, 0, wanted_before);
        }
        self.due.retain(|&bucket, _| bucket > k);
        self.wanted = (self.wanted + want).min(MAX_EXACT / 2);
        let wanted = self.wanted.max(self.wanted_before);
        // Those that the step has had so far.
        let had = (free + self.granted).min(config.limit());
        if wanted <= had {
            return want;
        }
        // In two steps, each exact in doubles: a script computes the same.
        (want * (had * 4_096 / wanted) / 4_096).max(1)
    }

    pub(super) fn weights(&self) -> Weights {
        self.lacking.values().fold(Weights::default(), |sum, it| Weights {
            all: (sum.all + it.all).min(MAX_EXACT / 2),
            waiting: (sum.waiting + it.waiting).min(MAX_EXACT / 2),
        })
    }

    /// Adds a node to the weights of the nodes that lack permits.
    pub(super) fn lack(&mut self, share: &Share) {
        let it = self.lacking.entry(share.since).or_default();
        it.all = (it.all + share.weight).min(MAX_EXACT / 2);
        let waiting = if share.is_waiting { share.weight } else { 0 };
        it.waiting = (it.waiting + waiting).min(MAX_EXACT / 2);
    }

    /// Removes a node from these weights, and all nodes that have not asked for a window.
    pub(super) fn forget(&mut self, share: &Share, config: &LeaseConfig, k: u64) {
        let steps = u64::from(config.buckets() / config.step());
        let current = k / u64::from(config.step());
        self.lacking.retain(|&since, _| since + steps > current);
        if let Some(it) = self.lacking.get_mut(&share.since) {
            it.all = it.all.saturating_sub(share.weight);
            if share.is_waiting {
                it.waiting = it.waiting.saturating_sub(share.weight);
            }
        }
    }

    /// Returns whether so many nodes take turns that the next bucket in which one may ask has no
    /// room. Then a node with requests that wait takes its turn also if it got all that it wanted:
    /// otherwise, it would ask for each request.
    pub(super) fn is_crowded(&self, config: &LeaseConfig, k: u64) -> bool {
        let next = k + u64::from(config.step());
        self.due.get(&next).is_some_and(|due| *due >= room(config, true))
    }

    /// Returns the time at which a node that lacks permits is to ask again: in the next bucket,
    /// from a step on, that has a permit for each node that was told the same. If none has, the
    /// asks are spread evenly over a window. The asks of a bucket are spread evenly over it, but
    /// are at most [`SPACING`] apart, so that other clients of the server rarely wait for more than
    /// one of them.
    pub(super) fn turn(&mut self, config: &LeaseConfig, k: u64, waits: bool) -> u64 {
        let (n, step) = (u64::from(config.buckets()), u64::from(config.step()));
        let room = room(config, waits);
        let due = |bucket: &u64| self.due.get(bucket).copied().unwrap_or_default();
        let mut buckets = k + step..=k + n;
        let least = buckets.clone().min_by_key(due).unwrap_or(k + n);
        let turn = buckets.find(|it| due(it) < room).unwrap_or(least);
        let due = self.due.entry(turn).or_default();
        let place = *due % room;
        *due += 1;
        turn * config.bucket_micros() + place * SPACING.min(config.bucket_micros() / room)
    }
}

/// Returns the permits that a bucket has if the limit is used evenly.
pub(super) fn pace(config: &LeaseConfig) -> u64 {
    config.limit().div_ceil(config.buckets().into())
}

/// Returns how many nodes that lack permits are told to ask in a bucket: as many as it has permits
/// to grant if the limit is used evenly. If their requests wait, it is half as many again, since a
/// node may find that others were faster, but no more than [`MOST_ASKS`] in a second.
fn room(config: &LeaseConfig, waits: bool) -> u64 {
    let few = FEW_ASKS / u64::from(config.step());
    let room = config.limit() / u64::from(config.buckets());
    if !waits {
        return room.max(few);
    }
    let room = config.limit() * 3 / u64::from(config.buckets()) / 2;
    room.max(few).min((MOST_ASKS * config.bucket_micros() / 1_000_000).max(1))
}
