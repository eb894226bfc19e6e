//! The response times of an epoch, as the algorithm compares them.

use std::time::Duration;

use super::super::algorithm::EpochCalls;
use super::super::range::float;
use crate::histogram::{HistogramBucket, LatencyHistogram};

/// Quantiles and the mean of response times, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    quantiles: [f64; Self::QUANTILES.len()],
    mean: f64,
}

impl Profile {
    /// The upper half: with fewer calls than this, a change of the mix of fast and slow calls
    /// changes fewer of them, but a queue that only some of the calls wait in is not seen.
    const QUANTILES: [f64; 10] = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];
    /// The longest response time that counts in the mean, as a multiple of the highest quantile. A
    /// longer one counts as this one, so that a single outlier does not decide the mean.
    const OUTLIER: f64 = 10.0;

    /// Returns the profile of an epoch; `None` if there are too few calls. A call that was
    /// cancelled after more than `base` seconds counts with that time, which is a lower bound.
    pub(super) fn of(epoch: &EpochCalls<'_>, base: f64, least: u64) -> Option<Self> {
        if late(epoch, base).next().is_none() {
            return Self::of_times(epoch, epoch.response_times, least);
        }
        let mut times = epoch.response_times.clone();
        late(epoch, base)
            .for_each(|bin| times.record_many(Duration::from_secs_f64(bin.lower), bin.count));
        Self::of_times(epoch, &times, least)
    }

    fn of_times(epoch: &EpochCalls<'_>, times: &LatencyHistogram, least: u64) -> Option<Self> {
        let ended = times.count();
        let unfinished = epoch.unfinished();
        let calls = ended + unfinished;
        if calls < least {
            return None;
        }
        let longest = times.max().map_or(0.0, |max| max.as_secs_f64());
        // A lower bound of the response times of the calls that have not ended.
        let age = epoch.now.saturating_since(epoch.end).as_secs_f64().max(longest);
        let share = float(ended) / float(calls);
        let quantiles = Self::QUANTILES.map(|q| {
            let ended = (q <= share).then(|| times.quantile_as_secs_f64(q / share));
            ended.flatten().unwrap_or(age)
        });
        let cap = quantiles[Self::QUANTILES.len() - 1] * Self::OUTLIER;
        let sum = capped_sum(times, cap) + float(unfinished) * age;
        Some(Self { quantiles, mean: (sum / float(calls)).max(1e-9) })
    }

    pub(super) const fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns a response time that few calls exceed.
    pub(super) fn long_response_time(&self) -> Duration {
        let highest = self.quantiles[Self::QUANTILES.len() - 1];
        // A quantile that is longer than this is of no use here.
        Duration::from_secs_f64(highest.max(2.0 * self.mean).min(3_600.0))
    }

    /// Returns how much longer the calls took than those of `base`: the median of the differences
    /// of the quantiles. If all calls wait for the same time longer, it is that time.
    pub(super) fn longer_than(&self, base: &Self) -> f64 {
        let mut differences = self.quantiles;
        for (quantile, base) in differences.iter_mut().zip(base.quantiles) {
            *quantile -= base;
        }
        differences.sort_by(f64::total_cmp);
        differences[Self::QUANTILES.len() / 2]
    }

    /// Returns this profile with the mean of several ones, if they differ by less than a tenth.
    pub(super) fn averaged_with(self, before: Option<&Self>) -> Self {
        match before {
            Some(before) if self.longer_than(before).abs() < 0.1 * before.mean => {
                Self { mean: 0.7 * before.mean + 0.3 * self.mean, ..self }
            }
            _ => self,
        }
    }
}

/// Returns the number of calls that were cancelled after more than `base` seconds.
pub(super) fn late_cancellations(epoch: &EpochCalls<'_>, base: f64) -> u64 {
    late(epoch, base).map(|bin| bin.count).sum()
}

/// Returns the bins of the calls that were cancelled after more than `base` seconds.
fn late<'a>(epoch: &EpochCalls<'a>, base: f64) -> impl Iterator<Item = HistogramBucket> + use<'a> {
    epoch.cancelled.buckets().filter(move |bin| bin.lower >= base)
}

fn capped_sum(response_times: &LatencyHistogram, cap: f64) -> f64 {
    let bins = response_times.buckets();
    bins.map(|bin| (2.0 / (1.0 / bin.lower + 1.0 / bin.upper)).min(cap) * float(bin.count)).sum()
}
