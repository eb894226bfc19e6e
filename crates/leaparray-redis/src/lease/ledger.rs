//! The server's side of the protocol as a state machine: the specification of the script.

use std::collections::BTreeMap;

use super::LeaseConfig;
use super::message::{Ahead, Answer, Ask, Epoch, MAX_EXACT, MAX_MOVES};

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
///     seen: 0,
///     want: 8,
///     validity: 2,
///     horizon: 0,
///     weight: 0,
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

/// The state of a [group](super::LeaseKeys::in_group) of limits on the server: its mark, of which
/// the limits of the group have no part.
///
/// # The limit
///
/// The mark of a limit expires with its charges, when all of its leases have ended and their uses
/// have left the window. So a limit without a mark has no charge that a window needs, unless state
/// was lost. The group sees that by its own mark, which stays: it is of another identity, or it is
/// not there. Each lease of the lost state was granted before the first ask that the group then
/// sees, so a quarantine from that ask on is long enough for all limits.
///
/// The time of a limit never goes back while it has a mark. After that, the time of the group is
/// less than a bucket behind the highest one that any of its limits has seen. The mark is kept for
/// a bucket longer than the windows need, so a limit that begins anew does not begin before they
/// have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// The run of the server, and the end of the quarantine.
    mark: Option<(u64, u64)>,
    /// The highest time seen, less up to a bucket.
    high: u64,
}

impl Group {
    /// Begins a group whose limits were never used, without a quarantine. Returns whether it is
    /// new; it stays as it is otherwise.
    pub fn begin(&mut self, time: u64, identity: u64) -> bool {
        let is_new = self.mark.is_none();
        if is_new {
            (self.mark, self.high) = (Some((identity, time)), time);
        }
        is_new
    }

    /// Notes an ask. Returns the end of the quarantine.
    fn note(&mut self, now: u64, identity: u64, config: &LeaseConfig) -> u64 {
        let known = self.mark.filter(|(of, _)| *of == identity);
        let (_, open) =
            *self.mark.insert(known.unwrap_or_else(|| (identity, now + config.buckets_micros(1))));
        if known.is_none() || now >= self.high + config.bucket_micros() {
            self.high = now;
        }
        open
    }
}

/// The part of the state that does not expire, but for a limit of a group.
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
    /// The permits that were granted ahead, by the first bucket of their use, and those that were
    /// granted at once in the last step.
    begins: BTreeMap<u64, u64>,
    demand: Demand,
}

/// As many nodes may ask in each step, also if it has fewer permits: they cost the server little.
const FEW_ASKS: u64 = 64;

/// At most as many nodes that lack permits are told to ask in a second.
const MOST_ASKS: u64 = 1_800;

/// The most time between two of these asks in a bucket, in microseconds. The permits of a bucket
/// are free from its start on, so the nodes of a long bucket do not wait for most of it.
const SPACING: u64 = 1_000;

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
    /// The weights of the nodes that lack permits, by the step of their last ask.
    lacking: BTreeMap<u64, Weights>,
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
    ahead: Vec<Ahead>,
    share: Share,
}

/// The weights of nodes that lack permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Weights {
    all: u64,
    /// Of the nodes with requests that wait for longer than an answer.
    waiting: u64,
}

/// The share of a node that lacks permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Share {
    /// The step of its last ask.
    since: u64,
    weight: u64,
    is_waiting: bool,
    /// The bucket up to which it has had its share of the permits that become free.
    to: u64,
    /// The part of a permit that it has not had, in units of 1 / [`UNIT`].
    rest: u64,
}

/// Parts of permits are multiples of 1 / 4,096.
const UNIT: u64 = 4_096;

impl Ledger {
    /// Creates the ledger of a limit on a blank server.
    #[must_use]
    pub const fn new(config: LeaseConfig) -> Self {
        Self { config, mark: None, charges: None, last: BTreeMap::new() }
    }

