//! One process: the permits that it holds, and its messages to the server.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{LeaseConfig, micros};
use crate::message::{Answer, Ask, Epoch, Move, NodeId};

/// The permits of one limit that a process holds, and its asks for more. It has no connection and no clock: `now` is a
/// time of a clock of the process that does not go back and that runs while the machine is suspended, from any origin.
///
/// - [`take`](Self::take) decides about a request.
/// - [`next_ask`](Self::next_ask) returns what to send to the server, if it is time. One ask is on its way at a time.
/// - [`on_answer`](Self::on_answer) takes the answer, and [`on_lost`](Self::on_lost) tells that none will be waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    config: LeaseConfig,
    id: NodeId,
    /// The permits in hand, by the bucket in which they are charged.
    lots: BTreeMap<u64, Lot>,
    /// The epoch of the last answer.
    epoch: Option<Epoch>,
    clock: Option<ServerClock>,
    /// The permits of the epoch whose use is known and that no ask has told yet: by the bucket in which they are charged and
    /// the one in which they were used.
    known: BTreeMap<(u64, Option<u64>), u64>,
    /// The last ask, whose answer has not arrived.
    told: Option<Told>,
    seq: u64,
    /// When the last ask was sent.
    sent: Option<Duration>,
    /// Whether an answer to it is waited for.
    is_waiting: bool,
    demand: Demand,
}

/// Permits of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lot {
    epoch: Epoch,
    count: u64,
    /// The time from which they must not be used.
    end: Duration,
}

/// A time of the server that has passed at a time of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ServerClock {
    sent: Duration,
    server: u64,
}

/// The moves of an ask that the server may have got.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Told {
    seq: u64,
    epoch: Option<Epoch>,
    moves: Vec<Move>,
}

/// The permits that requests want.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Demand {
    /// Since the last ask.
    count: u64,
    /// Those that were refused since the last answer.
    missing: u64,
    /// Per second, over the last asks.
    rate: u64,
    /// The server has no permits before this time.
    retry_at: Duration,
}

impl Node {
    /// Creates a node that holds nothing. `id` must be another one for each process, and for each start of it: a random number.
    #[must_use]
    pub const fn new(config: LeaseConfig, id: NodeId) -> Self {
        let demand = Demand { count: 0, missing: 0, rate: 0, retry_at: Duration::ZERO };
        Self {
            config,
            id,
            lots: BTreeMap::new(),
            epoch: None,
            clock: None,
            known: BTreeMap::new(),
            told: None,
            seq: 0,
            sent: None,
            is_waiting: false,
            demand,
        }
    }

    /// Takes `count` permits, all of them or none. Returns whether it has taken them, so that the request may be admitted.
    ///
    /// The permits are used in the moment of the call. If the process stops between the call and the use for longer than the
    /// rest of a bucket, the use is in another window.
    pub fn take(&mut self, now: Duration, count: u64) -> bool {
        self.give_back_ended(now);
        self.demand.count = self.demand.count.saturating_add(count);
        if self.held(now) < count {
            self.demand.missing = self.demand.missing.saturating_add(count);
            return false;
        }
        let mut rest = count;
        // Those that end first, so that the others can wait.
        while rest > 0
            && let Some((bucket, lot)) = self.pop_first(rest)
        {
            rest -= lot.count;
            // A lease has not ended, so its last bucket has not passed either.
            let used = self.bucket_at_most(now).map_or(bucket, |it| it.min(bucket));
            self.tell(lot.epoch, bucket, Some(used), lot.count);
        }
        true
    }

    /// Returns the number of permits in hand.
    #[must_use]
    pub fn held(&self, now: Duration) -> u64 {
        let lots = self.lots.values().filter(|lot| now < lot.end);
        lots.fold(0, |sum: u64, lot| sum.saturating_add(lot.count))
    }

    /// Returns an ask to send now, if it is time for one and no answer is waited for.
    pub fn next_ask(&mut self, now: Duration) -> Option<Ask> {
        self.give_back_ended(now);
        if self.is_waiting || now < self.next_ask_at(now) {
            return None;
        }
        self.measure_demand(now);
        let target = self.target();
        let held = self.held(now);
        self.give_back_surplus(held.saturating_sub(target.saturating_mul(2)));
        let want = target.max(self.demand.missing).saturating_sub(held);
        if want == 0 && self.known.is_empty() && self.told.is_none() {
            return None;
        }
        let told = self.told.get_or_insert_with(|| {
            self.seq += 1;
            let known = std::mem::take(&mut self.known);
            let moves = known.into_iter().map(|((from, to), count)| Move { from, to, count });
            Told { seq: self.seq, epoch: self.epoch, moves: moves.collect() }
        });
        let (seq, epoch, moves) = (told.seq, told.epoch, told.moves.clone());
        self.sent = Some(now);
        self.is_waiting = true;
        Some(Ask { node: self.id, seq, epoch, want: want.min(self.config.limit()), moves })
    }

