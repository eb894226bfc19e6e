//! The permits that a node has in hand.

use std::collections::BTreeMap;
use std::mem;

use super::LeaseConfig;
use super::message::{Ahead, Answer, Ask, Epoch, MAX_MOVES, Move};
use super::node::micros;

/// The permits that a node has in hand, and what it has to report about them. All that the limit
/// needs of a node is here: [`Node`](super::Node) only decides when to ask, and for how much.
///
/// Times are of the node's clock, in microseconds. A time before an earlier one counts as the
/// earlier one.
///
/// ```
/// use leaparray_redis::lease::{Holdings, LeaseConfig, Ledger};
/// use std::time::Duration;
///
/// let config = LeaseConfig::of_buckets(10, 10, Duration::from_secs(1))?;
/// let (mut ledger, mut holdings) = (Ledger::new(config), Holdings::new(config, 7));
/// let (epoch_begins, open) = (0, config.quarantine().as_micros() as u64);
/// let ask = holdings.ask(0, 0, 0, 0).expect("none is in flight");
/// assert!(holdings.on_answer(0, &ledger.lease(epoch_begins, 1, &ask)));
///
/// let ask = holdings.ask(open, 4, 1, 0).expect("none is in flight");
/// assert!(holdings.on_answer(open, &ledger.lease(open, 1, &ask)));
/// assert_eq!(holdings.in_hand(open), 4);
/// assert!(holdings.take(open, 3));
/// assert!(!holdings.take(open, 2));
/// # Ok::<_, leaparray_redis::lease::LeaseConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holdings {
    config: LeaseConfig,
    node: u64,
    seq: u64,
    /// The latest time given.
    latest: u64,
    epoch: Option<Epoch>,
    /// The local time at which the last answered ask was sent, and the server's time of the answer.
    anchor: Option<(u64, u64)>,
    /// By their last bucket: within an epoch, the first one ends first.
    leases: Vec<Lease>,
    /// Moves of the current epoch that are still to be sent.
    moves: Moves,
    /// The permits of the current epoch that were used, by the bucket of their charge and the time
    /// of their use in quarters of a bucket, without those that another permit
    /// [follows](Self::grant_ahead).
    used: BTreeMap<(u64, u64), Used>,
    /// The last use that is not in `used` any more.
    forgotten: Option<u64>,
    in_flight: Option<InFlight>,
}

/// The permits to move from a bucket to another one, or to none.
type Moves = BTreeMap<(u64, Option<u64>), u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lease {
    bucket: u64,
    epoch: Epoch,
    /// The bucket from which on the server counts on them, if they were granted ahead.
    begins: u64,
    /// The local time before which the permits must not be used.
    starts: u64,
    /// The local time before which they must not be returned.
    begun: u64,
    /// The local time from which the permits must not be used.
    ends: u64,
    permits: u64,
}

/// Permits that were used and are charged in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Used {
    count: u64,
    /// The local time of the last use.
    last: u64,
    /// The bucket from which on the server counts on all of them.
    begins: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InFlight {
    seq: u64,
    sent: u64,
}

impl Holdings {
    /// Creates the holdings of an incarnation of a node: `node` is a random number below
    /// [`MAX_EXACT`](super::MAX_EXACT), different at each start of a process.
    #[must_use]
    pub fn new(config: LeaseConfig, node: u64) -> Self {
        Self {
            config,
            node,
            seq: 0,
            latest: 0,
            epoch: None,
            anchor: None,
            leases: Vec::new(),
            moves: BTreeMap::new(),
            used: BTreeMap::new(),
            forgotten: None,
            in_flight: None,
        }
    }

    /// Returns the parameters.
    #[must_use]
    pub const fn config(&self) -> &LeaseConfig {
        &self.config
    }

    /// Returns the epoch of the last answer.
    #[must_use]
    pub const fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// Returns the local time at which the ask in flight was sent, if there is one.
    #[must_use]
    pub fn sent(&self) -> Option<u64> {
        self.in_flight.as_ref().map(|it| it.sent)
    }