    /// Takes the limit of the node whose ask is the next one. Granted permits stay charged.
    pub(crate) const fn set_limit_of(&mut self, config: &LeaseConfig) {
        self.config = *config;
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

    /// Loses the mark and keeps the rest, as a server does that evicts keys.
    pub fn evict_mark(&mut self) {
        self.mark = None;
    }

    /// Loses the last asks of all nodes and keeps the rest, as a server does that evicts keys.
    ///
    /// The next ask of a node that has had an answer begins an epoch. If the first two asks of a
    /// node are delivered again instead, in order, the moves of the second one are applied twice.
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
        self.answer(None, time, identity, ask)
    }

    /// Answers an ask of a limit of a group, as [`lease`](Self::lease).
    ///
    /// ```
    /// use leaparray_redis::lease::{Ask, Group, LeaseConfig, Ledger};
    /// use std::time::Duration;
    ///
    /// let config = LeaseConfig::of_buckets(10, 10, Duration::from_secs(1))?;
    /// let ask = |seq| Ask {
    ///     node: 1,
    ///     seq,
    ///     nonce: seq,
    ///     epoch: None,
    ///     seen: 0,
    ///     want: 8,
    ///     validity: 2,
    ///     horizon: 0,
    ///     weight: 0,
    ///     moves: vec![],
    /// };
    /// let mut group = Group::default();
    /// let answer = Ledger::new(config).lease_in(&mut group, 0, 1, &ask(1));
    /// assert_eq!((answer.granted, answer.open_in), (0, 1_700_000), "the group is new");
    /// let answer = Ledger::new(config).lease_in(&mut group, 1_700_000, 1, &ask(1));
    /// assert_eq!(answer.granted, 8, "a new limit of a known group");
    /// # Ok::<_, leaparray_redis::lease::LeaseConfigError>(())
    /// ```
    pub fn lease_in(&mut self, group: &mut Group, time: u64, identity: u64, ask: &Ask) -> Answer {
        self.answer(Some(group), time, identity, ask)
    }

    fn answer(&mut self, group: Option<&mut Group>, time: u64, identity: u64, ask: &Ask) -> Answer {
        let config = self.config;
        let (n, b) = (u64::from(config.buckets()), config.bucket_micros());
        let time = time.min(MAX_EXACT - 1 - config.buckets_micros(2));
        self.expire(time, group.is_some());

        // The time of the limit never goes back. Otherwise, a window that has ended could come
        // again after its charges were dropped.
        let now = self.time_of_limit(time).max(group.as_ref().map_or(0, |group| group.high));
        let k = now / b;
        let open_of_group = group.map(|group| group.note(now, identity, &config));
        let mut mark = self.mark_at(time, now, identity, open_of_group, ask);
        // Counted from `now`: the charges have to stay while the time of the limit stands still.
        let expires = now + config.buckets_micros(2);
        let charges = self.charges.get_or_insert_default();
        charges.expires = expires;
        // No grant from now on can share a window with a use in bucket k - n or before.
        charges.buckets.retain(|&bucket, _| bucket + n > k);
        let step = u64::from(config.step());
        charges.begins.retain(|&bucket, _| bucket + step > k);
        // While the time of the limit stands still, nodes may use permits that were granted ahead,
        // and return them: their charges count from here on.
        if time < now {
            charges.begins.retain(|&bucket, _| bucket <= k);
        }

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

        let mut free = charges.free(&config, k);
        let answer = Answer {
            seq: ask.seq,
            epoch: mark.epoch,
            now,
            granted: 0,
            ahead: Vec::new(),
            bucket: k + u64::from(ask.validity.min(config.validity())),
            retry_in: 0,
            open_in: mark.open.saturating_sub(now),
            free: free.now(),
            behind: now - time,
            is_taken: false,
        };
        // A repeated ask gets the answer that may have been lost. An ask that was overtaken gets
        // nothing: its node no longer waits for the answer. If it does, or if the nonce is
        // another one, another process has sent the ask that the server knows: a grant to both
        // would be charged once.
        if let Some(last) = last.filter(|_| !is_new) {
            let is_same = last.seq == ask.seq && last.nonce == ask.nonce;
            let is_granted = is_same && last.epoch == mark.epoch;
            let granted = if is_granted { last.granted } else { 0 };
            let ahead = if is_granted { last.ahead.clone() } else { Vec::new() };
            let bucket = last.bucket;
            // The node may take this answer and not the first one: it has seen this time then.
            if let Some(last) = self.last.get_mut(&ask.node).filter(|_| is_same) {
                last.expires = expires;
            }
            return Answer { granted, ahead, bucket, is_taken: !is_same, ..answer };
        }

        let want = ask.want.min(config.limit());
        let known = last.filter(|it| it.epoch == mark.epoch).map(|it| it.share).unwrap_or_default();
        let weight = ask.weight.min(config.limit());
        charges.demand.forget(&known, &config, k);
        let most = charges.most_at_once(&config, weight, k);
        let share = charges.demand.share_of(want, answer.free, &config, k);
        let is_open = answer.open_in == 0;
        let granted = if is_open { want.min(answer.free).min(share).min(most) } else { 0 };
        charges.demand.granted += granted;
        if granted > 0 {
            // Charged in the last bucket in which the permits can be used. If they were charged in
            // this bucket, the charge could leave the window before they are used.
            *charges.buckets.entry(answer.bucket).or_default() += granted;
            *charges.begins.entry(k).or_default() += granted;
            mark.charged_to = mark.charged_to.max(answer.bucket);
        }
        free.taken += granted;
        let (since, to) = (k / step, known.to.max(k));
        let mut share = Share { since, to, rest: known.rest, ..Share::default() };
        let mut ahead = Vec::new();
        if granted < want && is_open {
            (share.weight, share.is_waiting) = (weight, ask.horizon > 0);
            charges.demand.lack(&share);
            ahead = charges.grant_ahead(&config, &mut share, &mut free, ask, k, want - granted);
            let last = ahead.iter().map(|it| it.bucket).max();
            mark.charged_to = mark.charged_to.max(last.unwrap_or_default());
        }
        let (seq, nonce, epoch, bucket) = (ask.seq, ask.nonce, mark.epoch, answer.bucket);
        let last =
            Last { expires, seq, nonce, epoch, granted, bucket, ahead: ahead.clone(), share };
        self.last.insert(ask.node, last);
        self.mark = Some(mark);
        let is_turn = granted < want || ask.horizon > 0 && charges.demand.is_crowded(&config, k);
        let retry_in = match () {
            () if is_open && is_turn => charges.demand.turn(&config, k, ask.horizon > 0) - now,
            () if granted < want => answer.open_in,
            () => 0,
        };
        Answer { granted, ahead, retry_in, free: answer.free - granted, ..answer }
    }

