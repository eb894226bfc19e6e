//! The algorithm of this crate.

mod profile;

use std::time::Duration;

use super::algorithm::{EpochCalls, LimitAlgorithm, LimitEvidence, LimitPlan};
use super::epoch_length::EpochLength;
use super::range::{LimitRange, float, floor};
use crate::flow::feedback::adaptive::AdaptiveConfigError;
use crate::time::Timestamp;
use profile::{Profile, late_cancellations};

/// Follows the capacity, with a headroom of its square root.
///
/// # Capacity
///
/// From time to time, and only while the limit is reached, the limit is halved. In such a *dip*,
/// hardly a call queues unless the limit is far above the capacity. A dip lasts for six mean
/// response times, at least 40 ms, and then until 100 calls have begun, for at most ten epochs. The
/// response times of the calls that begin in the second half of it are the *base*. In other epochs,
/// calls take longer than the base by the time that they queue. By Little's law, of L calls in
/// flight C = L · base/(base + longer) are served: the capacity. *Longer* is the median of the
/// differences of ten quantiles, from 0.5 to 0.95. It is the time in the queue also if fast and
/// slow calls mix, where a mean is noisy and a minimum tells nothing. A call that has not ended
/// counts with its age, and a call that was cancelled after more than the mean of the base counts
/// with the time until then. Calls that were cancelled earlier do not count.
///
/// # Limit
///
/// The limit becomes C + h · √C. With the *headroom* h · √C, 1.5 · √C by default, as many calls
/// queue as it takes to keep the backend busy although calls arrive at random: the square-root
/// staffing rule of Halfin and Whitt, *Heavy-Traffic Limits for Queues with Many Exponential
/// Servers*, 1981. While hardly a call queues, the limit grows by a quarter in every second epoch.
///
/// The response times of an epoch that has never used 80 % of the limit do not change it. The limit
/// then shrinks to 1.3 times the peak, though not below the first limit: by 5 % in an epoch of 0.1
/// s, and by up to half in a longer one.
///
/// # Changes
///
/// An epoch lasts 0.1 s, or up to 1 s for 100 calls. If calls take longer than that, an epoch is as
/// long as twice the response time that few calls exceed, up to 30 s. If more than a tenth of the
/// calls of an epoch have not ended an epoch later, or if a quarter of them have ended with an
/// exception or were cancelled late, their response times tell only that the limit is too high: the
/// base stays, and the limit does not grow. Late cancellations are those beyond their share when
/// the base was set, since some clients give up whatever the limit is. Report outcomes that are
/// expected, such as a missing item, as successes.
///
/// After a change of the capacity, the limit is at most halved in every second epoch. If calls
/// become slower for another reason, as when the mix of calls changes, a lower limit makes them no
/// faster. If it has fallen by a fifth, and two epochs show that, the response times are the new
/// base, and the limit is what it was. If hardly a call queues after the fall, the calls were slow
/// only for a moment: the limit becomes what it was before the last cut. Calls that are faster than
/// the base replace it after five epochs in a row. If a dip shows that half of the limit yields
/// nearly the same throughput, the limit stays at that half, and another dip follows.
///
/// # Limits
///
/// The response times have to depend mainly on the limit. If they change within seconds for another
/// reason, such as a garbage collection or a noisy neighbour, the limit is too low at times, and
/// calls are refused although the backend could take them. `docs/SIMULATIONS.md` in the repository
/// has numbers. A higher [lowest limit](LimitRange::min) bounds that loss.
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
#[derive(Clone, Debug)]
pub struct Headroom {
    range: LimitRange,
    factor: f64,
    dip_interval: Duration,
    epoch_length: EpochLength,
    limit: f64,
    base: Option<Profile>,
    /// The share of the calls that were cancelled late when the base was set: clients that give up
    /// whatever the limit is.
    usual_late: f64,
    /// The last epoch that was not in a dip.
    last: Option<Profile>,
    phase: Phase,
    /// Whether the limit was reached since the last dip.
    was_reached: bool,
    /// The start of the last dip, and the number of dips since the base was last replaced.
    last_dip: Option<Timestamp>,
    dips: u32,
    /// The fall of the limit that has not ended.
    cut: Option<Cut>,
    cuts_without_effect: u32,
    /// The number of epochs in a row whose calls were faster than the base.
    fast_epochs: u32,
}

/// The role of the epoch that the next evidence is about. The evidence is one epoch late.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// An epoch under the current limit.
    Steady,
    /// An epoch before a cut.
    BeforeCut,
    /// The epoch before a dip. The dip has begun, and the calls from before are leaving.
    Leaving,
    /// The first part of a dip. The second part has begun.
    Measuring,
    /// The second part of a dip.
    Measured,
}

