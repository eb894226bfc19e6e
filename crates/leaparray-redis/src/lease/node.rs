//! When a node asks, and for how many permits.

use super::{Answer, Ask, Holdings, LeaseConfig};

/// The most permits that a node keeps for longer than τ and a round trip.
const FEW: u64 = 4;

/// The longest time for which a node keeps permits for a request that does not wait and is not
/// repeated, in microseconds.
const SPARE_FOR: u64 = 60_000_000;

/// A node of a limit: it decides locally, and asks by its demand.
///
/// One ask is in flight at a time. A node asks when it starts, at the end of a quarantine, and
/// again if an ask was lost. A node without the permits for a request asks at once, unless the
/// server has told it when to ask again. Else, it asks when the permits in hand will not last until
/// the next ask would be answered, at least τ after the ask before. A chunk is what the demand of
/// the last steps needs for τ and a round trip. Permits far beyond that are returned, with any
/// ask.
///
/// Times are of the node's clock, in microseconds.
///
/// ```
/// use leaparray_redis::lease::{LeaseConfig, Ledger, Node};
/// use std::time::Duration;
///
/// let config = LeaseConfig::of_buckets(10, 10, Duration::from_secs(1))?;
/// let (mut ledger, mut node) = (Ledger::new(config), Node::new(config, 7));
/// let open = config.quarantine().as_micros() as u64;
/// // A request arrives, and nothing is in hand.
/// assert!(!node.take(0, 1));
/// let ask = node.poll(0).expect("a request waits");
/// node.on_answer(0, &ledger.lease(0, 1, &ask));
/// // The request waits for longer.
/// assert!(node.is_short(0));
/// node.wait(1);
/// assert_eq!((node.poll(open - 1), node.next_poll(0)), (None, Some(open)));
/// let ask = node.poll(open).expect("the server has opened");
/// node.on_answer(open, &ledger.lease(open, 1, &ask));
/// assert!(node.retry(open, 1));
/// # Ok::<_, leaparray_redis::lease::LeaseConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    holdings: Holdings,
    demand: Demand,
    /// The permits for which requests lacked some since the last ask was sent.
    missing: u64,
    /// The permits for which requests wait, for longer than an answer.
    waiting: u64,
    last_sent: Option<u64>,
    spare: Spare,
    /// The most permits to keep for requests that do not wait, by the last answer.
    room: u64,
    /// The next ask is due without a request: the node does not know whether the server grants
    /// anything.
    is_unsure: bool,
    /// No ask before: the server has nothing.
    retry_at: u64,
    /// The last round trip.
    round_trip: u64,
    /// For how long the last answer told the node to wait before it asks again.
    turn_in: u64,
}

/// The permits that requests have got and lacked since the node was last told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// The permits that were used.
    pub used: u64,
    /// The permits of all requests, each counted once.
    pub demanded: u64,
    /// The permits of the requests that lacked some, which the next ask wants.
    pub missing: u64,
    /// The most permits of a request, of those in `demanded`.
    pub largest: u64,
    /// The most permits of a request that does not wait, whether it got them or not. The node keeps
    /// as many in hand, as long as such requests are repeated, and as many are free on the server.
    pub at_once: u64,
}

impl Node {
    /// Creates an incarnation of a node: `node` is a random number below
    /// [`MAX_EXACT`](super::MAX_EXACT), different at each start of a process.
    #[must_use]
    pub fn new(config: LeaseConfig, node: u64) -> Self {
        Self::with_holdings(Holdings::new(config, node))
    }

    /// Creates a node with these holdings.
    #[must_use]
    pub const fn with_holdings(holdings: Holdings) -> Self {
        let demand = Demand { since: 0, count: 0, largest: 0, per_step: 0 };
        Self {
            holdings,
            demand,
            missing: 0,
            waiting: 0,
            last_sent: None,
            spare: Spare { size: 0, until: 0, next: 0 },
            room: u64::MAX,
            is_unsure: true,
            retry_at: 0,
            round_trip: 0,
            turn_in: 0,
        }
    }

    /// Returns the permits in hand.
    #[must_use]
    pub const fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Returns the time until which the permits in hand stay the same: see
    /// [`Holdings::stable_until`].
    pub fn stable_until(&mut self, now: u64) -> u64 {
        self.holdings.stable_until(now)
    }

    /// Returns the time until which the node [is short](Self::is_short).
    #[must_use]
    pub const fn retry_at(&self) -> u64 {
        self.retry_at
    }

    /// Decides on a new request for `count` permits at `now`: all of them or none. If they are not
    /// in hand, and the node is not [short](Self::is_short), the next ask wants them, and the
    /// request may [`retry`](Self::retry) after an answer.
    pub fn take(&mut self, now: u64, count: u64) -> bool {
        let step = self.step();
        self.demand.add(now, count, count, step);
        self.retry(now, count)
    }

