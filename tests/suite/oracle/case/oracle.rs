//! The naive oracle: a list of all records, which each read searches and adds up.

use std::ops::Range;
use std::time::Duration;

use leaparray::MetricEvent;
use leaparray::metric::MetricBucket;

use super::Geometry;

/// All records in a subject, in runs. The oracle has no slots, and never removes a record.
#[derive(Debug)]
pub(super) struct Oracle {
    pub(super) geometry: Geometry,
    made: u64,
    rules: Rules,
    runs: Vec<Run>,
}

/// How records are grouped into runs, which differs between the two subjects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rules {
    /// A `SlidingWindow` of N buckets.
    ///
    /// A run has the records that a thread makes in one bucket before it records in another one:
    /// then the counters of its cell start from zero.
    Window,
    /// A `LeapArray<MetricBucket>` of N slots. All records in one bucket are one run, and so are
    /// all late records.
    Array,
}

/// The records that a set of counters has counted since it started from zero.
#[derive(Debug)]
struct Run {
    /// The thread that records in it, in a window.
    thread: usize,
    bucket: u64,
    /// Whether the bucket was gone when the run began.
    is_late: bool,
    recorded: Recorded,
}

/// The index of a run in its oracle.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunIndex(usize);

impl Oracle {
    pub(super) fn new(geometry: Geometry, made: u64, rules: Rules) -> Self {
        Self { geometry, made, rules, runs: Vec::new() }
    }

    /// The run of a record at `now`: an existing one, or a new one.
    pub(super) fn run_at(&mut self, now: u64) -> RunIndex {
        self.run_of(0, now)
    }

    /// The run of a record that a thread makes at `now`.
    pub(super) fn run_of(&mut self, thread: usize, now: u64) -> RunIndex {
        let bucket = self.geometry.bucket(now);
        let is_late = self.is_gone(bucket);
        let found = match self.rules {
            Rules::Window => {
                let last = self.runs.iter().rposition(|run| run.thread == thread);
                last.filter(|&last| self.runs[last].bucket == bucket)
            }
            Rules::Array => self
                .runs
                .iter()
                .position(|run| run.is_late == is_late && (is_late || run.bucket == bucket)),
        };
        RunIndex(found.unwrap_or_else(|| {
            self.runs.push(Run { thread, bucket, is_late, recorded: Recorded::default() });
            self.runs.len() - 1
        }))
    }

    pub(super) fn recorded_mut(&mut self, run: RunIndex) -> &mut Recorded {
        &mut self.runs[run.0].recorded
    }

    fn in_time(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.is_late)
    }

    /// Whether a later bucket of the same slot has a record that is in time.
    fn is_gone(&self, bucket: u64) -> bool {
        let samples = self.geometry.samples;
        let mut ages = self.in_time().filter_map(|run| run.bucket.checked_sub(bucket));
        ages.any(|age| age > 0 && age.is_multiple_of(samples))
    }

    /// Whether the bucket of a run is not gone and has one of those ages at `now`.
    fn has_age(&self, run: &Run, now: u64, ages: &Range<u64>) -> bool {
        let age = self.geometry.bucket(now).checked_sub(run.bucket);
        age.is_some_and(|age| ages.contains(&age)) && !self.is_gone(run.bucket)
    }

    /// The records in the buckets of those ages. The age of a bucket is its distance from the
    /// bucket of `now`.
    pub(super) fn aged(&self, now: u64, ages: &Range<u64>) -> Part<'_> {
        Part::of(self.in_time().filter(|run| self.has_age(run, now, ages)))
    }

    /// The buckets of those ages that have records and are not gone, each with its start. The
    /// oldest one is the first.
    pub(super) fn buckets(&self, now: u64, ages: &Range<u64>) -> Vec<(u64, Part<'_>)> {
        let newest = self.geometry.bucket(now);
        let numbers = ages.clone().rev().filter_map(|age| newest.checked_sub(age));
        let part = |number| Part::of(self.in_time().filter(move |run| run.bucket == number));
        let there = numbers.filter(|number| !self.is_gone(*number));
        let buckets = there.map(|number| (number * self.geometry.bucket_nanos, part(number)));
        buckets.filter(|(_, part)| !part.0.is_empty()).collect()
    }

    /// The other records, without the late ones.
    pub(super) fn expired(&self, now: u64, ages: &Range<u64>) -> Part<'_> {
        Part::of(self.in_time().filter(|run| !self.has_age(run, now, ages)))
    }

    pub(super) fn late(&self) -> Part<'_> {
        Part::of(self.runs.iter().filter(|run| run.is_late))
    }

    pub(super) fn everything(&self) -> Part<'_> {
        Part::of(self.runs.iter())
    }

    /// The time that a window of `buckets` covers at `now`: from the start of its oldest bucket, or
    /// from the time at which it was made, if that is between the two. At least a tenth of a
    /// bucket.
    pub(super) fn covered_nanos(&self, now: u64, buckets: u64) -> u64 {
        let oldest = self.geometry.bucket(now).saturating_sub(buckets - 1);
        self.existed_nanos(oldest * self.geometry.bucket_nanos, now)
    }

    /// The same time for the `buckets` before the last `buckets`.
    pub(super) fn previous_nanos(&self, now: u64, buckets: u64) -> u64 {
        // The bucket after the youngest one that is not among the last `buckets`.
        let end = (self.geometry.bucket(now) + 1).saturating_sub(buckets);
        let [start, end] =
            [end.saturating_sub(buckets), end].map(|number| number * self.geometry.bucket_nanos);
        self.existed_nanos(start, end)
    }

    fn existed_nanos(&self, start: u64, end: u64) -> u64 {
        let start = if self.made <= end { start.max(self.made) } else { start };
        (end - start).max(self.geometry.bucket_nanos / 10).max(1)
    }
}

/// The records of one run.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Each event with its count. A count of [`MetricEvent::Rt`] is one response time.
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

/// Clamps a number to the highest one that a run can have.
fn cut(number: u64) -> u64 {
    number.min(MetricBucket::CEILING)
}

/// The records of some runs.
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
        Some(Duration::from_nanos(mean.try_into().expect("at most the maximum")))
    }

    pub(super) fn max_concurrency(&self) -> Option<u64> {
        self.0.iter().flat_map(|it| &it.concurrencies).copied().map(cut).max()
    }
}
