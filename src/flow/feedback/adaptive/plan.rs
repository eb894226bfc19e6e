//! The making of plans.

use std::mem;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use super::AdaptiveLimiter;
use super::algorithm::{EndedCall, LimitAlgorithm, LimitEvidence, LimitPlan, Next, Until};
use super::epochs::{EpochTimes, Past};
use super::range::{LimitRange, floor};
use crate::flow::limiters::PermitCount;
use crate::sync::{MutexGuard, Ordering};
use crate::time::{Clock, Timestamp};

/// The longest time after which it is looked at again whether an epoch is over.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// The time by which an epoch begins after the clock if the clock has stepped back. A call may
/// begin one that is a lead of the horizon ahead.
const STEP: Duration = Duration::from_secs(2);

/// The algorithm, and the current plan.
#[derive(Debug)]
pub(super) struct Planner<A> {
    algorithm: A,
    most: u64,
    plan: LimitPlan,
    /// The number of the current epoch.
    epoch: u64,
    /// The start of the current epoch.
    start: Timestamp,
    /// The permits at its start.
    count: PermitCount,
    /// The epoch before it.
    previous: Option<Past>,
    times: EpochTimes,
}

/// The part of a plan that the calls read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) limit: u64,
    pub(super) epoch: u64,
    pub(super) due: u64,
}

impl<A: LimitAlgorithm> Planner<A> {
    const SHORTEST: Duration = Duration::from_millis(1);

    pub(super) fn new(mut algorithm: A, now: Timestamp) -> Self {
        let most = algorithm.highest_limit().clamp(1, LimitRange::MAX);
        let plan = algorithm.first_plan();
        let (times, count) = (EpochTimes::default(), PermitCount::default());
        Self { algorithm, most, plan, epoch: 1, start: now, count, previous: None, times }
    }

    pub(super) fn first(&mut self) -> Published {
        self.begin(self.plan, self.start)
    }

    /// Returns the highest limit of all plans.
    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    /// Begins an epoch with that plan.
    fn begin(&mut self, plan: LimitPlan, now: Timestamp) -> Published {
        self.plan = LimitPlan { limit: plan.limit.clamp(1, self.most), ..plan };
        self.epoch += 1;
        self.start = now;
        let due = match plan.next {
            Next::EachCall => u64::MAX,
            Next::Epoch { length, .. } => Self::due(now, length),
        };
        Published { limit: self.plan.limit, epoch: self.epoch, due }
    }

    fn due(now: Timestamp, length: Duration) -> u64 {
        // The highest value stands for a plan for each call.
        now.saturating_add(length.clamp(Self::SHORTEST, POLL)).as_nanos().min(u64::MAX - 1)
    }
}

impl<A: LimitAlgorithm, C: Clock> AdaptiveLimiter<A, C> {
    /// Sets another algorithm, which goes on from the current limit: to change the range, or a
    /// parameter of the algorithm. Permits in flight stay. An algorithm measures again, and the
    /// limit stays in between, as far as the new range allows: of a [`Headroom`] that is in a dip,
    /// the limit of the dip.
    ///
    /// A decision beside this call follows the former algorithm or the new one, never a mixture.
    /// The new algorithm is not told of calls in flight. Waits for a thread that is making a plan.
    ///
    /// ```
    /// use leaparray::flow::AdaptiveLimiter;
    /// use leaparray::flow::adaptive::{Headroom, LimitRange};
    ///
    /// let limiter = AdaptiveLimiter::new(Headroom::new(LimitRange::new(1, 50, 200)?));
    /// limiter.reconfigure(Headroom::new(LimitRange::new(10, 20, 500)?).headroom(2.0)?);
    /// assert_eq!(limiter.limit(), 50, "not the first limit of the new range");
    /// limiter.reconfigure(Headroom::new(LimitRange::new(1, 20, 30)?));
    /// assert_eq!(limiter.limit(), 30);
    /// # Ok::<_, leaparray::flow::adaptive::AdaptiveConfigError>(())
    /// ```
    ///
    /// [`Headroom`]: super::Headroom
    pub fn reconfigure(&self, mut algorithm: A) {
        let mut planner = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        // Before anything changes: the algorithm may panic.
        let most = algorithm.highest_limit().clamp(1, LimitRange::MAX);
        let plan = algorithm.resume(planner.plan.limit);
        (planner.algorithm, planner.most, planner.previous) = (algorithm, most, None);
        self.permits.set_most(most);
        planner.count = self.permits.count();
        self.peak.store(planner.count.in_use(), Ordering::Relaxed);
        self.sample.take_all();
        let now = self.bounded(self.clock.now());
        self.publish(planner.begin(plan, now));
    }

