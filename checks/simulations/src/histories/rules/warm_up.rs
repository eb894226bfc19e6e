//! The plain reference of a warm-up, from the documentation of `WarmUp`: one bucket after the
//! other.

use std::collections::VecDeque;

/// The buckets of the window.
const BUCKETS: u64 = 10;

/// Less of a bucket than this is a rounding error.
const ROUNDING: f64 = 1e-9;

/// The numbers of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Curve {
    /// The limit of a warm service.
    pub(super) count: u64,
    /// The length of a bucket in milliseconds.
    pub(super) bucket: u64,
    /// The time that the warm-up takes, in milliseconds.
    pub(super) period: u64,
    /// By how much less a cold service admits.
    pub(super) cold_factor: u64,
}

/// The state at the start of a bucket, and what was taken since.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WarmUp {
    /// The number of the bucket.
    bucket: u64,
    /// The permits of the buckets of the window that have any.
    taken: VecDeque<(u64, u64)>,
    /// Whether no permit was ever taken.
    is_fresh: bool,
    /// The share of the tokens above the warning line: 1 for a cold service, and 0 for a warm one.
    coldness: f64,
    /// The time, in buckets, that no request has taken: credit. A negative one is debt.
    balance: f64,
    /// The last bucket in which a request was refused.
    refused: Option<u64>,
    /// The permits of the bucket that a former curve has paid, with the buckets that they took and
    /// the coldness after them.
    paid: Option<(u64, f64, f64)>,
}

#[expect(clippy::cast_precision_loss, reason = "small")]
impl Curve {
    /// Returns the permits that a warm service has in a bucket.
    fn rate(self) -> f64 {
        self.count as f64 / BUCKETS as f64
    }

    /// Returns the tokens above the warning line. Under full demand, they are taken in the period,
    /// in which each permit takes from once to `cold_factor` times the time of a warm service.
    fn tokens(self) -> f64 {
        let mean = f64::midpoint(1.0, self.cold_factor as f64);
        self.period as f64 / self.bucket as f64 * self.rate() / mean
    }

    /// Returns the coldness after permits.
    fn after(self, coldness: f64, permits: u64) -> f64 {
        (coldness - permits as f64 / self.tokens()).max(0.0)
    }

    /// Returns the buckets that permits take. The time of each rises linearly with the coldness.
    fn cost(self, coldness: f64, permits: u64) -> f64 {
        let (permits, tokens) = (permits as f64, self.tokens());
        let of_cold = permits.min(tokens * coldness);
        let slowness = |coldness: f64| 1.0 + (self.cold_factor as f64 - 1.0) * coldness;
        let mean = f64::midpoint(slowness(coldness), slowness(coldness - of_cold / tokens));
        (of_cold * mean + (permits - of_cold)) / self.rate()
    }
}

#[expect(clippy::cast_precision_loss, reason = "small")]
impl WarmUp {
    pub(super) const fn new() -> Self {
        Self {
            bucket: 0,
            taken: VecDeque::new(),
            is_fresh: true,
            coldness: 1.0,
            balance: 0.0,
            refused: None,
            paid: None,
        }
    }

    /// Returns the permits of the window.
    pub(super) fn of_window(&self) -> u64 {
        self.taken.iter().map(|(_, permits)| permits).sum()
    }

    fn own(&self) -> u64 {
        self.taken.back().filter(|(at, _)| *at == self.bucket).map_or(0, |(_, permits)| *permits)
    }

    /// Returns the buckets that the permits of the bucket take, and the coldness after them.
    fn pay(&self, curve: Curve) -> (f64, f64) {
        let (permits, time, coldness) = self.paid.unwrap_or((0, 0.0, self.coldness));
        let rest = self.own() - permits;
        (time + curve.cost(coldness, rest), curve.after(coldness, rest))
    }

    /// Changes the curve: the permits of the bucket are paid by the one that takes less time. A
    /// rule that is applied again with the same numbers is not changed.
    pub(super) fn change(&mut self, former: Curve, curve: Curve) {
        if curve == former {
            return;
        }
        let (time, coldness) = self.pay(former);
        let is_dearer = curve.cost(self.coldness, self.own()) > time;
        self.paid = is_dearer.then_some((self.own(), time, coldness));
    }

    fn end_bucket(&mut self, curve: Curve) {
        if !self.is_fresh {
            // Credit is at most a window with the current bucket.
            let (time, coldness) = self.pay(curve);
            let balance = self.balance + 1.0 - time;
            let balance = balance.min(BUCKETS as f64 - 1.0);
            let is_refused = self.refused.is_some_and(|it| self.bucket < it + BUCKETS);
            let is_quiet = self.of_window() * curve.cold_factor < curve.count;
            let is_paid = self.balance >= -ROUNDING && balance >= -ROUNDING;
            self.coldness = coldness;
            if is_quiet && is_paid && !is_refused {
                self.coldness = (self.coldness + curve.rate() / curve.tokens()).min(1.0);
            }
            self.balance = balance;
        }
        self.bucket += 1;
        self.paid = None;
        self.forget();
    }

    /// Forgets the buckets that have left the window.
    fn forget(&mut self) {
        while self.taken.front().is_some_and(|(at, _)| at + BUCKETS <= self.bucket) {
            self.taken.pop_front();
        }
        self.refused = self.refused.filter(|it| self.bucket < it + BUCKETS);
    }

    /// Whether nothing changes as long as no request comes.
    fn rests(&self) -> bool {
        let is_full = self.is_fresh || self.balance >= BUCKETS as f64 - 1.0;
        self.taken.is_empty() && self.refused.is_none() && self.coldness >= 1.0 && is_full
    }

    /// Whether permits were taken, and no request after it could tell but for its credit.
    pub(super) fn is_as_new(&self) -> bool {
        !self.is_fresh && self.rests()
    }

    /// Advances the state to a time.
    pub(super) fn advance(&mut self, curve: Curve, now: u64) {
        let number = now / curve.bucket;
        while self.bucket < number && !self.rests() {
            self.end_bucket(curve);
        }
        self.bucket = number;
    }

    /// Returns whether a request is admitted: if any permit is free, and if the window has as many
    /// left of the whole limit.
    pub(super) fn admits(&self, curve: Curve, permits: u64) -> bool {
        let left = self.balance + 1.0 - self.pay(curve).0;
        left > ROUNDING && self.of_window() + permits <= curve.count
    }

    pub(super) fn take(&mut self, permits: u64) {
        self.is_fresh = false;
        match self.taken.back_mut().filter(|(at, _)| *at == self.bucket) {
            Some((_, own)) => *own += permits,
            None => self.taken.push_back((self.bucket, permits)),
        }
    }

    /// Notes that a request was refused. One for more than the limit can never succeed, and is no
    /// demand.
    pub(super) fn refuse(&mut self, curve: Curve, permits: u64) {
        if permits <= curve.count {
            self.refused = Some(self.bucket);
        }
    }
}