    /// Notes decisions that were made elsewhere, from the permits that [are in
    /// hand](Holdings::in_hand) at `now`.
    ///
    /// # Panics
    ///
    /// Panics if more permits were used than there are in hand.
    pub fn settle(&mut self, now: u64, decided: &Decided) {
        let Decided { used, demanded, missing, largest, at_once } = *decided;
        let step = self.step();
        self.demand.add(now, demanded, largest, step);
        assert!(self.holdings.take(now, used), "{used} permits were used that were not in hand");
        self.wait(missing);
        // A request that has got a few permits is like those for which they are kept.
        let few = demanded.min(self.spare.size).min(FEW);
        self.spare.note(now, at_once.max(few), self.holdings.config());
    }

    /// Gives back permits that were taken at `taken` or later and not used: see
    /// [`Holdings::give_back`].
    pub fn give_back(&mut self, now: u64, taken: u64, count: u64) -> u64 {
        self.holdings.give_back(now, taken, count)
    }

    /// Decides again on a request that has waited for an answer. It does not count as new demand.
    pub fn retry(&mut self, now: u64, count: u64) -> bool {
        let granted = self.holdings.take(now, count);
        // A request that is refused at once does not wait for a permit.
        if !granted && !self.is_short(now) {
            self.wait(count);
        }
        granted
    }

    /// Notes that a request for `count` permits waits although the node [is short](Self::is_short):
    /// the next ask wants them. A request that is refused instead is not noted.
    pub const fn wait(&mut self, count: u64) {
        self.missing = self.missing.saturating_add(count);
    }

    /// Notes for how many permits requests wait in all, for longer than an answer. The server
    /// shares the permits that become free by these.
    pub const fn set_waiting(&mut self, permits: u64) {
        self.waiting = permits;
    }

    /// Whether a request that lacks permits at `now` would wait in vain: the server has told the
    /// node to ask later.
    #[must_use]
    pub const fn is_short(&self, now: u64) -> bool {
        now < self.retry_at
    }