    /// Returns the permits that can be used at `now`.
    #[must_use]
    pub fn in_hand(&self, now: u64) -> u64 {
        let now = now.max(self.latest);
        let usable = self.leases.iter().filter(|it| it.starts <= now && now < it.ends);
        usable.map(|it| it.permits).fold(0, u64::saturating_add)
    }

    /// Returns the permits that can be used later than `now`.
    #[must_use]
    pub fn ahead(&self, now: u64) -> u64 {
        let later = self.leases.iter().filter(|it| now < it.starts && it.starts < it.ends);
        later.map(|it| it.permits).fold(0, u64::saturating_add)
    }

    /// Returns the local time after `now` at which more permits can be used.
    #[must_use]
    pub fn next_start(&self, now: u64) -> Option<u64> {
        self.leases.iter().map(|it| it.starts).filter(|it| *it > now).min()
    }

    /// Returns the local time at which the first lease ends, if a permit is in hand.
    #[must_use]
    pub fn first_end(&self) -> Option<u64> {
        self.leases.iter().map(|it| it.ends).min()
    }

    /// Returns the local time at which at most `count` permits are in hand because leases have
    /// ended, if more are now.
    #[must_use]
    pub fn falls_to(&self, count: u64) -> Option<u64> {
        let mut ends: Vec<_> = self.leases.iter().map(|it| (it.ends, it.permits)).collect();
        ends.sort_unstable();
        let mut left = ends.iter().fold(0, |sum: u64, it| sum.saturating_add(it.1));
        ends.into_iter().find_map(|(end, permits)| {
            let is_above = left > count;
            left = left.saturating_sub(permits);
            (is_above && left <= count).then_some(end)
        })
    }

    /// Returns the time until which the permits in hand and the bucket of their use stay the same,
    /// unless the node asks, gets an answer, or uses a permit. It is after `now`.
    #[must_use]
    pub fn stable_until(&mut self, now: u64) -> u64 {
        self.advance(now);
        let first_end = self.first_end().unwrap_or(u64::MAX);
        let first_start = self.next_start(self.latest).unwrap_or(u64::MAX);
        first_end.min(first_start).min(self.bucket_end()).max(self.latest.saturating_add(1))
    }