    /// Drops what has expired. Keys expire by the server's clock.
    fn expire(&mut self, time: u64, in_group: bool) {
        let kept = self.config.buckets_micros(2);
        self.mark = self.mark.take().filter(|it| !in_group || time < it.high + kept);
        self.charges = self.charges.take().filter(|it| time < it.expires);
        self.last.retain(|_, it| time < it.expires);
    }

    /// Returns the mark, of a new epoch if state may have been lost: if there is no mark, if
    /// another run of a server wrote it (a restart loads an old dump, and a promoted replica lags),
    /// if charges are gone that a window needs, or if the node has had an answer to a later ask
    /// than the last one that is known.
    ///
    /// A mark that is missing was never there, if the limit belongs to a group that is open.
    /// Unless its charges or the last ask of the node are there, or the node has had an answer,
    /// which then is forgotten.
    fn mark_at(
        &mut self,
        time: u64,
        now: u64,
        identity: u64,
        open_of_group: Option<u64>,
        ask: &Ask,
    ) -> Mark {
        let config = self.config;
        let (n, k) = (u64::from(config.buckets()), now / config.bucket_micros());
        let is_evicted = |it: &Mark| self.charges.is_none() && it.charged_to + n > k;
        // A server that is restored from a snapshot of its memory has the same identity. The time
        // of the last answer to the node tells. That of an earlier epoch does not: the clock may
        // have stepped back since.
        let (seen, last) = (ask.seen.min(MAX_EXACT), self.last.get(&ask.node));
        let is_known = last.is_some_and(|it| it.expires >= seen + config.buckets_micros(2));
        // Until then, a lease of that time may be in use, and the last ask does not expire.
        let is_recent = seen > 0 && time < seen + config.buckets_micros(1);
        let since = self.mark.as_ref().map_or(0, |it| it.epoch.since);
        let is_of_this = |of: Epoch| of.identity == identity && of.since >= since;
        let is_forgotten = is_recent && !is_known && ask.epoch.is_some_and(is_of_this);
        // The mark of a limit of a group expires last. So it was evicted if it alone is not there.
        let is_torn = self.mark.is_none() && (self.charges.is_some() || last.is_some());
        let of_run = self.mark.take().filter(|it| it.epoch.identity == identity);
        let is_new = of_run.is_none() && !is_torn && !is_forgotten;
        let known = of_run.filter(|it| !is_evicted(it) && !is_forgotten);
        let mark = if let Some(mark) = known {
            Mark { high: now, ..mark }
        } else {
            self.charges = None;
            // Leases of the lost state end within v + 1 buckets from now, by any clock. So their
            // last use is in bucket k + v + 1 or before, and the last window with such a use ends
            // with bucket k + v + n. Nothing is granted before its end. If the clock has not
            // shifted with the loss, each of these is a bucket earlier.
            let shut = now + config.buckets_micros(1);
            let open = open_of_group.filter(|_| is_new).unwrap_or(shut);
            Mark { epoch: Epoch { identity, since: now }, open, high: now, charged_to: 0 }
        };
        self.mark = Some(mark.clone());
        mark
    }
}