    /// Returns whether an answer is to come for a request that lacks permits: an ask is in flight,
    /// or the next one wants permits for a request.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.holdings.sent().is_some() || self.missing > 0
    }

    /// Returns the ask to send at `now`, if there is one. The caller sends it, and calls
    /// [`on_answer`](Self::on_answer) or [`on_lost`](Self::on_lost).
    pub fn poll(&mut self, now: u64) -> Option<Ask> {
        let config = *self.holdings.config();
        let bucket = config.bucket_micros();
        self.demand.roll(now, self.step());
        self.spare.note(now, 0, &config);
        if self.next_poll(now).is_none_or(|at| now < at) {
            return None;
        }
        let (flow, spare) = (self.flow(), self.spare());
        let target = self.target();
        // Kept permits that end before the next ask is answered are asked for again.
        let gap = if spare > 0 { micros(config.min_gap()) } else { 0 };
        let in_hand = self.lasting(now.saturating_add(gap));
        // The requests that lack permits may be those for which some are kept.
        let needed = flow.saturating_add(self.missing.max(self.waiting).max(spare));
        // Until the answer to the next ask is there, and a bucket and a round trip further: the node
        // may use permits that follow its own by so much before the server reaches their bucket.
        let horizon = self.step().max(self.round_trip).max(self.turn_in);
        let horizon = horizon.saturating_add(self.round_trip.saturating_mul(2));
        let coming = if self.waiting > 0 { self.needs(horizon.saturating_mul(2)) } else { 0 };
        let needed = needed.max(coming.saturating_add(self.waiting));
        let ahead = self.holdings.ahead(now);
        let want = needed.saturating_sub(in_hand).saturating_sub(ahead);
        let want = want.min(config.limit());
        // A request that waits uses its permit when the answer arrives. A chunk has to last for τ
        // and two round trips.
        let lasts = match target {
            0 => self.round_trip.saturating_add(self.round_trip / 4),
            _ if spare > 0 || flow <= FEW => bucket.saturating_mul(u64::from(config.validity())),
            _ => micros(config.min_gap()).saturating_add(self.round_trip.saturating_mul(2)),
        };
        let buckets = lasts / bucket + 1;
        let validity = u32::try_from(buckets).unwrap_or(u32::MAX).min(config.validity());
        // A request that lacks permits needs those in hand, too.
        let keep = target.saturating_add(needed);
        let ask = self.holdings.ask(now, want, validity, keep)?;
        let horizon = horizon.div_ceil(bucket) + 1;
        let horizon = if self.waiting > 0 { horizon } else { 0 };
        let weight = if self.waiting > 0 { self.waiting } else { needed };
        let ask = Ask { horizon, weight, ..ask };
        (self.missing, self.last_sent, self.is_unsure) = (0, Some(now), false);
        Some(ask)
    }

    /// Returns the time of the next ask, as far as it is known at `now`: `None` if an ask is in
    /// flight, or there is nothing to ask.
    #[must_use]
    pub fn next_poll(&self, now: u64) -> Option<u64> {
        if self.holdings.sent().is_some() {
            return None;
        }
        let (target, spare) = (self.target(), self.spare());
        let in_hand = self.lasting(now);
        if self.missing > 0 || self.is_unsure || self.retry_at > 0 && in_hand == 0 && target > 0 {
            return Some(self.retry_at.max(now));
        }
        let gap = micros(self.holdings.config().min_gap());
        let background = self.last_sent.map_or(0, |it| it.saturating_add(gap)).max(now);
        // A large request has used most of what is kept, and the next one may not wait either.
        if spare > FEW && in_hand < spare / 2 {
            return Some(self.retry_at.max(now));
        }
        let low = self.low();
        if low.is_some_and(|low| in_hand <= low) {
            return Some(background.max(self.retry_at));
        }
        // A report: charges that can leave the sum are worth an ask if they are worth a chunk.
        let excess = in_hand.saturating_sub(target.saturating_mul(2));
        let reports = excess.saturating_add(self.holdings.unreported()) > target.max(1);
        let ends = low.filter(|_| spare > 0).and_then(|low| self.holdings.falls_to(low));
        let renewal = ends.map(|end| end.saturating_sub(self.lead()).max(background));
        reports.then_some(background).into_iter().chain(renewal).min()
    }

    /// Returns the permits in hand, without those whose lease ends before another one can be asked
    /// for, if the node keeps spare ones.
    fn lasting(&self, now: u64) -> u64 {
        let lead = if self.spare() > 0 { self.lead() } else { 0 };
        self.holdings.in_hand(now.saturating_add(lead))
    }

    /// Returns how long before the end of a lease another one is asked for.
    fn lead(&self) -> u64 {
        self.round_trip.saturating_mul(2).saturating_add(self.step() / 8)
    }

    /// Returns the last round trip, in microseconds.
    #[must_use]
    pub const fn round_trip(&self) -> u64 {
        self.round_trip
    }

    /// Takes an answer that arrived at `now`. Returns whether it was the answer to the ask in
    /// flight.
    pub fn on_answer(&mut self, now: u64, answer: &Answer) -> bool {
        let sent = self.holdings.sent();
        let is_next = self.holdings.on_answer(now, answer);
        if is_next {
            let sent = sent.unwrap_or(now);
            self.round_trip = now.saturating_sub(sent);
            // The server answered at `sent` and the way to it, and the next ask takes the same way,
            // give or take a quarter of the round trip: it arrives just after the permits get free.
            let wait = answer.retry_in.max(answer.open_in);
            let after = wait.saturating_add(self.round_trip / 4);
            self.retry_at = if wait == 0 { 0 } else { sent.saturating_add(after) };
            self.turn_in = answer.retry_in;
            self.is_unsure = answer.open_in > 0;
            // As many stay free for the other nodes.
            let kept = self.holdings.in_hand(now).min(self.spare.size);
            self.room = answer.free.saturating_add(kept) / 2;
        }
        is_next
    }

    /// Begins another incarnation of the node, with another number, after an answer that the number
    /// [is taken](Answer::is_taken): see [`Holdings::rename`].
    pub fn rename(&mut self, node: u64) {
        self.holdings.rename(node);
        self.is_unsure = true;
    }

    /// Gives up the ask in flight, at `now`: nothing is assumed about it. The next ask waits for τ.
    pub fn on_lost(&mut self, now: u64) {
        self.holdings.on_lost();
        self.is_unsure = true;
        self.retry_at = now.saturating_add(micros(self.holdings.config().min_gap()));
    }

    /// Asks at `until` next, instead of τ after the loss of an ask.
    pub const fn postpone(&mut self, until: u64) {
        self.retry_at = until;
    }

    /// Returns the time at which to look at the permits in hand again, if they are taken elsewhere:
    /// τ after the last ask, and then each τ, but at most once in a step.
    #[must_use]
    pub fn next_check(&self, now: u64) -> u64 {
        let config = self.holdings.config();
        let gap = micros(config.min_gap()).max(self.step());
        let first = self.last_sent.unwrap_or(0).saturating_add(gap);
        if first > now { first } else { now.saturating_add(gap) }
    }

    /// Returns the last ask of a node that stops: all permits in hand are returned. `None` if there
    /// are none and nothing is to be reported, or if an ask is in flight.
    pub fn leave(&mut self, now: u64) -> Option<Ask> {
        let has_nothing = self.holdings.in_hand(now) == 0 && self.holdings.unreported() == 0;
        if has_nothing { None } else { self.holdings.ask(now, 0, 0, 0) }
    }

    /// Returns the permits that the node would like to have in hand: those that the demand needs
    /// for τ and a round trip, and those of the largest request that does not wait. A node with few
    /// requests keeps what half of the validity of a lease needs, up to four. In a shortage, it
    /// keeps neither these few nor any for requests that do not wait.
    #[must_use]
    pub fn target(&self) -> u64 {
        self.flow().saturating_add(self.spare()).min(self.holdings.config().limit())
    }

    /// Returns the permits that the demand needs, until another chunk is there.
    fn flow(&self) -> u64 {
        let config = self.holdings.config();
        let lease = config.bucket_micros().saturating_mul(u64::from(config.validity()));
        let flow = self.needs(micros(config.min_gap()).saturating_add(self.round_trip));
        // In a shortage, a permit that waits for a request is one that another node lacks.
        match self.retry_at {
            0 => flow.max(self.needs(lease / 2).min(FEW)),
            _ if flow <= FEW => 0,
            _ => flow,
        }
        .min(config.limit())
    }

    /// Returns how many permits are in hand when the next ask is due: half of a chunk, beside what
    /// is kept for requests that do not wait. `None` if nothing is to be in hand.
    fn low(&self) -> Option<u64> {
        match self.flow() {
            0 => self.spare().checked_sub(1),
            flow => Some(self.spare().saturating_add(flow / 2)),
        }
    }

    /// Returns the permits to keep for a request that does not wait.
    fn spare(&self) -> u64 {
        if self.retry_at > 0 { 0 } else { self.spare.size.min(self.room) }
    }

    /// Returns the length of a [step](LeaseConfig::step), in microseconds.
    fn step(&self) -> u64 {
        let config = self.holdings.config();
        config.bucket_micros().saturating_mul(config.step().into())
    }

    /// Returns the permits that the demand needs for a time.
    fn needs(&self, span: u64) -> u64 {
        let step = u128::from(self.step()) * u128::from(Demand::SCALE);
        let needs = u128::from(self.demand.estimate()) * u128::from(span) / step;
        u64::try_from(needs).unwrap_or(u64::MAX)
    }
}