    /// Returns the permits of the moves that are still to be sent.
    #[must_use]
    pub fn unreported(&self) -> u64 {
        self.moves.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Uses `count` permits at `now`: all of them or none. Returns whether they were in hand.
    pub fn take(&mut self, now: u64, count: u64) -> bool {
        self.advance(now);
        if self.in_hand(now) < count {
            return false;
        }
        let (at_most, sooner) = (self.bucket_at_most(), self.sooner());
        let mut missing = count;
        let latest = self.latest;
        for lease in self.leases.iter_mut().filter(|it| it.starts <= latest) {
            let taken = missing.min(lease.permits);
            lease.permits -= taken;
            missing -= taken;
            // The permits of an earlier epoch are charged nowhere in this one.
            let is_charged = Some(lease.epoch) == self.epoch;
            if taken > 0 && is_charged {
                let to = at_most.max(lease.begins.saturating_sub(sooner)).min(lease.bucket);
                if to < lease.bucket {
                    add_move(&mut self.moves, lease.bucket, Some(to), taken);
                }
                let quarter = latest / (self.config.bucket_micros() / 4).max(1);
                let used = self.used.entry((to, quarter)).or_default();
                let count = used.count.saturating_add(taken);
                *used = Used { count, last: latest, begins: used.begins.max(lease.begins) };
            }
        }
        self.leases.retain(|it| it.permits > 0);
        true
    }

    /// Gives back up to `count` permits that were taken at `taken` or later, and whose request did
    /// not use them after all. Returns how many: none if their charge has left the window, if they
    /// are of a lost epoch, or if permits that were granted ahead [follow](super) them.
    ///
    /// Those whose use is not reported are in hand again. The others are returned with the next
    /// ask.
    pub fn give_back(&mut self, now: u64, taken: u64, count: u64) -> u64 {
        self.advance(now);
        let Some((sent, server)) = self.anchor else { return 0 };
        let Some(epoch) = self.epoch else { return 0 };
        if self.forgotten.is_some_and(|last| taken <= last) {
            return 0;
        }
        // The charge may be in any of these buckets. In each window to come that has the first
        // one, it is a charge too many, so the limit holds without one of those of that bucket.
        let Some(bucket) = self.used.iter().find(|it| it.1.last >= taken).map(|it| it.0.0) else {
            return 0;
        };
        let here = (bucket, 0)..=(bucket, u64::MAX);
        let begins = self.used.range(here.clone()).map(|it| it.1.begins).max().unwrap_or_default();
        let all = self.used.range(here.clone()).map(|it| it.1.count).sum::<u64>().min(count);
        let mut left = all;
        for ((from, _), permits) in
            self.moves.clone().into_iter().filter(|it| it.0.1 == Some(bucket))
        {
            let permits = permits.min(left);
            sub_move(&mut self.moves, from, Some(bucket), permits);
            let begun = self.start_of(begins, server);
            let lease = Lease { bucket: from, epoch, begins, starts: 0, begun, ends: 0, permits };
            self.grant(sent, server, lease);
            left -= permits;
        }
        // The server counts on the charge of permits that begin later.
        if begins.saturating_mul(self.config.bucket_micros()) <= server {
            add_move(&mut self.moves, bucket, None, left);
            left = 0;
        }
        let mut given = all - left;
        for (_, used) in self.used.range_mut(here) {
            let permits = used.count.min(given);
            used.count -= permits;
            given -= permits;
        }
        all - left
    }

    /// Asks for `want` permits at `now`, by a lease whose last bucket is `validity` buckets after
    /// the bucket of the grant. Permits beyond `keep` are returned, beginning with the
    /// permits that end first. `None` if an ask is in flight.
    pub fn ask(&mut self, now: u64, want: u64, validity: u32, keep: u64) -> Option<Ask> {
        self.advance(now);
        if self.in_flight.is_some() {
            return None;
        }
        // A permit leaves the hand before its return is sent: else, it could be used after the
        // server has granted it to another node.
        let mut excess = self.in_hand(now).saturating_sub(keep);
        let latest = self.latest;
        for lease in self.leases.iter_mut().filter(|it| it.begun <= latest) {
            let returned = excess.min(lease.permits);
            excess -= returned;
            if returned > 0 && Some(lease.epoch) == self.epoch {
                add_move(&mut self.moves, lease.bucket, None, returned);
            }
            lease.permits -= returned;
        }
        self.leases.retain(|it| it.permits > 0);
        let mut moves = Vec::new();
        while moves.len() < MAX_MOVES
            && let Some(((from, to), count)) = self.moves.pop_first()
        {
            moves.push(Move { from, to, count });
        }
        self.seq += 1;
        self.in_flight = Some(InFlight { seq: self.seq, sent: self.latest });
        let Self { node, seq, epoch, .. } = *self;
        let seen = self.anchor.map_or(0, |(_, server)| server);
        let (nonce, horizon, weight) = (0, 0, 0);
        Some(Ask { node, seq, nonce, epoch, seen, want, validity, horizon, weight, moves })
    }

    /// Begins another incarnation of the node, with another number. Nothing is in hand, and nothing
    /// is reported: if another process has a copy of the memory of this one, it may use the permits
    /// in hand.
    pub fn rename(&mut self, node: u64) {
        let forgotten = Some(self.latest);
        *self = Self { latest: self.latest, forgotten, ..Self::new(self.config, node) };
    }

    /// Takes the answer to the ask in flight. Returns whether it was: any other answer is ignored.
    /// If the number of the node [is taken](Answer::is_taken), it has to be
    /// [renamed](Self::rename).
    pub fn on_answer(&mut self, now: u64, answer: &Answer) -> bool {
        self.advance(now);
        // Each answer once: a grant is charged once.
        let Some(in_flight) = self.in_flight.take_if(|it| it.seq == answer.seq) else {
            return false;
        };
        if self.epoch != Some(answer.epoch) {
            // Nothing is used before the first answer, so nothing is forgotten with it: a request
            // that has waited for it can give its permits back.
            if self.epoch.is_some() {
                self.forgotten = Some(self.latest);
            }
            self.epoch = Some(answer.epoch);
            self.moves.clear();
            self.used.clear();
        }
        self.anchor = Some((in_flight.sent, answer.now));
        let lease = Lease {
            bucket: answer.bucket,
            epoch: answer.epoch,
            begins: 0,
            starts: 0,
            begun: 0,
            ends: 0,
            permits: answer.granted,
        };
        self.grant(in_flight.sent, answer.now, lease);
        for it in &answer.ahead {
            self.grant_ahead(in_flight.sent, answer, it);
        }
        // Nothing is charged any more in buckets that have left the window.
        let first = (answer.now / self.config.bucket_micros() + 1)
            .saturating_sub(u64::from(self.config.buckets()));
        self.moves.retain(|(from, _), _| *from >= first);
        let forgotten = &mut self.forgotten;
        self.used.retain(|(bucket, _), used| {
            let is_kept = *bucket >= first;
            if !is_kept {
                *forgotten = (*forgotten).max(Some(used.last));
            }
            is_kept
        });
        true
    }

    /// Adds permits that were granted ahead to what is in hand.
    ///
    /// When their bucket begins, the charges of the bucket a window before it leave the window. As
    /// many of the permits as are charged there by this node follow these: they may be used one
    /// interval after, by the clock of the node. The others may be used when the server has
    /// certainly reached the bucket. See the [module](super) for why the limit holds.
    fn grant_ahead(&mut self, sent: u64, answer: &Answer, ahead: &Ahead) {
        let begun = self.start_of(ahead.from, answer.now);
        let after = self.ahead_of(micros(self.config.interval()));
        let lease = Lease {
            bucket: ahead.bucket,
            epoch: answer.epoch,
            begins: ahead.from,
            starts: begun,
            begun,
            ends: 0,
            permits: ahead.count,
        };
        let mut left = ahead.count;
        if let Some(leaves) = ahead.from.checked_sub(self.config.buckets().into()) {
            let mut used = mem::take(&mut self.used);
            for (_, used) in used.range_mut((leaves, 0)..=(leaves, u64::MAX)) {
                // The last use was in this microsecond.
                let starts = used.last.saturating_add(1).saturating_add(after);
                if starts < begun {
                    let permits = used.count.min(left);
                    self.grant(sent, answer.now, Lease { starts, permits, ..lease });
                    used.count -= permits;
                    left -= permits;
                }
            }
            self.used = used;
        }
        self.grant(sent, answer.now, Lease { permits: left, ..lease });
    }

    /// Gives up the ask in flight. It may have arrived, or may still arrive, so its moves are not
    /// sent again: they could be applied twice.
    pub fn on_lost(&mut self) {
        self.in_flight = None;
    }

    /// Adds a lease to what is in hand, and sets its end.
    fn grant(&mut self, sent: u64, server: u64, lease: Lease) {
        if lease.permits == 0 {
            return;
        }
        // Counted from the time of the ask: the server read its clock later, and the answer may
        // have been on its way for any time.
        let end = lease.bucket.saturating_add(1).saturating_mul(self.config.bucket_micros());
        let valid_for = end.saturating_sub(server);
        let ends = sent.saturating_add(valid_for - self.drift_of(valid_for));
        let lease = Lease { ends, ..lease };
        let at = self.leases.partition_point(|it| it.bucket < lease.bucket);
        match self.leases.get_mut(at) {
            // The earlier end holds for both, so that there are few leases.
            Some(it) if it.is_like(&lease) => {
                it.permits = it.permits.saturating_add(lease.permits);
                it.ends = it.ends.min(ends);
            }
            _ => self.leases.insert(at, lease),
        }
        self.advance(self.latest);
    }

    /// Notes the time. The permits of leases that have ended are not used any more, so they are
    /// returned.
    fn advance(&mut self, now: u64) {
        self.latest = self.latest.max(now);
        let (latest, epoch) = (self.latest, self.epoch);
        let moves = &mut self.moves;
        self.leases.retain(|it| {
            let usable = latest < it.ends;
            // Before its start, the server counts on its charge.
            if !usable && it.begun <= latest && Some(it.epoch) == epoch {
                add_move(moves, it.bucket, None, it.permits);
            }
            usable
        });
    }

    /// Returns an upper bound of the server's bucket. A use that was reported in an earlier bucket
    /// would leave the sum too early.
    fn bucket_at_most(&self) -> u64 {
        let Some((sent, server)) = self.anchor else { return u64::MAX };
        server.saturating_add(self.ahead_of(self.latest - sent)) / self.config.bucket_micros()
    }

    /// Returns by how many buckets a permit that was granted ahead may be charged before the bucket
    /// in which it begins: by as many as the window is longer than the interval of the limit.
    fn sooner(&self) -> u64 {
        let interval = self.config.bucket_len() * (self.config.buckets() - 1);
        u64::from(self.config.interval() <= interval)
    }

    /// Returns the first local time at which the server has certainly reached a bucket, if an
    /// answer that shows the server's time `server` is here.
    ///
    /// It is counted from the arrival of the answer that grants the permits. An earlier answer that
    /// has arrived more quickly would show an earlier start, but the server's clock may have
    /// stepped back in between: then the bucket begins later than by the earlier answer, and what
    /// was used until then has not yet left the window. A step that is shorter than the way of the
    /// answers shows in none of them.
    fn start_of(&self, bucket: u64, server: u64) -> u64 {
        let span = bucket.saturating_mul(self.config.bucket_micros()).saturating_sub(server);
        self.latest.saturating_add(self.ahead_of(span))
    }

    /// Returns the first local time at which [`bucket_at_most`](Self::bucket_at_most) is another
    /// bucket.
    fn bucket_end(&self) -> u64 {
        let Some((sent, server)) = self.anchor else { return u64::MAX };
        let end =
            self.bucket_at_most().saturating_add(1).saturating_mul(self.config.bucket_micros());
        let is_before = |elapsed: u64| server.saturating_add(self.ahead_of(elapsed)) < end;
        // `ahead` increases, and it is at most 1.2 times the elapsed time.
        let (mut before, mut after) = (self.latest - sent, end.saturating_sub(server));
        if !is_before(before) {
            return u64::MAX;
        }
        while after - before > 1 {
            let middle = before.midpoint(after);
            *(if is_before(middle) { &mut before } else { &mut after }) = middle;
        }
        sent.saturating_add(after)
    }

    /// Returns the most by which the server's clock may have advanced while the node's advanced by
    /// `elapsed`: 1 / (1 - ρ) times as much, which is less than 1 + 2 ρ for ρ up to a half.
    fn ahead_of(&self, elapsed: u64) -> u64 {
        elapsed.saturating_add(self.drift_of(elapsed).saturating_mul(2))
    }

    /// Returns the bound on the drift in a time, rounded up.
    fn drift_of(&self, micros: u64) -> u64 {
        let ppm = u128::from(self.config.drift_ppm());
        let drift = (u128::from(micros) * ppm).div_ceil(1_000_000);
        u64::try_from(drift).unwrap_or(u64::MAX)
    }
}

impl Lease {
    /// Whether the permits of both may be used in the same times, but for their ends.
    fn is_like(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.bucket, it.epoch, it.begins, it.starts, it.begun);
        key(self) == key(other)
    }
}

fn add_move(moves: &mut Moves, from: u64, to: Option<u64>, count: u64) {
    if count == 0 {
        return;
    }
    let sum = moves.entry((from, to)).or_default();
    *sum = sum.saturating_add(count);
}

fn sub_move(moves: &mut Moves, from: u64, to: Option<u64>, count: u64) {
    if let Some(sum) = moves.get_mut(&(from, to)) {
        *sum -= count;
    }
    moves.retain(|_, sum| *sum > 0);
}