    /// Returns the time of the next ask: at once after a request was refused, unless the server has told when to ask again,
    /// and otherwise after the ask interval.
    #[must_use]
    pub fn next_ask_at(&self, now: Duration) -> Duration {
        let regular = self.sent.map_or(now, |sent| sent.saturating_add(self.config.ask_interval()));
        if self.demand.missing > 0 { self.demand.retry_at } else { regular }
    }

    /// Takes the answer to the ask that was sent at `sent`. An answer to an ask that was [lost](Self::on_lost) is ignored: its
    /// permits end unused.
    pub fn on_answer(&mut self, sent: Duration, now: Duration, answer: &Answer) {
        if !self.is_waiting || self.sent != Some(sent) {
            return;
        }
        self.is_waiting = false;
        self.told = None;
        if self.epoch != Some(answer.epoch) {
            // The server has forgotten the permits of the epoch before. They may be used until they end.
            self.known.clear();
            self.epoch = Some(answer.epoch);
            self.clock = None;
        }
        // The server has read its clock after the ask was sent, and before the answer arrived.
        self.clock = Some(ServerClock { sent, server: answer.now });
        let retry_in = Duration::from_micros(answer.retry_in);
        self.demand.retry_at = now.saturating_add(retry_in);
        self.demand.missing = 0;
        let end = self.config.start_of(answer.bucket.saturating_add(1)).saturating_sub(answer.now);
        let end = sent.saturating_add(self.config.shortest(end));
        if answer.granted == 0 {
            return;
        }
        let lot = Lot { epoch: answer.epoch, count: answer.granted, end };
        let entry = self.lots.entry(answer.bucket).or_insert(Lot { count: 0, ..lot });
        if entry.epoch == lot.epoch {
            entry.count = entry.count.saturating_add(lot.count);
            entry.end = entry.end.min(lot.end);
        }
    }

    /// Tells that the answer to the ask on its way is not waited for any longer. Nothing is assumed about it: the next ask has
    /// the same number and the same moves.
    pub const fn on_lost(&mut self) {
        self.is_waiting = false;
    }

    /// Returns the latest bucket of the server's time in which `now` can be.
    fn bucket_at_most(&self, now: Duration) -> Option<u64> {
        let clock = self.clock?;
        let elapsed = self.config.longest(now.saturating_sub(clock.sent));
        Some(self.config.bucket_of(clock.server.saturating_add(elapsed)))
    }

    /// Takes up to `most` permits of the lot that ends first out of the balance.
    fn pop_first(&mut self, most: u64) -> Option<(u64, Lot)> {
        let mut first = self.lots.first_entry()?;
        let (bucket, lot) = (*first.key(), *first.get());
        let count = lot.count.min(most);
        first.get_mut().count -= count;
        if lot.count == count {
            first.remove();
        }
        Some((bucket, Lot { count, ..lot }))
    }

    /// Notes what has become of permits that are out of the balance.
    fn tell(&mut self, epoch: Epoch, from: u64, to: Option<u64>, count: u64) {
        // The server has forgotten the permits of another epoch, and those of its own stay where they are.
        if self.epoch == Some(epoch) && to != Some(from) && count > 0 {
            let known = self.known.entry((from, to)).or_default();
            *known = known.saturating_add(count);
        }
    }

    fn give_back_ended(&mut self, now: Duration) {
        while let Some(first) = self.lots.first_entry()
            && first.get().end <= now
        {
            let (bucket, lot) = first.remove_entry();
            self.tell(lot.epoch, bucket, None, lot.count);
        }
    }

    /// Gives back permits that are not needed, beginning with the lease that ends first.
    fn give_back_surplus(&mut self, mut surplus: u64) {
        while surplus > 0
            && let Some((bucket, lot)) = self.pop_first(surplus)
        {
            surplus -= lot.count;
            self.tell(lot.epoch, bucket, None, lot.count);
        }
    }

    fn measure_demand(&mut self, now: Duration) {
        let demand = &mut self.demand;
        if self.config.ask_interval().is_zero() {
            // The node asks for what requests have missed, and keeps nothing in reserve.
            demand.count = 0;
            return;
        }
        let elapsed = self.sent.map_or(self.config.ask_interval(), |sent| now.saturating_sub(sent));
        let elapsed = u128::from(micros(elapsed).max(1_000));
        let rate = u128::from(demand.count) * 1_000_000 / elapsed;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        // Up at once, and down by halves.
        demand.rate = rate.max(demand.rate / 2 + rate / 2);
        demand.count = 0;
    }

    /// Returns the permits that the node should hold: those of two ask intervals.
    fn target(&self) -> u64 {
        let time = u128::from(micros(self.config.ask_interval())) * 2;
        let target = (u128::from(self.demand.rate) * time).div_ceil(1_000_000);
        u64::try_from(target).unwrap_or(u64::MAX).min(self.config.limit())
    }
}
