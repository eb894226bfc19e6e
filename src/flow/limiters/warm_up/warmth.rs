//! The state of a warm-up: how cold the service is, and what it has taken in advance.

use super::curve::{Curve, whole};

/// Less of a bucket or of a permit than this is a rounding error.
const ROUNDING: f64 = 1e-9;

/// The state at the start of a bucket. Plain data: each closed bucket makes a new one.
///
/// The *balance* is a time, in buckets. Permits cost the time in which the [curve](Curve) gives
/// them, and each bucket adds one bucket of time. A positive balance is *credit*: the service has
/// taken less than the curve has given. A negative balance is *debt*: a request for several permits
/// goes ahead once any permit is free, as in Guava's `SmoothWarmingUp`, and the following requests
/// wait until its permits are paid.
///
/// The credit is at most the window without its newest bucket. Sliding-window compliant demand of a
/// warm service then never runs into debt: in `m` buckets, such demand is at most `⌈m / N⌉ · L`
/// permits, and credit and time are worth `(N − 1 + m) · L / N`, which is not less.
///
/// A service that has not taken any permit has no credit, so that its first buckets follow the
/// curve.
#[derive(Clone, Debug)]
pub(super) struct Warmth {
    curve: Curve,
    /// The bucket at whose start this is the state.
    since: u64,
    /// Whether no permit was ever taken.
    is_fresh: bool,
    coldness: f64,
    balance: f64,
    /// The first bucket in which no refusal counts and no debt is left, if no request asks.
    no_demand_from: u64,
    /// The first bucket whose window has fewer permits than a cold service admits, if no more are
    /// taken. By the curve under which the last bucket was closed: not the latest of all, which may
    /// be by a former curve.
    quiet_from: u64,
    /// The number of changes of the curve so far.
    revision: u64,
    /// The permits of this bucket that were paid by a former curve.
    paid: Option<Paid>,
}

/// Permits of a bucket, from its start on.
#[derive(Clone, Copy, Debug)]
struct Paid {
    permits: u64,
    /// The time that they cost, in buckets.
    time: f64,
    /// The coldness after them.
    coldness: f64,
}

/// A bucket of the window that has ended.
pub(super) struct EndedBucket {
    pub(super) number: u64,
    /// The permits that were taken in it.
    pub(super) permits: u64,
    /// Whether a request was refused in it.
    pub(super) is_refused: bool,
    /// The first bucket whose window has fewer permits than a cold service admits, if no more are
    /// taken.
    pub(super) quiet_from: u64,
}

impl Warmth {
    pub(super) const fn cold(curve: Curve) -> Self {
        let (coldness, balance) = (1.0, 0.0);
        let (no_demand_from, quiet_from, revision) = (0, 0, 0);
        Self {
            curve,
            since: 0,
            is_fresh: true,
            coldness,
            balance,
            no_demand_from,
            quiet_from,
            revision,
            paid: None,
        }
    }

    pub(super) const fn curve(&self) -> &Curve {
        &self.curve
    }

