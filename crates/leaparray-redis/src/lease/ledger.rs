//! The server's side of the protocol as a state machine: the specification of the script.

use std::collections::BTreeMap;

use super::LeaseConfig;
use super::message::{Answer, Ask, Epoch, MAX_EXACT, MAX_MOVES};

/// The state of one limit on the server: what the script of an engine has to do, without a server.
///
/// Use it to test a service without a server, or to test another [`Engine`](crate::Engine) against
/// it.
///
/// ```
/// use leaparray_redis::lease::{Ask, LeaseConfig, Ledger};
/// use std::time::Duration;
///
/// let config = LeaseConfig::of_buckets(10, 10, Duration::from_secs(1))?;
/// let mut ledger = Ledger::new(config);
/// let ask = |seq| Ask {
///     node: 1,
///     seq,
///     nonce: seq,
///     epoch: None,
///     want: 8,
///     validity: 2,
///     moves: vec![],
/// };
/// // The state is blank, so leases of a lost state may still be in use.
/// let answer = ledger.lease(0, 1, &ask(1));
/// assert_eq!((answer.granted, answer.open_in), (0, 1_700_000));
/// let answer = ledger.lease(1_700_000, 1, &ask(2));
/// assert_eq!((answer.granted, answer.bucket, answer.free), (8, 19, 2));
/// # Ok::<_, leaparray_redis::lease::LeaseConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    config: LeaseConfig,
    mark: Option<Mark>,
    charges: Option<Charges>,
    /// The last ask of each incarnation of a node. Each expires on its own.
    last: BTreeMap<u64, Last>,
}

/// The part of the state that does not expire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mark {
    epoch: Epoch,
    /// The end of the quarantine: nothing is granted before.
    open: u64,
    /// The highest time seen.
    high: u64,
    /// The last bucket that was charged in this epoch.
    charged_to: u64,
}

/// The part of the state that expires once no window needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Charges {
    expires: u64,
    /// The permits charged in each bucket.
    buckets: BTreeMap<u64, u64>,
    demand: Demand,
}

/// As many nodes may ask in each step, also if it has fewer permits: they cost the server little.
const FEW_ASKS: u64 = 64;

/// The demand of all nodes, for fair shares. The limit does not depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Demand {
    /// The [step](LeaseConfig::step) of the last ask.
    step: u64,
    /// The permits that were granted in that step.
    granted: u64,
    /// The permits that were wanted in that step, and in the one before.
    wanted: u64,
    wanted_before: u64,
    /// The number of the nodes that were told to ask again in each bucket to come.
    due: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Last {
    expires: u64,
    seq: u64,
    nonce: u64,
    epoch: Epoch,
    granted: u64,
    bucket: u64,
}

impl Ledger {
    /// Creates the ledger of a limit on a blank server.
    #[must_use]
    pub const fn new(config: LeaseConfig) -> Self {
        Self { config, mark: None, charges: None, last: BTreeMap::new() }
    }

    /// Returns the time of the limit when the server's clock reads `time`. It is that time, but
    /// never earlier than at an earlier ask. The buckets of the limit are buckets of this time.
    #[must_use]
    pub fn time_of_limit(&self, time: u64) -> u64 {
        self.mark.as_ref().map_or(time, |it| it.high.max(time))
    }

    /// Loses the charges and keeps the rest, as a server does that evicts keys.
    pub fn evict_charges(&mut self) {
        self.charges = None;
    }

    /// Loses the last asks of all nodes and keeps the rest, as a server does that evicts keys.
    ///
    /// If two asks of a node are delivered again afterwards, in order, the moves of the second one
    /// are applied twice: the first one is stored as the last ask. So a server must not evict keys.
    pub fn evict_nodes(&mut self) {
        self.last.clear();
    }

