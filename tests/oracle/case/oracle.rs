//! The naive oracle: lists of everything that was recorded, searched and summed by hand.

use std::ops::Range;
use std::time::Duration;

use leaparray::{MetricBucket, MetricEvent};

use super::Geometry;

/// Everything that was recorded in a subject, in runs. There are no slots, and nothing is ever
/// removed.
#[derive(Debug)]
pub(super) struct Oracle {
    pub(super) geometry: Geometry,
    made: u64,
    rules: Rules,
    runs: Vec<Run>,
}

/// What differs between the two subjects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rules {
    /// A `SlidingWindow` of N buckets that one thread records in.
    ///
    /// A run is what the thread records in one bucket before it records in another one: the counters
    /// of its cell begin from zero after that.
    Window,
    /// A `LeapArray<MetricBucket>` of N slots. What is recorded in one bucket is one run, and so is
    /// all that is late.
    Array,
}

/// What was recorded by counters that began from zero.
#[derive(Debug)]
struct Run {
    bucket: u64,
    /// The bucket was gone when the run began.
    is_late: bool,
    recorded: Recorded,
}

/// A run of an oracle.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunIndex(usize);

impl Oracle {
    pub(super) fn new(geometry: Geometry, made: u64, rules: Rules) -> Self {
        Self { geometry, made, rules, runs: Vec::new() }
    }

    /// The run of what is recorded at `now`.
    pub(super) fn run_at(&mut self, now: u64) -> RunIndex {
        let bucket = self.geometry.bucket(now);
        let is_late = self.is_gone(bucket);
        let found = match self.rules {
            Rules::Window => {
                let last = self.runs.len().checked_sub(1);
                last.filter(|&last| self.runs[last].bucket == bucket)
            }
            Rules::Array => self
                .runs
                .iter()
                .position(|run| run.is_late == is_late && (is_late || run.bucket == bucket)),
        };
        RunIndex(found.unwrap_or_else(|| {
            self.runs.push(Run { bucket, is_late, recorded: Recorded::default() });
            self.runs.len() - 1
        }))
    }

    pub(super) fn recorded_mut(&mut self, run: RunIndex) -> &mut Recorded {
        &mut self.runs[run.0].recorded
    }

    fn in_time(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.is_late)
    }

    /// Whether something newer that was recorded has taken the place of `bucket`.
    fn is_gone(&self, bucket: u64) -> bool {
        let samples = self.geometry.samples;
        let mut ages = self.in_time().filter_map(|run| run.bucket.checked_sub(bucket));
        ages.any(|age| age > 0 && age.is_multiple_of(samples))
    }

    /// Whether a run is in a bucket that is still there and is so many buckets before that of `now`.
    fn has_age(&self, run: &Run, now: u64, ages: &Range<u64>) -> bool {
        let age = self.geometry.bucket(now).checked_sub(run.bucket);
        age.is_some_and(|age| ages.contains(&age)) && !self.is_gone(run.bucket)
    }

    /// The buckets of those ages, the current one's being 0.
    pub(super) fn aged(&self, now: u64, ages: &Range<u64>) -> Part<'_> {
        Part::of(self.in_time().filter(|run| self.has_age(run, now, ages)))
    }

    /// The buckets of those ages that are there, each with its start, from the oldest to the newest.
    pub(super) fn buckets(&self, now: u64, ages: &Range<u64>) -> Vec<(u64, Part<'_>)> {
        let newest = self.geometry.bucket(now);
        let numbers = ages.clone().rev().filter_map(|age| newest.checked_sub(age));
        let part = |number| Part::of(self.in_time().filter(move |run| run.bucket == number));
        let there = numbers.filter(|number| !self.is_gone(*number));
        let buckets = there.map(|number| (number * self.geometry.bucket_nanos, part(number)));
        buckets.filter(|(_, part)| !part.0.is_empty()).collect()
    }

    /// All others.
    pub(super) fn expired(&self, now: u64, ages: &Range<u64>) -> Part<'_> {
        Part::of(self.in_time().filter(|run| !self.has_age(run, now, ages)))
    }

    pub(super) fn late(&self) -> Part<'_> {
        Part::of(self.runs.iter().filter(|run| run.is_late))
    }

    pub(super) fn everything(&self) -> Part<'_> {
        Part::of(self.runs.iter())
    }

    /// For how long a window of `buckets` has been there: in whole buckets, from that in which it
    /// was made to that of `now`. What was before it is history that is played back.
    pub(super) fn observed_nanos(&self, now: u64, buckets: u64) -> u64 {
        let [made, newest] = [self.made, now].map(|time| self.geometry.bucket(time));
        let age = newest.checked_sub(made).map_or(buckets, |age| age.saturating_add(1));
        age.min(buckets) * self.geometry.bucket_nanos
    }
}

/// What was recorded in one run.
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

/// No number in a run is above that.
fn cut(number: u64) -> u64 {
    number.min(MetricBucket::CEILING)
}

/// Some of the runs.
#[derive(Debug)]
pub(super) struct Part<'a>(Vec<&'a Recorded>);

impl<'a> Part<'a> {
    fn of(runs: impl Iterator<Item = &'a Run>) -> Self {
        Self(runs.map(|run| &run.recorded).collect())
    }

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
