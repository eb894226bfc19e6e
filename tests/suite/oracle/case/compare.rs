//! Compares each reading of a window or an array with its oracle.

use std::fmt::{Debug, Display};
use std::ops::Range;

use leaparray::array::{Bucket, BucketGuard, LeapArray, Ledger};
use leaparray::metric::MetricBucket;
use leaparray::{ManualClock, MetricEvent, MetricTotals, SlidingWindow, Timestamp};

use super::oracle::{Oracle, Part};
use super::{Case, Turn};

/// A comparison at `now`, after the turns `done` of a case.
pub(super) struct Comparison<'a> {
    pub(super) case: &'a Case,
    pub(super) done: &'a [Turn],
    pub(super) oracle: &'a Oracle,
    pub(super) now: u64,
    /// Whether some threads end. A thread that begins may go on in the cell of one that has ended,
    /// and whether that was bound in time decides between expired and late.
    pub(super) threads_end: bool,
}

/// A window or a view, with its geometry in buckets of the array.
struct Subject<'a> {
    name: &'a str,
    window: &'a SlidingWindow<ManualClock>,
    samples: u64,
    buckets_per_sample: u64,
}

impl Subject<'_> {
    /// The ages of the buckets that it covers.
    fn ages(&self) -> Range<u64> {
        0..self.samples * self.buckets_per_sample
    }

    /// The ages of the buckets that make up one of its samples.
    fn ages_of(&self, sample: u64) -> Range<u64> {
        sample * self.buckets_per_sample..(sample + 1) * self.buckets_per_sample
    }
}

type Window = SlidingWindow<ManualClock>;
type Wrap<'a> = BucketGuard<'a, MetricBucket>;

