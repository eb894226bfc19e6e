//! The naive oracle: lists of everything that was recorded, searched and summed by hand.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use leaparray::{MetricBucket, MetricEvent};

use super::Geometry;

/// Everything that was recorded, by bucket. There are no slots, and nothing is ever removed.
#[derive(Debug)]
pub(super) struct Oracle {
    pub(super) geometry: Geometry,
    made: u64,
    buckets: BTreeMap<u64, Recorded>,
    late: Recorded,
}

/// Where something is recorded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Bucket(u64),
    Late,
}

impl Oracle {
    pub(super) fn new(geometry: Geometry, made: u64) -> Self {
        Self { geometry, made, buckets: BTreeMap::new(), late: Recorded::default() }
    }

    pub(super) fn place(&self, now: u64) -> Place {
        let bucket = self.geometry.bucket(now);
        if self.overtaken(bucket) { Place::Late } else { Place::Bucket(bucket) }
    }

    pub(super) fn recorded_mut(&mut self, place: Place) -> &mut Recorded {
        match place {
            Place::Bucket(bucket) => self.buckets.entry(bucket).or_default(),
            Place::Late => &mut self.late,
        }
    }

    /// Whether something was recorded a whole number of laps after `bucket`.
    fn overtaken(&self, bucket: u64) -> bool {
        let laps_after =
            |it: u64| it > bucket && (it - bucket).is_multiple_of(self.geometry.samples);
        self.buckets.keys().any(|&it| laps_after(it))
    }

    /// Whether `bucket` is still there and is so many buckets before that of `now`.
    fn has_age(&self, bucket: u64, now: u64, ages: &Range<u64>) -> bool {
        let age = self.geometry.bucket(now).checked_sub(bucket);
        age.is_some_and(|age| ages.contains(&age)) && !self.overtaken(bucket)
    }

    /// The buckets of those ages, the current one's being 0.
    pub(super) fn aged(&self, now: u64, ages: &Range<u64>) -> Part<'_> {
        let of_age = self.buckets.iter().filter(|(bucket, _)| self.has_age(**bucket, now, ages));
        Part(of_age.map(|(_, recorded)| recorded).collect())
    }

    /// Where the buckets of those ages begin that are there.
    pub(super) fn starts(&self, now: u64, ages: &Range<u64>) -> Vec<u64> {
        let of_age = self.buckets.keys().filter(|bucket| self.has_age(**bucket, now, ages));
        of_age.map(|bucket| bucket * self.geometry.bucket_nanos).collect()
    }

    /// All others.
    pub(super) fn expired(&self, now: u64, ages: &Range<u64>) -> Part<'_> {
        let others = self.buckets.iter().filter(|(bucket, _)| !self.has_age(**bucket, now, ages));
        Part(others.map(|(_, recorded)| recorded).collect())
    }

    pub(super) fn late(&self) -> Part<'_> {
        Part(vec![&self.late])
    }

    pub(super) fn everything(&self) -> Part<'_> {
        Part(self.buckets.values().chain([&self.late]).collect())
    }

    /// For how long a window of `buckets` has been there: in whole buckets, from that in which it
    /// was made to that of `now`. What was before it is history that is played back.
    pub(super) fn observed_nanos(&self, now: u64, buckets: u64) -> u64 {
        let [made, newest] = [self.made, now].map(|time| self.geometry.bucket(time));
        let age = newest.checked_sub(made).map_or(buckets, |age| age.saturating_add(1));
        age.min(buckets) * self.geometry.bucket_nanos
    }
}

/// What was recorded in one bucket.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Of [`MetricEvent::Rt`], each is one response time.
    pub(super) counts: Vec<(MetricEvent, u64)>,
    pub(super) concurrencies: Vec<u64>,
}

impl Recorded {
    fn of(&self, event: MetricEvent) -> impl Iterator<Item = u64> {
        self.counts.iter().filter(move |it| it.0 == event).map(|it| it.1)
    }

    fn sum(&self, event: MetricEvent) -> u64 {
        let sum: u128 = self.of(event).map(u128::from).sum();
        cut(u64::try_from(sum).unwrap_or(u64::MAX))
    }
}

/// No number in a bucket is above that.
fn cut(number: u64) -> u64 {
    number.min(MetricBucket::CEILING)
}

/// Some of the buckets.
#[derive(Debug)]
pub(super) struct Part<'a>(Vec<&'a Recorded>);

impl Part<'_> {
    fn sums(&self, event: MetricEvent) -> impl Iterator<Item = u64> {
        self.0.iter().map(move |it| it.sum(event))
    }

    pub(super) fn sum(&self, event: MetricEvent) -> u64 {
        self.sums(event).fold(0, u64::saturating_add)
    }

    fn rts(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|it| it.of(MetricEvent::Rt)).map(cut)
    }

    pub(super) fn rt_count(&self) -> u64 {
        self.rts().count() as u64
    }

    pub(super) fn min_rt(&self) -> Option<Duration> {
        self.rts().min().map(Duration::from_nanos)
    }

    pub(super) fn max_rt(&self) -> Option<Duration> {
        self.rts().max().map(Duration::from_nanos)
    }

    pub(super) fn avg_rt(&self) -> Option<Duration> {
        let nanos: u128 = self.sums(MetricEvent::Rt).map(u128::from).sum();
        let mean = nanos.checked_div(self.rt_count().into())?;
        Some(Duration::from_nanos(mean.try_into().expect("below the greatest")))
    }

    pub(super) fn max_concurrency(&self) -> Option<u64> {
        self.0.iter().flat_map(|it| &it.concurrencies).copied().map(cut).max()
    }
}