/// A fall of the limit, in one or several epochs.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The estimated mean response time before it, in seconds, and the limit. A fall by more than a
    /// fifth in one epoch sets both.
    mean: f64,
    limit: f64,
    /// The limit before the first epoch.
    from: f64,
}

impl Default for Headroom {
    /// From 4 to 10,000, at first 20; a headroom of 1.5 · √C, and 8 s between dips.
    fn default() -> Self {
        Self::new(LimitRange::known(4, 20, 10_000))
    }
}

impl Headroom {
    const EPOCH: Duration = Duration::from_millis(100);
    /// How many times longer an epoch may be that waits for calls.
    const LONGEST: u32 = 10;
    /// Calls in an epoch, unless there are fewer in its longest time.
    const CALLS: u64 = 100;
    /// With fewer calls, an epoch tells nothing.
    const LEAST_CALLS: u64 = 10;
    /// The number of faster epochs in a row after which their response times are the base.
    const FAST_EPOCHS: u32 = 5;
    const SHORTEST_DIP: Duration = Duration::from_millis(20);
    const GROWTH: f64 = 1.25;
    /// The share by which a limit that is not used shrinks in each length of an epoch, and the
    /// multiple of the peak at which it stays.
    const SHRINKING: f64 = 0.05;
    const SPARE: f64 = 1.3;
    /// The queue below which the limit grows, as a share of the headroom.
    const SHORT_QUEUE: f64 = 0.3;

