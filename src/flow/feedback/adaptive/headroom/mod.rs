//! The algorithm of this crate.

mod course;
mod profile;
mod trial;

use std::time::Duration;

use super::algorithm::EpochCalls;
use super::range::{LimitRange, float, floor};
use crate::flow::feedback::adaptive::AdaptiveConfigError;
use profile::Profile;
use trial::{Base, High, busy_length, length};

/// Follows the capacity, with a headroom of about its square root.
///
/// # Trials
///
/// The algorithm makes one *trial* after the other. In a trial it measures the calls that begin,
/// until twice the permits of its limit were taken (twice the mean of the limit and the capacity),
/// and then waits for most of these calls to end. So a trial takes some five mean response times,
/// whether calls take a millisecond or ten minutes, and no setting depends on that time. At least
/// 20 calls are measured, and as many more as were cancelled early in the trial before.
///
/// A trial is made at the limit, or at a lower one: in a *dip*. A call that begins in a dip found
/// fewer calls in flight. So if calls queue, it takes less time than one at the limit. By Little's
/// law, the queue that the dip lacks is *throughput × time longer*. The time longer is the median
/// of the differences of seven quantiles, from 0.1 to 0.7. Calls that have not ended, that failed,
/// or that were cancelled late, count as the longest ones. If they are more than in the dip, the
/// limit is the reason.
///
/// # Limit
///
/// The limit minus the queue is the *capacity* C: the permits that the backend works on at once. If
/// it is less than 1.15 times the limit of the dip, the backend may have been saturated in the dip
/// too, or chance has made the dip slow: the limit of the dip counts as the capacity, and the next
/// dip follows. After the third such dip in sequence, the limit of the dip becomes the limit, and
/// the next dip is at half of it. The limit becomes C + w · (4 + h · √(C/w)), where w are the mean
/// permits of a call, and h is 1.5 by default. With this *headroom*, as many calls queue as it
/// takes to keep the backend busy although calls arrive at random: the square-root staffing rule of
/// Halfin and Whitt, *Heavy-Traffic Limits for Queues with Many Exponential Servers*, 1981. The
/// constant is for a backend with a few workers, where the rule asks for too little.
///
/// The trials at the limit since its last change count together, up to the last 200 calls. If the
/// limit is reached, and less than a fifth of the headroom queues, by the last trial and by all of
/// them, the limit doubles. A limit that is not reached does not grow. If more than the headroom
/// queues at it, it becomes the highest number of permits that were in use. Otherwise it shrinks by
/// a tenth, though not below 1.3 times what was in use with its headroom, nor below the first
/// limit.
///
/// # Dips
///
/// A dip is at three quarters of the capacity. It is made after the first trial at a limit that has
/// changed by more than a tenth, and else when the trials since the last dip have taken 60 times as
/// long, 15 times while more than twice the headroom queues, or twice as long if 100 calls tell a
/// limit that is a tenth lower. So dips take a few hundredths of the time, at three quarters of the
/// capacity. While the limit is not reached, no dip is made.
///
/// After a dip, calls come into flight one after the other until the limit is reached again. A
/// trial that begins before that measures shorter times than a later one, as if the backend had
/// room. It tells nothing, and the next trial follows. A trial after a rise of the limit counts: it
/// only makes the limit too high, until the next dip.
///
/// # No trap
///
/// A limit falls only after a dip, by the comparison with the trials just before it, or to what is
/// in use. While the backend has room and the limit is reached, a comparison finds no queue beyond
/// chance, and trials that find none double the limit. A dip whose calls queue makes the
/// limit too high, and a dip whose calls are shorter by chance keeps it too low, until the next
/// dip; a trial with shorter times takes the place of a dip at once. But for chance, the number of
/// trials from any state until the limit fits the capacity is logarithmic in the ratio of the two.
/// Chance is largest with a few workers, calls of a heavy tail, or streams.
///
/// With calls of the mean length S, the limit has found the capacity after 2 s + 200 · S, and the
/// time in which the backend serves 2,000 calls. From then on, it has at least 97 % of the goodput
/// of the best fixed limit, and refuses at most 3 % of the calls while the backend is idle: in 92
/// of 100 random histories of load, capacity, lengths of 1 ms to 10 minutes, streams, weights,
/// failures and cancellations, that `checks/simulations` draws, and 90 % of the goodput in 98. With
/// eight workers or more, calls of one permit and no cancellations, it is 96 and 99 of 100. A fixed
/// limit by the formula above, of the true capacity, holds in 97 of 100, and has 90 % of the
/// goodput in all. These are shares of 4,000 histories by which no constant was chosen:
/// `share_of_histories_that_hold` in its tests counts them.
///
/// # Limits
///
/// Response times have to depend on the limit. If most of the calls are answered without the part
/// of the backend that is short, by a cache for example, no queue is seen: limit the calls behind
/// the cache. If they change within seconds for another reason, such as a noisy neighbour, a
/// comparison may be wrong, until the next one. Report outcomes that are expected, such as a
/// missing item, as successes. `docs/SIMULATIONS.md` in the repository has numbers.
///
/// ```
/// use leaparray::flow::AdaptiveLimiter;
/// use leaparray::flow::adaptive::{Headroom, LimitRange};
///
/// let algorithm = Headroom::new(LimitRange::new(10, 50, 2_000)?).headroom(2.0)?;
/// let limiter = AdaptiveLimiter::new(algorithm);
/// assert_eq!(limiter.limit(), 50);
/// # Ok::<_, leaparray::flow::adaptive::AdaptiveConfigError>(())
/// ```
//
// # Invariants
//
// - `limit` is in the range.
// - While `stage` is `Measures`, the epoch whose calls are measured goes on, and `dip` is its limit
//   if it is a dip. Then `stage` is `Waits` until most of them have ended. The evidence at the end
//   of the wait is about them. The evidence at the end of the measurement is about the wait before,
//   of which only `was_reached` is of use.
// - `high` is of trials that have reached `limit`, after waits that had reached their own limit,
//   which is `limit` or the one before a rise. It is `None` from a change of `limit` to the next such
//   trial. A dip begins only if there is one.
// - No time of the clock is kept, only lengths: a step of the clock changes one trial.
#[derive(Clone, Debug)]
pub struct Headroom {
    range: LimitRange,
    factor: f64,
    limit: f64,
    /// The permits that the backend works on at once, as the last trial tells.
    capacity: f64,
    stage: Stage,
    /// The limit of the dip that is tried.
    dip: Option<u64>,
    /// Whether the wait before the trial has reached its limit. If the trial is at the same limit,
    /// its first calls found as many in flight as its last ones.
    was_reached: bool,
    base: Option<Base>,
    high: Option<High>,
    /// How long trials without a dip have still to be.
    rest: Duration,
    /// The length of the last dip.
    dip_length: Duration,
    /// The dips that were as busy as the limit, since the last one that told the capacity.
    saturated_dips: u32,
    /// The number of calls that a trial measures, for one that tells how long calls take: the
    /// others are cancelled early.
    calls_for_one: f64,
}