    pub(super) const fn since(&self) -> u64 {
        self.since
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the state with another curve, after a number of permits of this bucket. The service
    /// is as cold as before, as a share of the tokens, and the balance remains, as a time. The
    /// permits cost no more time than by the former curve: those of a high limit would be a long
    /// debt under a low one. Whether the window is quiet by the new curve is found when the bucket
    /// is closed.
    pub(super) fn with_curve(&self, curve: Curve, permits: u64) -> Self {
        let former = self.pay(permits);
        let is_dearer = curve.time_for(self.coldness, permits) > former.time;
        let (revision, paid) = (self.revision + 1, is_dearer.then_some(former));
        Self { curve, revision, paid, ..self.clone() }
    }

    /// Returns what a number of permits of this bucket cost. Those that were paid are among them.
    fn pay(&self, permits: u64) -> Paid {
        let paid = self.paid();
        let rest = permits.saturating_sub(paid.permits);
        Paid {
            permits,
            time: paid.time + self.curve.time_for(paid.coldness, rest),
            coldness: self.curve.after_permits(paid.coldness, rest),
        }
    }

    fn paid(&self) -> Paid {
        self.paid.unwrap_or(Paid { permits: 0, time: 0.0, coldness: self.coldness })
    }

    /// Returns the state at the start of a later bucket, if no request asks in between.
    #[expect(clippy::cast_precision_loss, reason = "that many buckets fill it")]
    pub(super) fn at(&self, number: u64) -> Self {
        if self.is_fresh {
            return Self { since: number.max(self.since), ..self.clone() };
        }
        let passed = number.saturating_sub(self.since) as f64;
        let cools_from = self.no_demand_from.max(self.quiet_from);
        let cooling = number.saturating_sub(self.since.max(cools_from)) as f64;
        Self {
            since: number.max(self.since),
            paid: self.paid.filter(|_| number <= self.since),
            coldness: self.curve.after_cooling(self.coldness, cooling),
            balance: self.limited(self.balance + passed),
            ..self.clone()
        }
    }

    /// Returns the state after a bucket that is not older than this state.
    pub(super) fn after(&self, bucket: &EndedBucket) -> Self {
        let (number, start) = (bucket.number, self.at(bucket.number));
        if self.is_fresh && bucket.permits == 0 {
            return Self { since: number + 1, ..start };
        }
        let paid = start.pay(bucket.permits);
        let balance = self.limited(start.balance + 1.0 - paid.time);
        let is_cooling = !bucket.is_refused
            && balance >= -ROUNDING
            && number >= self.no_demand_from.max(bucket.quiet_from);
        let cooling = if is_cooling { 1.0 } else { 0.0 };
        // A refusal is demand, for as long as permits are: until its bucket has left the window.
        let refused_until = if bucket.is_refused { number + self.curve.samples() } else { 0 };
        let paid_from =
            number.saturating_add(1).saturating_add(whole((-balance - ROUNDING).ceil()));
        Self {
            since: number + 1,
            is_fresh: false,
            coldness: self.curve.after_cooling(paid.coldness, cooling),
            balance,
            no_demand_from: self.no_demand_from.max(refused_until).max(paid_from),
            quiet_from: bucket.quiet_from,
            paid: None,
            ..start
        }
    }

    fn limited(&self, balance: f64) -> f64 {
        balance.min(self.curve.most_credit())
    }

    /// Returns the permits that can be taken one by one in the bucket of this state. A request is
    /// admitted if fewer were taken in the bucket before.
    pub(super) fn permits(&self) -> u64 {
        if !self.is_open(0) {
            return 0;
        }
        let paid = self.paid();
        let permits = self.curve.permits_in(paid.coldness, self.balance + 1.0 - paid.time);
        paid.permits.saturating_add(whole((permits - ROUNDING).ceil()).max(1))
    }

    /// Returns whether any permit is free in a bucket, if no request asks until then.
    #[expect(clippy::cast_precision_loss, reason = "nearer buckets are told apart")]
    fn is_open(&self, later: u64) -> bool {
        self.balance - self.paid().time + later as f64 + 1.0 > ROUNDING
    }

    /// Returns the number of the first bucket after bucket `number` in which any permit is free, if
    /// `permits` permits are taken in that bucket, and no request asks later.
    pub(super) fn opens_after(&self, number: u64, permits: u64) -> u64 {
        self.after(&EndedBucket { number, permits, is_refused: true, quiet_from: 0 }).opens()
    }

    fn opens(&self) -> u64 {
        let later = whole(ROUNDING - 1.0 - self.balance);
        // One more, unless the difference was rounded. The predicate that decides has the last
        // word.
        let later = if self.is_open(later) { later } else { later.saturating_add(1) };
        // Of the times after the end of time, the last one means that a request is never admitted.
        self.since.saturating_add(later).min(NEVER - 1)
    }

    /// Returns whether this state is as cold as a new one, and has no debt.
    pub(super) const fn is_cold(&self) -> bool {
        self.coldness >= 1.0 && self.balance >= 0.0
    }

    /// Returns the permits that can be taken at once with all credit.
    pub(super) fn burst(&self) -> u64 {
        let permits = self.curve.of_window(self.coldness);
        whole((permits - ROUNDING).ceil()).clamp(1, self.curve.limit())
    }

    /// Returns the permits of a window at the present rate: at least one, and rounded down.
    pub(super) fn limit(&self) -> u64 {
        let limit = self.curve.limit_at(self.coldness);
        whole(limit + ROUNDING).clamp(1, self.curve.limit())
    }
}

/// The bucket in which a request for more permits than the limit is admitted.
pub(super) const NEVER: u64 = u64::MAX;
