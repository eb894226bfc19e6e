//! The server's side of the protocol as a state machine: the specification of the script.

mod charges;
mod demand;
mod group;

use std::collections::BTreeMap;

use super::LeaseConfig;
use super::message::{Ahead, Answer, Ask, Epoch, MAX_EXACT};
use charges::Charges;
use demand::Share;
pub use group::Group;

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