/// The part of a trial.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Measures,
    Waits,
}

impl Default for Headroom {
    /// From 1 to 10,000, at first 20; a headroom of 4 + 1.5 · √C.
    fn default() -> Self {
        Self::new(LimitRange::known(1, 20, 10_000))
    }
}

impl Headroom {
    const GROWTH: f64 = 2.0;
    /// By how much a limit shrinks that is not reached in a trial, and the multiple of what is
    /// used, with a headroom, at which it stays.
    const SHRINKING: f64 = 0.9;
    const SPARE: f64 = 1.3;
    /// The queue below which the limit grows, as a share of the headroom.
    const SHORT_QUEUE: f64 = 0.2;
    /// The limit of a dip, as a share of the capacity.
    const DIP: f64 = 0.75;
    /// The time without a dip, as a multiple of the length of the last dip.
    const REST: u32 = 60;
    /// The same, if the trials tell that the limit is too high, and the ratio of such a limit to
    /// the one that they tell.
    const SHORT_REST: u32 = 2;
    const TOO_HIGH: f64 = 1.1;
    /// How much faster that time passes while the limit is likely too high.
    const HURRY: u32 = 4;
    /// The capacity, as a multiple of the limit of a dip, below which the dip may have been above
    /// the capacity.
    const SATURATED: f64 = 1.15;
    /// The capacity that is assumed after such a dip, as a share of its limit: the next dip is at
    /// half of it.
    const SEARCH: f64 = 2.0 / 3.0;
    /// The number of such dips since the last one that told the capacity, after which the limit
    /// falls to the limit of the dip. One may be chance.
    const SURE: u32 = 3;
    /// The first dip is this much below the limit: nothing is known of the capacity.
    const FIRST_DIP: f64 = 8.0;
    /// The part of the headroom for few workers, in calls.
    const LEAST: f64 = 4.0;