/// The permits that are not used, from each bucket on.
#[derive(Debug)]
struct Free {
    limit: u64,
    /// The most permits that can be used in a window that ends with the bucket of this index, from
    /// the present one on, or with a later one.
    used: Vec<u64>,
    /// The permits that were granted since then.
    taken: u64,
}

impl Free {
    /// Returns the permits that are free from the bucket of this index on.
    fn from(&self, index: usize) -> u64 {
        let used = self.used.get(index).copied().unwrap_or_default();
        self.limit.saturating_sub(used + self.taken)
    }

    fn now(&self) -> u64 {
        self.from(0)
    }
}

impl Charges {
    /// Returns what is free in bucket `k` and in those to come in which a lease may begin.
    fn free(&self, config: &LeaseConfig, k: u64) -> Free {
        let at = |map: &BTreeMap<u64, u64>, bucket| map.get(&bucket).copied().unwrap_or_default();
        let n = u64::from(config.buckets());
        // A window has the permits that are charged in it or later, without those that begin after
        // its end. All charges count in the window that ends now, also those in buckets to come:
        // their permits may be used in it.
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
    fn most_at_once(&self, config: &LeaseConfig, weight: u64, k: u64) -> u64 {
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
    fn grant_ahead(
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

    fn weights(&self) -> Weights {
        self.lacking.values().fold(Weights::default(), |sum, it| Weights {
            all: (sum.all + it.all).min(MAX_EXACT / 2),
            waiting: (sum.waiting + it.waiting).min(MAX_EXACT / 2),
        })
    }

    /// Adds a node to the weights of the nodes that lack permits.
    fn lack(&mut self, share: &Share) {
        let it = self.lacking.entry(share.since).or_default();
        it.all = (it.all + share.weight).min(MAX_EXACT / 2);
        let waiting = if share.is_waiting { share.weight } else { 0 };
        it.waiting = (it.waiting + waiting).min(MAX_EXACT / 2);
    }

    /// Removes a node from these weights, and all nodes that have not asked for a window.
    fn forget(&mut self, share: &Share, config: &LeaseConfig, k: u64) {
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
    fn is_crowded(&self, config: &LeaseConfig, k: u64) -> bool {
        let next = k + u64::from(config.step());
        self.due.get(&next).is_some_and(|due| *due >= room(config, true))
    }

    /// Returns the time at which a node that lacks permits is to ask again: in the next bucket,
    /// from a step on, that has a permit for each node that was told the same. If none has, the
    /// asks are spread evenly over a window. The asks of a bucket are spread evenly over it, but
    /// are at most [`SPACING`] apart, so that other clients of the server rarely wait for more than
    /// one of them.
    fn turn(&mut self, config: &LeaseConfig, k: u64, waits: bool) -> u64 {
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
fn pace(config: &LeaseConfig) -> u64 {
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