    /// Creates the algorithm with a headroom of 1.5 · √C, and 8 s between dips.
    #[must_use]
    pub const fn new(range: LimitRange) -> Self {
        Self {
            range,
            factor: 1.5,
            dip_interval: Duration::from_secs(8),
            epoch_length: EpochLength::new(Self::EPOCH),
            limit: range.initial_f64(),
            base: None,
            usual_late: 0.0,
            last: None,
            phase: Phase::Steady,
            was_reached: false,
            last_dip: None,
            dips: 0,
            cut: None,
            cuts_without_effect: 0,
            fast_epochs: 0,
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

    /// Sets the time between dips, at least 1 s. The first dips come sooner: 1 s, 2 s and 4 s after
    /// the dip before. If calls are so long that epochs are longer than 0.1 s, these times are
    /// longer in the same proportion.
    #[must_use]
    pub fn dip_interval(self, interval: Duration) -> Self {
        Self { dip_interval: interval.max(Duration::from_secs(1)), ..self }
    }

    fn steady_plan(&self) -> LimitPlan {
        LimitPlan::epoch(floor(self.limit), self.epoch_length.get())
            .until_calls(Self::CALLS, self.longest())
    }

    fn longest(&self) -> Duration {
        (self.epoch_length.get() * Self::LONGEST).min(EpochLength::LONGEST)
    }

    /// Begins a dip. In the first part, most of the calls from before leave.
    fn dip_plan(&mut self) -> LimitPlan {
        self.phase = Phase::Leaving;
        LimitPlan::epoch(self.dip_limit(), self.dip_length())
    }

    /// The second part of a dip, in which calls are measured.
    fn measuring_plan(&mut self) -> LimitPlan {
        self.phase = Phase::Measuring;
        LimitPlan::epoch(self.dip_limit(), self.dip_length())
            .until_calls(Self::CALLS, self.longest())
    }

    fn dip_limit(&self) -> u64 {
        floor(self.range.clamp(self.limit / 2.0))
    }

    fn dip_length(&self) -> Duration {
        let mean = self.base.map_or(0.0, |base| base.mean());
        let longest = EpochLength::LONGEST.as_secs_f64();
        Duration::from_secs_f64((3.0 * mean).min(longest)).max(Self::SHORTEST_DIP)
    }

    /// Sets the base to the measurement of a dip.
    fn end_dip(&mut self, epoch: &EpochCalls<'_>) -> LimitPlan {
        self.phase = Phase::Steady;
        let dip = self.profile(epoch).filter(|_| self.is_typical(epoch));
        let Some(dip) = dip else { return self.steady_plan() };
        let queued = self.last.map_or(0.0, |last| last.longer_than(&dip));
        self.set_base(dip.averaged_with(self.base.as_ref()), epoch);
        // By Little's law, the throughput in the dip as a share of that before.
        let throughput = float(epoch.limit) / self.limit * (1.0 + queued / dip.mean());
        if throughput > 0.85 && self.limit > float(self.range.min()) {
            self.last = Some(dip);
            self.limit = self.range.clamp(float(epoch.limit));
            return self.dip_plan();
        }
        self.steady_plan()
    }

    fn update(&mut self, epoch: &EpochCalls<'_>) -> LimitPlan {
        self.was_reached |= epoch.peak_in_flight >= epoch.limit;
        let Some(profile) = self.profile(epoch) else {
            if !self.is_used(epoch) {
                self.limit = self.nearer_to_use(epoch);
                // The limit is lower for another reason than the queue.
                self.cut = None;
                self.cuts_without_effect = 0;
            } else if epoch.peak_in_flight >= epoch.limit {
                // So few calls are told of because they are longer than the epoch.
                self.epoch_length.lengthen();
            }
            return self.steady_plan();
        };
        let is_complete = EpochLength::is_complete(epoch);
        if !is_complete {
            self.epoch_length.lengthen();
        }
        let is_typical = self.is_typical(epoch);
        if self.base.is_none() && is_typical {
            self.set_base(profile, epoch);
            // Again with the calls that were cancelled late, which are known only now.
            self.base = self.profile(epoch);
        }
        let Some(base) = self.base else { return self.steady_plan() };
        if is_complete {
            self.epoch_length.shorten(base.long_response_time());
        }
        self.last = Some(profile);
        let longer = profile.longer_than(&base);
        let ratio = 1.0 + longer / base.mean();
        self.fast_epochs = if ratio < 0.9 && is_typical { self.fast_epochs + 1 } else { 0 };
        if self.fast_epochs >= Self::FAST_EPOCHS {
            self.fast_epochs = 0;
            self.set_base(profile, epoch);
        }
        if !self.is_used(epoch) {
            self.limit = self.nearer_to_use(epoch);
            return self.plan_after_no_cut(epoch.now);
        }
        let is_short = self.has_short_queue(Self::capacity(epoch, ratio), ratio);
        if is_typical && self.has_no_effect(epoch, base.mean() + longer, is_short) {
            self.set_base(profile, epoch);
            self.limit = self.cut.take().map_or(self.limit, |cut| cut.from);
            (self.dips, self.last_dip) = (1, Some(epoch.now));
            return self.steady_plan();
        }
        let before = self.limit;
        let next = self.range.clamp(self.next_limit(epoch, ratio));
        self.limit = if is_typical { next } else { next.min(before) };
        if self.limit < before {
            let mean = base.mean() + longer;
            let new = Cut { mean, limit: before, from: before };
            let cut = self.cut.get_or_insert(new);
            if self.limit < 0.8 * before {
                *cut = Cut { from: cut.from, ..new };
                self.phase = Phase::BeforeCut;
                return self.steady_plan();
            }
            return self.next_steady_or_dip(epoch.now);
        }
        // Calls were slow for a time, whatever the limit: without a queue, the lower limit only
        // costs throughput.
        if let Some(cut) = self.cut.take()
            && is_typical
            && is_short
        {
            self.limit = self.limit.max(cut.limit);
            self.cuts_without_effect = 0;
            return self.steady_plan();
        }
        self.plan_after_no_cut(epoch.now)
    }

    fn plan_after_no_cut(&mut self, now: Timestamp) -> LimitPlan {
        self.cut = None;
        self.cuts_without_effect = 0;
        self.next_steady_or_dip(now)
    }

    fn next_steady_or_dip(&mut self, now: Timestamp) -> LimitPlan {
        if self.is_dip_due(now) { self.dip_plan() } else { self.steady_plan() }
    }

    fn set_base(&mut self, base: Profile, epoch: &EpochCalls<'_>) {
        self.base = Some(base);
        let late = late_cancellations(epoch, base.mean());
        self.usual_late = float(late) / float((epoch.begun + late).max(1));
    }

    fn profile(&self, epoch: &EpochCalls<'_>) -> Option<Profile> {
        Profile::of(epoch, self.base_mean(), Self::LEAST_CALLS)
    }

    /// Returns the time after which a cancelled call counts. Without a base, none does.
    fn base_mean(&self) -> f64 {
        self.base.map_or(f64::INFINITY, |base| base.mean())
    }

    /// Whether the response times of an epoch are those of calls that the backend has worked on:
    /// hardly one of them has yet to end, few have ended with an exception, which often comes at
    /// once or after a time-out, and hardly more than usual were cancelled late.
    fn is_typical(&self, epoch: &EpochCalls<'_>) -> bool {
        let late = late_cancellations(epoch, self.base_mean());
        let calls = float(epoch.begun + late);
        let unusual = (float(late) - self.usual_late * calls).max(0.0);
        EpochLength::is_complete(epoch) && (float(epoch.exceptions) + unusual) * 4.0 < calls
    }

    /// Whether the response times of two epochs after a cut are about as long as before it.
    fn has_no_effect(&mut self, epoch: &EpochCalls<'_>, mean: f64, is_short: bool) -> bool {
        let Some(cut) = self.cut else { return false };
        let share = float(epoch.limit) / cut.limit;
        if share > 0.8 {
            return false;
        }
        // If calls queue, their mean shrinks as the limit, except for the part that they are
        // served.
        let is_without = mean > cut.mean * f64::midpoint(1.0, share);
        self.cuts_without_effect = if is_without { self.cuts_without_effect + 1 } else { 0 };
        if !is_without && !is_short {
            // The queue has become shorter, and has not gone: the fall was right.
            self.cut = None;
        }
        let has_none = self.cuts_without_effect >= 2;
        if has_none {
            self.cuts_without_effect = 0;
        }
        has_none
    }

    /// Whether an epoch has used most of the limit. Otherwise its response times tell nothing of
    /// the limit.
    fn is_used(&self, epoch: &EpochCalls<'_>) -> bool {
        float(epoch.peak_in_flight) * Self::GROWTH >= self.limit
    }

    /// Returns a limit that is nearer to the use of the epoch.
    fn nearer_to_use(&self, epoch: &EpochCalls<'_>) -> f64 {
        let enough = Self::SPARE * float(epoch.peak_in_flight);
        let enough = enough.max(self.range.initial_f64()).min(self.limit);
        let length = epoch.end.saturating_since(epoch.start).as_secs_f64();
        let lengths = length / self.epoch_length.get().as_secs_f64();
        (self.limit * (1.0 - Self::SHRINKING * lengths.clamp(1.0, 10.0))).max(enough)
    }

    /// Returns the number of calls in flight that the backend serves, of those in an epoch that
    /// take `ratio` times the base.
    fn capacity(epoch: &EpochCalls<'_>, ratio: f64) -> f64 {
        float(epoch.limit.min(epoch.peak_in_flight)).max(1.0) / ratio.max(0.9)
    }

    fn headroom_of(&self, capacity: f64) -> f64 {
        self.factor * capacity.sqrt()
    }

    fn has_short_queue(&self, capacity: f64, ratio: f64) -> bool {
        capacity * (ratio - 1.0) < Self::SHORT_QUEUE * self.headroom_of(capacity)
    }

    fn next_limit(&self, epoch: &EpochCalls<'_>, ratio: f64) -> f64 {
        let before = self.limit;
        let capacity = Self::capacity(epoch, ratio);
        let target = if !self.has_short_queue(capacity, ratio) {
            capacity + self.headroom_of(capacity)
        } else if epoch.limit == floor(before) {
            before * Self::GROWTH
        } else {
            // The limit has grown since this epoch.
            before
        };
        let target = target.clamp(before / 2.0, before * Self::GROWTH);
        // A small change may be noise.
        let step = if (target / before - 1.0).abs() < 0.2 { 0.5 } else { 1.0 };
        before + step * (target - before)
    }

    fn is_dip_due(&mut self, now: Timestamp) -> bool {
        let last = *self.last_dip.get_or_insert(now);
        if last > now {
            // The clock has stepped back.
            self.last_dip = Some(now);
            return false;
        }
        let interval = self.dip_interval.min(Duration::from_secs(1 << self.dips.min(16)));
        let epochs = self.epoch_length.get().as_secs_f64() / Self::EPOCH.as_secs_f64();
        let interval = interval.mul_f64(epochs);
        let is_due = self.was_reached && now.saturating_since(last) >= interval;
        if !is_due || self.dip_limit() >= floor(self.limit) {
            return false;
        }
        self.dips += 1;
        (self.last_dip, self.was_reached) = (Some(now), false);
        true
    }
}

impl LimitAlgorithm for Headroom {
    fn highest_limit(&self) -> u64 {
        self.range.max()
    }

    fn first_plan(&mut self) -> LimitPlan {
        self.steady_plan()
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        let LimitEvidence::Epoch(epoch) = evidence else { return self.steady_plan() };
        match self.phase {
            Phase::Steady => self.update(epoch),
            Phase::BeforeCut => {
                self.phase = Phase::Steady;
                self.steady_plan()
            }
            Phase::Leaving => self.measuring_plan(),
            Phase::Measuring => {
                self.phase = Phase::Measured;
                self.steady_plan()
            }
            Phase::Measured => self.end_dip(epoch),
        }
    }
}
