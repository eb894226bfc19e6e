//! The trials whose calls the algorithm compares.

use std::time::Duration;

use super::super::algorithm::EpochCalls;
use super::super::range::float;
use super::profile::Profile;

/// The times of the last dip, or of a later trial whose calls took less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    pub(super) profile: Profile,
    /// The limit of the dip.
    pub(super) limit: f64,
}

/// The last trials at the limit, as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct High {
    profile: Profile,
    /// The permits that were given back in a second.
    rate: f64,
    /// The mean permits of a call.
    pub(super) weight: f64,
    /// The calls that were measured.
    calls: f64,
}

impl High {
    /// The most calls of the last trials at the limit that count. A trial of 20 calls tells little
    /// of a queue that takes tens of calls to change.
    const MOST_CALLS: f64 = 200.0;
    /// With as many, the trials at the limit tell as much as a dip does.
    const ENOUGH_CALLS: f64 = 100.0;

    pub(super) fn of(profile: Profile, epoch: &EpochCalls<'_>) -> Self {
        // At least one permit: none, times a time that is infinite, would be no number.
        let returned = float(epoch.returned.max(1));
        let rate = returned / length(epoch).as_secs_f64().max(1e-9);
        Self { profile, rate, weight: epoch.mean_permits, calls: float(epoch.begun) }
    }

    /// Returns this trial with the former ones, of which as many calls count as make up
    /// [`Self::MOST_CALLS`]. The queue is the mean of the queues, so a time counts in proportion
    /// to its rate. If a quantile is known of one of them only, the former ones do not count.
    pub(super) fn after(self, former: Self) -> Self {
        let kept = former.calls.min(Self::MOST_CALLS - self.calls).max(0.0);
        let calls = self.calls + kept;
        let mean = |one: f64, other: f64| (one * self.calls + other * kept) / calls;
        let rate = mean(self.rate, former.rate);
        let share = former.rate * kept / (rate * calls);
        if !(share > 0.0 && share < 1.0) {
            return self;
        }
        let Some(profile) = self.profile.mixed(&former.profile, share) else { return self };
        Self { profile, rate, weight: mean(self.weight, former.weight), calls }
    }

    pub(super) fn is_sure(&self) -> bool {
        self.calls >= Self::ENOUGH_CALLS
    }

    /// Returns how many permits of calls that queue `base` lacks: by the median and by the second
    /// largest difference.
    pub(super) fn queue(&self, base: &Base) -> Option<[f64; 2]> {
        self.profile.longer_than(&base.profile).map(|longer| longer.map(|it| self.rate * it))
    }
}

pub(super) fn length(epoch: &EpochCalls<'_>) -> Duration {
    epoch.end.saturating_since(epoch.start)
}

/// Returns the length of a dip without a night in which no calls came, which would put off the next
/// dip for weeks: at most twice the time in which the calls would have kept the dip busy, by
/// Little's law.
pub(super) fn busy_length(dip: u64, epoch: &EpochCalls<'_>) -> Duration {
    let length = length(epoch);
    let Some(mean) = epoch.response_times.mean() else { return length };
    let busy = float(epoch.returned) * mean.as_secs_f64() / float(dip);
    length.mul_f64((2.0 * busy / length.as_secs_f64().max(1e-9)).min(1.0))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::histogram::LatencyHistogram;
    use crate::time::Timestamp;

    /// The calls of a trial take more than a day, or the clock steps by a day, and all fail later.
    #[test]
    fn trial_in_which_no_permit_comes_back_has_a_queue() {
        let (mut times, none) = (LatencyHistogram::default(), LatencyHistogram::default());
        (0..20).for_each(|_| times.record(Duration::from_millis(10)));
        let end = Timestamp::from_secs(86_400);
        let epoch = |returned, response_times| EpochCalls {
            now: end,
            start: Timestamp::MIN,
            end,
            limit: 20,
            peak_in_flight: 20,
            permits: 20,
            returned,
            begun: 20,
            mean_permits: 1.0,
            exceptions: 0,
            response_times,
            cancelled: &none,
        };
        let [hung, ended] = [epoch(0, &none), epoch(20, &times)];
        let [of_hung, of_ended] = [hung, ended].map(|it| Profile::of(&it).unwrap());
        let base = Base { profile: of_ended, limit: 15.0 };
        assert_eq!(High::of(of_hung, &hung).queue(&base), Some([f64::INFINITY; 2]));
    }
}