    /// Ends the current epoch and begins the next one, unless another thread does so.
    #[cold]
    pub(super) fn plan_after_epoch(&self, now: Timestamp) {
        let now = self.bounded(now);
        let Some(mut planner) = self.try_planner() else {
            // The call counts in the current epoch, although it is over.
            self.held_at.fetch_max(now.as_nanos(), Ordering::Relaxed);
            return;
        };
        let planner = &mut *planner;
        let Next::Epoch { length, until, longest } = planner.plan.next else { return };
        if now < planner.start {
            self.begin_again_after_step_back(planner);
            return;
        }
        let elapsed = now.saturating_since(planner.start);
        if elapsed < length.max(Planner::<A>::SHORTEST) {
            // Another thread has begun an epoch since this thread found that the last one was over.
            // Or the epoch is so long that it is looked at before its end.
            let left = length.max(Planner::<A>::SHORTEST).saturating_sub(elapsed);
            self.due.store(Planner::<A>::due(now, left), Ordering::Relaxed);
            return;
        }
        if elapsed < longest && !self.has(planner, until, elapsed) {
            // Fewer calls come than the sample was made for.
            self.sample.take_all();
            self.due.store(Planner::<A>::due(now, elapsed / 8), Ordering::Relaxed);
            return;
        }
        let limit = planner.plan.limit;
        // The first call after the longest length ends the epoch, so all calls of the epoch came
        // before.
        let longest = longest.max(length).max(Planner::<A>::SHORTEST);
        let end = now.min(planner.start.saturating_add(longest));
        let plan = match planner.previous {
            None => planner.plan,
            Some(past) => {
                let epoch = planner.epoch - 1;
                let calls = self.epochs.calls(epoch, past, now, &mut planner.times);
                planner.algorithm.next_plan(&LimitEvidence::Epoch(calls))
            }
        };
        // After the algorithm: if it panics, the next plan is about the same epoch. A peak that a
        // call raises at the same time may count in either epoch.
        let count = self.permits.count();
        let peak = self.peak.swap(count.in_use(), Ordering::Relaxed);
        let before = mem::replace(&mut planner.count, count);
        let (permits, returned) = (count.taken_since(before), count.returned_since(before));
        // The epoch ends later if calls came while a thread held the planner. Relaxed: which of two
        // epochs such a call counts in does not matter.
        let held_at = Timestamp::from_nanos(self.held_at.load(Ordering::Relaxed));
        let (start, end) = (planner.start, end.max(held_at));
        let past = Past { start, end, limit, peak, permits, returned };
        let rate = self.epochs.rate(planner.epoch, past);
        let former = planner.previous.replace(past);
        let former_rate = former.map_or(0.0, |it| self.epochs.rate(planner.epoch - 1, it));
        self.draw_sample(rate.max(former_rate), plan);
        self.publish(planner.begin(plan, now.max(held_at)));
    }

    /// Draws a sample of the calls of an epoch in which `rate` calls come in a second: the higher
    /// rate of the last two epochs, as the lengths of the epochs may differ, and one of them may
    /// have ended after a pause. If fewer come than the epoch waits for, the rest of its calls are
    /// measured.
    fn draw_sample(&self, rate: f64, plan: LimitPlan) {
        match plan.next {
            Next::EachCall => self.sample.take_all(),
            Next::Epoch { length, until, .. } => {
                let calls = rate * length.max(Planner::<A>::SHORTEST).as_secs_f64();
                self.sample.take(until.calls.max(until.permits), floor(calls));
            }
        }
    }

    /// Returns whether an epoch has what it waits for.
    fn has(&self, planner: &Planner<A>, until: Until, elapsed: Duration) -> bool {
        let epoch = planner.epoch;
        self.epochs.begun(epoch) >= until.calls
            && self.permits.count().taken_since(planner.count) >= until.permits
            && until.ended_within.is_none_or(|patience| {
                let share = if elapsed < patience { 1 } else { 2 };
                self.epochs.has_ended(epoch - 1, share)
            })
    }

    /// Begins the epoch again if the clock has stepped back: its start would come again only after
    /// the time of the step. A call with an earlier time, of which the clock tells that it is late,
    /// changes nothing.
    fn begin_again_after_step_back(&self, planner: &mut Planner<A>) {
        let now = self.clock.now();
        if planner.start.saturating_since(now) <= STEP {
            return;
        }
        self.held_at.store(0, Ordering::Relaxed);
        planner.count = self.permits.count();
        self.peak.store(planner.count.in_use(), Ordering::Relaxed);
        // The lengths of the epochs about the step tell nothing.
        planner.previous = None;
        self.publish(planner.begin(planner.plan, now));
    }

    fn bounded(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(self.horizon.bound(now.as_nanos(), &self.clock))
    }

    /// Tells the algorithm of a call, unless another thread is making a plan.
    pub(super) fn plan_after_call(&self, call: EndedCall) {
        let Some(mut planner) = self.try_planner() else {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if planner.plan.next != Next::EachCall {
            return;
        }
        let plan = planner.algorithm.next_plan(&LimitEvidence::Call(call));
        if plan.next == Next::EachCall {
            planner.plan.limit = plan.limit.clamp(1, planner.most);
            self.permits.set_limit(planner.plan.limit);
        } else {
            (planner.previous, planner.count) = (None, self.permits.count());
            self.publish(planner.begin(plan, self.bounded(call.now)));
        }
    }

    fn publish(&self, plan: Published) {
        self.permits.set_limit(plan.limit);
        // Release: pairs with the Acquire in `admit`.
        self.epoch.store(plan.epoch, Ordering::Release);
        self.due.store(plan.due, Ordering::Relaxed);
    }

    fn try_planner(&self) -> Option<MutexGuard<'_, Planner<A>>> {
        match self.planner.try_lock() {
            Ok(planner) => Some(planner),
            // The algorithm has panicked. It is asked again.
            Err(TryLockError::Poisoned(planner)) => Some(planner.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