    /// Creates the algorithm with a headroom of 4 + 1.5 · √C.
    #[must_use]
    pub const fn new(range: LimitRange) -> Self {
        Self {
            range,
            factor: 1.5,
            limit: range.initial_f64(),
            capacity: range.initial_f64() / Self::FIRST_DIP,
            stage: Stage::Waits,
            dip: None,
            was_reached: false,
            base: None,
            high: None,
            rest: Duration::ZERO,
            dip_length: Duration::ZERO,
            saturated_dips: 0,
            calls_for_one: 1.0,
        }
    }

    /// Sets the factor h of the headroom. A higher one gives more throughput under bursts, and a
    /// longer queue.
    ///
    /// # Errors
    ///
    /// Returns an [`AdaptiveConfigError`] unless the factor is from 0.5 to 10.
    pub const fn headroom(self, factor: f64) -> Result<Self, AdaptiveConfigError> {
        if factor >= 0.5 && factor <= 10.0 {
            Ok(Self { factor, ..self })
        } else {
            Err(AdaptiveConfigError::Headroom { factor })
        }
    }

    /// Learns from a trial at the limit.
    fn end_trial(&mut self, epoch: &EpochCalls<'_>) {
        let former = self.high.take();
        let Some(profile) = Profile::of(epoch).filter(|_| epoch.limit == floor(self.limit)) else {
            return;
        };
        let high = High::of(profile, epoch);
        let is_reached = epoch.peak_in_flight >= epoch.limit;
        // No lower limit is possible: whatever queues, queues without this limit.
        let is_lowest = epoch.limit <= self.range.min();
        let queue = self.base.and_then(|base| high.queue(&base));
        let is_faster = queue.is_some_and(|[_, most]| most < 0.0);
        if is_lowest || is_faster || !is_reached && self.base.is_none() {
            let limit = self.base.map_or(self.limit, |base| base.limit);
            self.base = Some(Base { profile, limit });
        }
        if is_reached && is_lowest {
            self.grow();
            return;
        }
        let headroom = self.headroom_of(self.limit, high.weight);
        if !is_reached {
            let peak = float(epoch.peak_in_flight);
            let queues = queue.is_some_and(|[queue, _]| queue > headroom);
            self.set_limit(if queues { peak } else { self.nearer_to_use(peak, high.weight) });
            self.capacity = self.capacity.min(self.limit);
            return;
        }
        if !self.was_reached {
            return;
        }
        let all = former.map_or(high, |former| high.after(former));
        self.high = Some(all);
        self.rest = self.rest.saturating_sub(length(epoch));
        let (Some([queue, most]), Some(base)) = (queue, self.base) else { return };
        let [queue_of_all, most_of_all] = all.queue(&base).unwrap_or([queue, most]);
        self.capacity = (self.limit - queue_of_all).clamp(1.0, self.limit);
        if all.is_sure() && self.limit > Self::TOO_HIGH * self.target(&base, all.weight) {
            let least = (Self::REST - Self::SHORT_REST) * self.dip_length;
            self.rest = if self.rest <= least { Duration::ZERO } else { self.rest };
        }
        if queue > 2.0 * headroom {
            self.rest = self.rest.saturating_sub(length(epoch) * (Self::HURRY - 1));
        }
        if self.is_short(most, high.weight) && self.is_short(most_of_all, all.weight) {
            self.grow();
        }
    }