    /// Answers an ask.
    ///
    /// `time` is the server's time in microseconds since the Unix epoch. `identity` names the run
    /// of the server as a primary: it has to change when the server restarts and when it is
    /// promoted. A time so late that its sum with the [retention](LeaseConfig::retention) is
    /// [`MAX_EXACT`] or more counts as the latest other one.
    pub fn lease(&mut self, time: u64, identity: u64, ask: &Ask) -> Answer {
        let config = self.config;
        let (n, b) = (u64::from(config.buckets()), config.bucket_micros());
        let time = time.min(MAX_EXACT - 1 - config.buckets_micros(2));
        self.expire(time);

        // The time of the limit never goes back. Otherwise, a window that has ended could come
        // again after its charges were dropped.
        let now = self.time_of_limit(time);
        let k = now / b;
        let mut mark = self.mark_at(now, identity);
        // Counted from `now`: the charges have to stay while the time of the limit stands still.
        let expires = now + config.buckets_micros(2);
        let charges = self.charges.get_or_insert_default();
        charges.expires = expires;
        // No grant from now on can share a window with a use in bucket k - n or before.
        charges.buckets.retain(|&bucket, _| bucket + n > k);

        // The transport may deliver an ask twice, and asks out of order. If a move were applied
        // twice, it would take the charge of another lease. The number of the ask for a lease
        // expires after the bucket of the lease has been dropped. So without a number, the moves
        // are of no use, or the number was evicted, and they may have been applied.
        let last = self.last.get(&ask.node);
        let is_new = last.is_none_or(|it| it.seq < ask.seq);
        let is_next = last.is_some_and(|it| it.seq < ask.seq);
        // Moves of another epoch are about charges that are lost. If the clock has stepped back
        // with the loss, the charges of this epoch may be in buckets of the same numbers.
        if is_next && ask.epoch == Some(mark.epoch) {
            charges.apply(ask, n, k);
        }

        // All charges count, also those in buckets to come: their permits may still be used.
        let free = config.limit().saturating_sub(charges.buckets.values().sum());
        let answer = Answer {
            seq: ask.seq,
            epoch: mark.epoch,
            now,
            granted: 0,
            bucket: k + u64::from(ask.validity.min(config.validity())),
            retry_in: 0,
            open_in: mark.open.saturating_sub(now),
            free,
            behind: now - time,
            is_taken: false,
        };
        // A repeated ask gets the answer that may have been lost. An ask that was overtaken gets
        // nothing: its node no longer waits for the answer. If it does, or if the nonce is
        // another one, another process has sent the ask that the server knows: a grant to both
        // would be charged once.
        if let Some(last) = last.filter(|_| !is_new) {
            let is_same = last.seq == ask.seq && last.nonce == ask.nonce;
            let granted = if is_same && last.epoch == mark.epoch { last.granted } else { 0 };
            return Answer { granted, bucket: last.bucket, is_taken: !is_same, ..answer };
        }

        let want = ask.want.min(config.limit());
        let share = charges.demand.share_of(want, free, &config, k);
        let granted = if answer.open_in > 0 { 0 } else { want.min(free).min(share) };
        charges.demand.granted += granted;
        if granted > 0 {
            // Charged in the last bucket in which the permits can be used. If they were charged in
            // this bucket, the charge could leave the window before they are used.
            *charges.buckets.entry(answer.bucket).or_default() += granted;
            mark.charged_to = mark.charged_to.max(answer.bucket);
        }
        let (seq, nonce, epoch, bucket) = (ask.seq, ask.nonce, mark.epoch, answer.bucket);
        self.last.insert(ask.node, Last { expires, seq, nonce, epoch, granted, bucket });
        self.mark = Some(mark);
        let retry_in = match () {
            () if granted == want => 0,
            () if answer.open_in > 0 => answer.open_in,
            () => charges.demand.turn(&config, k) * b - now,
        };
        Answer { granted, retry_in, free: free - granted, ..answer }
    }

    /// Drops what has expired. Keys expire by the server's clock.
    fn expire(&mut self, time: u64) {
        self.charges = self.charges.take().filter(|it| time < it.expires);
        self.last.retain(|_, it| time < it.expires);
    }

    /// Returns the mark, of a new epoch if state may have been lost: if there is no mark, if
    /// another run of a server wrote it (a restart loads an old dump, and a promoted replica lags),
    /// or if charges are gone that a window needs.
    fn mark_at(&mut self, now: u64, identity: u64) -> Mark {
        let config = self.config;
        let (n, k) = (u64::from(config.buckets()), now / config.bucket_micros());
        let is_evicted = |it: &Mark| self.charges.is_none() && it.charged_to + n > k;
        let known = self.mark.take().filter(|it| it.epoch.identity == identity && !is_evicted(it));
        let mark = if let Some(mark) = known {
            Mark { high: now, ..mark }
        } else {
            self.charges = None;
            // Leases of the lost state end within v + 1 buckets from now, by any clock. So their
            // last use is in bucket k + v + 1 or before, and the last window with such a use ends
            // with bucket k + v + n. Nothing is granted before its end. If the clock has not
            // shifted with the loss, each of these is a bucket earlier.
            let open = now + config.buckets_micros(1);
            Mark { epoch: Epoch { identity, since: now }, open, high: now, charged_to: 0 }
        };
        self.mark = Some(mark.clone());
        mark
    }
}

impl Charges {
    /// Applies the moves of an ask in bucket `k` of a window of `n` buckets.
    fn apply(&mut self, ask: &Ask, n: u64, k: u64) {
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

impl Demand {
    /// Notes that `want` permits are wanted in bucket `k` of a step, while `free` are free. Returns
    /// how many of them a node may have: in a shortage, a share in proportion to what it wants, and
    /// at least one.
    fn share_of(&mut self, want: u64, free: u64, config: &LeaseConfig, k: u64) -> u64 {
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

    /// Returns the bucket in which a node that lacks permits is to ask again: the next one, from a
    /// step on, that has a permit for each node that was told the same. If none has, the asks are
    /// spread evenly over a window.
    fn turn(&mut self, config: &LeaseConfig, k: u64) -> u64 {
        let (n, step) = (u64::from(config.buckets()), u64::from(config.step()));
        // The permits that a bucket has to grant if the limit is used evenly.
        let room = (config.limit() / n).max(FEW_ASKS / step);
        let due = |bucket: &u64| self.due.get(bucket).copied().unwrap_or_default();
        let mut buckets = k + step..=k + n;
        let least = buckets.clone().min_by_key(due).unwrap_or(k + n);
        let turn = buckets.find(|it| due(it) < room).unwrap_or(least);
        *self.due.entry(turn).or_default() += 1;
        turn
    }
}
