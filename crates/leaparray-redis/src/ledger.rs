//! The server: the rules by which a limit is leased.

use std::collections::BTreeMap;

use crate::config::{LeaseConfig, micros};
use crate::message::{Answer, Ask, Epoch, NodeId, RunId};

/// The state of one limit on the server, and the rules by which it is leased. A script of a real server has to agree with it.
///
/// **Why the limit holds.** From its grant on, a permit is charged in the bucket of its use or in a later one, in its epoch: at
/// first in the last bucket of its lease (rule 7), and then in the bucket that the node tells (rule 4). Take the permits
/// that are used in the buckets (w − n, w], and among them the one that was granted last, in bucket k ≤ w. At its grant,
/// each of the others was charged in a bucket after w − n, so after k − n, and was in the sum that rule 6 has kept up to
/// the limit. Permits of another epoch are none of them: rule 2 lets n buckets pass after the end of their leases.
///
/// ```
/// use leaparray_redis::{Ask, Ledger, LeaseConfig, NodeId, RunId};
/// use std::time::Duration;
///
/// let config = LeaseConfig::new(10, 2, Duration::from_secs(2))?;
/// let mut ledger = Ledger::new(config);
/// let ask = |seq| Ask { node: NodeId(1), seq, epoch: None, want: 7, moves: Vec::new() };
/// let first = ledger.lease(1_000_000, RunId([1; 20]), &ask(1));
/// assert_eq!((first.granted, first.retry_in), (0, 4_000_000), "the quarantine after a start");
/// let second = ledger.lease(5_000_000, RunId([1; 20]), &ask(2));
/// assert_eq!((second.granted, second.bucket, second.free), (7, 6, 3));
/// # Ok::<_, leaparray_redis::LeaseConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    config: LeaseConfig,
    mark: Option<Mark>,
    /// The charged permits by bucket, those of the current epoch.
    charges: BTreeMap<u64, u64>,
    /// The last ask of each node, and the bucket in which it arrived.
    asks: BTreeMap<NodeId, (u64, u64)>,
    demand: Demand,
}

/// The part of the state that must outlive the charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mark {
    epoch: Epoch,
    /// Nothing is granted before this time.
    open: u64,
    /// The highest time that was seen.
    highest: u64,
}

/// The permits that nodes want, for fair shares. No part of the safety.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Demand {
    bucket: u64,
    /// The permits that were wanted in this bucket so far, and in the one before.
    now: u64,
    before: u64,
    /// The permits that were free at the first ask of this bucket.
    free: u64,
}

impl Ledger {
    /// Creates the state of a limit that no node has used.
    #[must_use]
    pub const fn new(config: LeaseConfig) -> Self {
        let demand = Demand { bucket: 0, now: 0, before: 0, free: 0 };
        Self { config, mark: None, charges: BTreeMap::new(), asks: BTreeMap::new(), demand }
    }

    /// Answers an ask at `time`, microseconds of the clock of the server, in its run `run`.
    pub fn lease(&mut self, time: u64, run: RunId, ask: &Ask) -> Answer {
        // Rule 1: time does not go back. If the clock is set back, it stands still until it has caught up: otherwise the window
        // would have a bucket twice.
        let now = self.mark.map_or(time, |mark| time.max(mark.highest));
        let bucket = self.config.bucket_of(now);
        let mark = self.mark_at(now, run);
        self.apply_moves(bucket, mark.epoch, ask);
        // Rule 5: a bucket leaves the window n buckets later.
        self.charges = self.charges.split_off(&(bucket + 1).saturating_sub(self.config.buckets()));
        // Rule 6: all charges together are at most the limit. Those of later buckets are permits that may be used now.
        let charged = self.charges.values().fold(0, |sum: u64, it| sum.saturating_add(*it));
        let free = self.config.limit().saturating_sub(charged);
        let is_open = mark.open <= now;
        let granted = if is_open { self.share(bucket, free, ask.want) } else { 0 };
        // Rule 7: a permit is charged at the end of its lease, because it may be used until then.
        let end = bucket + self.config.validity();
        if granted > 0 {
            *self.charges.entry(end).or_default() += granted;
        }
        let free = free - granted;
        Answer {
            epoch: mark.epoch,
            now,
            granted,
            bucket: end,
            free,
            retry_in: self.retry_in(now, mark.open, free),
        }
    }

    /// Rule 2: a server that has lost the leases, by a start with an older state or with none, begins a new epoch: it
    /// forgets what it may know wrongly, and grants nothing until no lease of an earlier epoch counts in a window.
    fn mark_at(&mut self, now: u64, run: RunId) -> Mark {
        let known = self.mark.filter(|mark| mark.epoch.run == run);
        let mut mark = known.unwrap_or_else(|| {
            self.charges.clear();
            self.asks.clear();
            let open = now.saturating_add(micros(self.config.quarantine()));
            Mark { epoch: Epoch { run, since: now }, open, highest: now }
        });
        mark.highest = now;
        self.mark = Some(mark);
        mark
    }

    /// Rule 3: an ask of another epoch moves nothing, nor does one that has arrived before: the permits in its buckets are those
    /// of other nodes. Rule 4: a move takes no more than is charged; from a bucket that is gone, it takes nothing. So a copy
    /// of an ask moves nothing even if its number is forgotten, which happens after its buckets have left the window.
    fn apply_moves(&mut self, bucket: u64, epoch: Epoch, ask: &Ask) {
        let life = self.config.buckets() + self.config.validity() + 2;
        self.asks.retain(|_, (_, arrived)| *arrived + life > bucket);
        let is_new = self.asks.get(&ask.node).is_none_or(|(seq, _)| *seq < ask.seq);
        if ask.epoch == Some(epoch) && is_new {
            for it in &ask.moves {
                let Some(charge) = self.charges.get_mut(&it.from) else { continue };
                let taken = it.count.min(*charge);
                *charge -= taken;
                if *charge == 0 {
                    self.charges.remove(&it.from);
                }
                if let Some(to) = it.to.filter(|_| taken > 0) {
                    let charge = self.charges.entry(to).or_default();
                    *charge = charge.saturating_add(taken);
                }
            }
        }
        if is_new {
            self.asks.insert(ask.node, (ask.seq, bucket));
        }
    }

    /// Returns the permits for an ask: what it wants, or its share if all nodes together want more than is free.
    fn share(&mut self, bucket: u64, free: u64, want: u64) -> u64 {
        let demand = &mut self.demand;
        if demand.bucket != bucket {
            let before = if demand.bucket + 1 == bucket { demand.now } else { 0 };
            *demand = Demand { bucket, now: 0, before, free };
        }
        demand.now = demand.now.saturating_add(want).min(LeaseConfig::MAX_LIMIT);
        let all = demand.now.max(demand.before);
        let share = if all > demand.free {
            // In floating point, as a script computes.
            #[expect(clippy::cast_precision_loss, reason = "these are below 2^53")]
            let share = want.min(LeaseConfig::MAX_LIMIT) as f64 * demand.free as f64 / all as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "not negative, and at most the limit"
            )]
            let share = share.ceil() as u64;
            share
        } else {
            want
        };
        share.min(want).min(free)
    }

    /// Returns the microseconds until permits may be free again.
    fn retry_in(&self, now: u64, open: u64, free: u64) -> u64 {
        if now < open {
            return open - now;
        }
        if free > 0 {
            return 0;
        }
        let oldest = self.charges.keys().next().copied().unwrap_or_default();
        self.config.start_of(oldest + self.config.buckets()).saturating_sub(now)
    }
}