/// The permits of the largest request that does not wait.
///
/// A kept permit is missing to the other nodes. So a size is kept for as long as what it keeps from
/// them is at most the limit: for `limit / size` windows after the last request of about that size,
/// and for at most a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spare {
    size: u64,
    until: u64,
    /// The largest of the smaller requests since the last one of about that size.
    next: u64,
}

impl Spare {
    /// Notes a request for `size` permits at `now`, 0 for none.
    fn note(&mut self, now: u64, size: u64, config: &LeaseConfig) {
        let size = size.min(config.limit());
        if now >= self.until {
            *self = Self { size: self.next, until: self.until, next: 0 };
            self.until = now.saturating_add(self.kept_for(config));
        }
        if size > self.size / 2 {
            *self = Self { size: self.size.max(size), until: 0, next: 0 };
            self.until = now.saturating_add(self.kept_for(config));
        } else {
            self.next = self.next.max(size);
        }
    }

    fn kept_for(&self, config: &LeaseConfig) -> u64 {
        let window = config.bucket_micros() * u64::from(config.buckets());
        let windows = config.limit() / self.size.max(1);
        window.saturating_mul(windows).min(SPARE_FOR)
    }
}

/// The permits that requests ask for in a step, on average.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Demand {
    /// The number of the local step that is counted.
    since: u64,
    count: u64,
    /// The most permits of a request in it.
    largest: u64,
    /// Scaled.
    per_step: u64,
}

impl Demand {
    const SCALE: u64 = 256;

    fn add(&mut self, now: u64, count: u64, largest: u64, step: u64) {
        self.roll(now, step);
        self.count = self.count.saturating_add(count);
        self.largest = self.largest.max(largest);
    }

    /// Returns the scaled average, or the count of the current step if it is already four and
    /// twice that without its largest request: demand has moved here. One large request says
    /// nothing of the next ones.
    const fn estimate(&self) -> u64 {
        let beside = if self.largest > 1 { self.largest } else { 0 };
        let count = self.count.saturating_sub(beside);
        let current = count.saturating_mul(Self::SCALE);
        if count >= 4 && current / 2 > self.per_step { current } else { self.per_step }
    }

    /// Counts the steps that have ended. Each counts for a quarter of the average.
    fn roll(&mut self, now: u64, step: u64) {
        let current = now / step;
        let passed = current.saturating_sub(self.since);
        for _ in 0..passed.min(64) {
            let last = self.count.saturating_mul(Self::SCALE);
            self.per_step = self.per_step - self.per_step / 4 + last / 4;
            (self.count, self.largest) = (0, 0);
        }
        self.since = self.since.max(current);
    }
}

/// Returns a time in microseconds.
pub(super) fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