impl Comparison<'_> {
    pub(super) fn of_window(&self, window: &Window, view: &Window) {
        let lengths = self.case.geometry;
        let (samples, buckets_per_sample) = (lengths.view_samples, lengths.buckets_per_sample);
        let view = Subject { name: "view", window: view, samples, buckets_per_sample };
        let samples = lengths.samples;
        let window = Subject { name: "window", window, samples, buckets_per_sample: 1 };
        for subject in [window, view] {
            self.sums(&subject);
            self.rates(&subject);
            self.rts(&subject);
            self.buckets(&subject);
            self.ledger(&subject);
        }
    }

    fn sums(&self, subject: &Subject<'_>) {
        let Subject { name, window, .. } = *subject;
        let covered = self.oracle.aged(self.now, &subject.ages());
        let samples = (0..subject.samples).map(|it| subject.ages_of(it));
        let samples: Vec<_> = samples.map(|ages| self.oracle.aged(self.now, &ages)).collect();
        for &event in MetricEvent::ALL {
            self.eq(name, "sum", event, window.now().sum(event), covered.sum(event));
            let largest = samples.iter().map(|sample| sample.sum(event)).max();
            let found = window.now().max_of_single_bucket(event);
            self.eq(name, "largest bucket", event, Some(found), largest);
        }
    }

    fn rates(&self, subject: &Subject<'_>) {
        let Subject { name, window, buckets_per_sample, .. } = *subject;
        let ages = subject.ages();
        let covered = self.oracle.aged(self.now, &ages);
        let nanos = self.oracle.covered_nanos(self.now, ages.end);
        let previous = self.oracle.aged(self.now, &subject.ages_of(1));
        let previous_nanos = self.oracle.previous_nanos(self.now, buckets_per_sample);
        let kept = 2 * buckets_per_sample <= self.case.geometry.samples;
        for &event in MetricEvent::ALL {
            let rate = Rate(Some(window.now().qps(event)));
            self.eq(name, "rate", event, rate, Rate::of(covered.sum(event), nanos));
            let expected = Rate::of(previous.sum(event), previous_nanos);
            let expected = if kept { expected } else { Rate(None) };
            self.eq(name, "previous rate", event, Rate(window.now().previous_qps(event)), expected);
        }
    }

    fn rts(&self, subject: &Subject<'_>) {
        let Subject { name, window, .. } = *subject;
        let covered = self.oracle.aged(self.now, &subject.ages());
        self.eq(name, "min", "rt", window.now().totals().min_rt(), covered.min_rt());
        self.eq(name, "max", "rt", window.now().totals().max_rt(), covered.max_rt());
        self.eq(name, "mean", "rt", window.now().totals().avg_rt(), covered.avg_rt());
        self.eq(
            name,
            "max",
            "concurrency",
            window.now().totals().max_concurrency(),
            covered.max_concurrency(),
        );
    }

    fn buckets(&self, subject: &Subject<'_>) {
        let Subject { name, window, .. } = *subject;
        let newest = self.case.geometry.bucket(self.now);
        let since_the_beginning = |ages: &Range<u64>| ages.start <= newest;
        let samples = (0..subject.samples).rev().map(|it| subject.ages_of(it));
        let samples: Vec<_> = samples.filter(since_the_beginning).collect();
        let found: Vec<_> = window.now().buckets().collect();
        self.eq(name, "number of", "buckets", found.len(), samples.len());
        for (bucket, ages) in found.iter().zip(&samples) {
            let first = newest.saturating_sub(ages.end - 1);
            let start = Timestamp::from_nanos(first * self.case.geometry.bucket_nanos);
            self.eq(name, "start of a", "bucket", bucket.start, start);
            self.totals(name, "bucket", &bucket.totals, &self.oracle.aged(self.now, ages));
        }
    }

    fn ledger(&self, subject: &Subject<'_>) {
        let Subject { name, window, .. } = *subject;
        self.parts(name, &window.now().ledger(), &subject.ages());
        self.totals(name, "lifetime", &window.lifetime(), &self.oracle.everything());
    }

    fn parts(&self, name: &str, ledger: &Ledger<MetricTotals>, ages: &Range<u64>) {
        let in_window = self.oracle.aged(self.now, ages);
        self.totals(name, "in the window", &ledger.in_window, &in_window);
        let (expired, late) = (self.oracle.expired(self.now, ages), self.oracle.late());
        if self.threads_end {
            for &event in MetricEvent::ALL {
                let found = ledger.expired.sum(event) + ledger.late.sum(event);
                let expected = expired.sum(event) + late.sum(event);
                self.eq(name, "expired or late", event, found, expected);
            }
        } else {
            self.totals(name, "expired", &ledger.expired, &expired);
            self.totals(name, "late", &ledger.late, &late);
        }
        self.totals(name, "recorded", &ledger.recorded(), &self.oracle.everything());
    }

    fn totals(&self, name: &str, what: &str, found: &MetricTotals, part: &Part<'_>) {
        for &event in MetricEvent::ALL {
            self.eq(name, what, event, found.sum(event), part.sum(event));
        }
        self.eq(name, what, "number of rts", found.rt_count(), part.rt_count());
        self.eq(name, what, "min rt", found.min_rt(), part.min_rt());
        self.eq(name, what, "max rt", found.max_rt(), part.max_rt());
        self.eq(name, what, "mean rt", found.avg_rt(), part.avg_rt());
        self.eq(name, what, "max concurrency", found.max_concurrency(), part.max_concurrency());
    }

    pub(super) fn of_array(&self, array: &LeapArray<MetricBucket>) {
        let (samples, now) = (self.case.geometry.samples, Timestamp::from_nanos(self.now));
        let start = |wrap: &Wrap<'_>| wrap.start().as_nanos();
        let expected = self.oracle.buckets(self.now, &(0..samples));
        let starts: Vec<_> = expected.iter().map(|(start, _)| *start).collect();
        let found: Vec<_> = array.values(now).collect();
        self.eq("array", "starts of", "all", &found.iter().map(start).collect(), &starts);
        for (wrap, (_, part)) in found.iter().zip(&expected) {
            self.totals("array", "bucket", &wrap.bucket().total(), part);
        }

        let older = array.values_conditional(now, |start| start < now);
        let older: Vec<_> = older.map(|wrap| start(&wrap)).collect();
        let expected = starts.into_iter().filter(|start| *start < self.now).collect();
        self.eq("array", "starts of", "older", older, expected);

        let previous = array.previous_bucket(now).as_ref().map(start);
        let expected = self.oracle.buckets(self.now, &(1..samples.min(2)));
        let expected = expected.first().map(|(start, _)| *start);
        self.eq("array", "start of", "previous", previous, expected);

        self.parts("array", &array.ledger(now), &(0..samples));
    }

    fn eq<T>(&self, name: &str, what: &str, of: impl Display, found: T, expected: T)
    where
        T: PartialEq + Debug,
    {
        let both = [found, expected];
        assert!(both[0] == both[1], "{}", self.report(name, what, of, &both));
    }

    #[cold]
    fn report<T: Debug>(&self, name: &str, what: &str, of: impl Display, both: &[T; 2]) -> String {
        let [found, expected] = both;
        let turns: Vec<_> = self.done.iter().map(|turn| format!("  {turn:?}\n")).collect();
        format!(
            "{name}: {what} {of}: {found:?}, but the oracle says {expected:?}\n\
             at {}, of {:?} made at {}, after\n{}",
            self.now,
            self.case.geometry,
            self.case.origin,
            turns.concat()
        )
    }
}

/// A rate per second. Two rates are equal if they differ by no more than rounding errors.
#[derive(Debug)]
struct Rate(Option<f64>);

impl Rate {
    #[expect(clippy::cast_precision_loss, reason = "a rounding error")]
    fn of(sum: u64, nanos: u64) -> Self {
        Self(Some(sum as f64 / (nanos as f64 / 1e9)))
    }
}

impl PartialEq for Rate {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Some(one), Some(other)) => (one - other).abs() <= other * 1e-12,
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}