    /// Learns from a dip, by the comparison with the trial before it.
    fn end_dip(&mut self, dip: u64, epoch: &EpochCalls<'_>) {
        let (Some(high), true) = (self.high, epoch.limit == dip) else { return };
        let Some(profile) = Profile::of(epoch) else { return };
        self.dip_length = busy_length(dip, epoch);
        self.rest = self.dip_length * Self::REST;
        let base = Base { profile, limit: float(dip) };
        self.base = Some(base);
        let Some([queue, most]) = high.queue(&base) else {
            // All calls fail, in the dip too. A deeper one may show that the limit is the reason.
            self.capacity = (Self::DIP * self.capacity).max(1.0);
            self.rest = Duration::ZERO;
            return;
        };
        if self.is_short(most, high.weight) {
            self.grow();
            return;
        }
        // The permits that can be in use: with a few, a part of one counts.
        self.capacity = float(floor(self.limit)) - queue.max(0.0);
        if self.is_saturated(&base) {
            self.saturated_dips = self.saturated_dips.saturating_add(1);
            self.rest = Duration::ZERO;
            if self.saturated_dips < Self::SURE {
                self.capacity = base.limit;
                let enough = self.capacity + self.headroom_of(self.capacity, high.weight);
                self.set_limit(enough.min(self.limit));
                return;
            }
            // The backend was as busy in the dip: the capacity may be far below it.
            self.set_limit(base.limit);
            self.capacity = Self::SEARCH * self.limit;
            self.high = Some(High::of(profile, epoch));
            return;
        }
        self.saturated_dips = 0;
        self.capacity = self.capacity.max(base.limit);
        let target = self.target(&base, high.weight);
        // A small change may be noise.
        let step = if (target / self.limit - 1.0).abs() < 0.2 { 0.5 } else { 1.0 };
        self.set_limit(self.limit + step * (target - self.limit));
    }

    /// Returns the limit after a trial that has used `peak` permits of it.
    fn nearer_to_use(&self, peak: f64, weight: f64) -> f64 {
        let enough = Self::SPARE * (peak + self.headroom_of(peak, weight));
        let enough = enough.max(self.range.initial_f64()).min(self.limit);
        enough.max(Self::SHRINKING * self.limit)
    }

    /// Returns whether the backend may have been as busy in the dip as at the limit.
    fn is_saturated(&self, base: &Base) -> bool {
        base.limit > float(self.range.min()) && self.capacity < Self::SATURATED * base.limit
    }

    /// Returns the limit that fits the capacity.
    fn target(&self, base: &Base, weight: f64) -> f64 {
        if self.is_saturated(base) {
            return base.limit;
        }
        self.capacity + self.headroom_of(self.capacity, weight)
    }

    /// Returns whether hardly a call queues.
    fn is_short(&self, queue: f64, weight: f64) -> bool {
        let capacity = (self.limit - queue).max(1.0);
        queue < Self::SHORT_QUEUE * self.headroom_of(capacity, weight)
    }

    fn grow(&mut self) {
        self.set_limit(Self::GROWTH * self.limit);
        self.capacity = self.limit;
    }

    fn headroom_of(&self, capacity: f64, weight: f64) -> f64 {
        weight * (Self::LEAST + self.factor * (capacity / weight).sqrt())
    }

    /// Sets the limit. After a large change, the next dip is made at once.
    fn set_limit(&mut self, limit: f64) {
        let limit = self.range.clamp(limit);
        if (limit / self.limit - 1.0).abs() > 0.1 {
            self.rest = Duration::ZERO;
        }
        if floor(limit) != floor(self.limit) {
            self.high = None;
        }
        self.limit = limit;
    }
}
