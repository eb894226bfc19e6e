//! `SlidingWindow`, with threads that start and end and leave their cells to others. Each response
//! time is as many nanoseconds long as the number of its bucket, so a count in a wrong bucket is
//! detected, also in a histogram.

use std::time::Duration;

use leaparray::{
    HistogramConfig, LatencyHistogram, MetricEvent, MetricTotals, MonotonicClock, SlidingWindow,
    Timestamp,
};
use leaparray_stress_tests::{
    AdvancedTime, Bounds, Real, Round, Tally, Time, WriterTally, number_of, one_after_the_other,
    rounds, work,
};

const PASS: MetricEvent = MetricEvent::Pass;
const SUCCESS: MetricEvent = MetricEvent::Success;

/// The number of threads of each writer, one after the other.
const LIVES: u64 = 5;

struct Stress<T> {
    round: Round,
    window: SlidingWindow,
    time: T,
    tally: Tally,
    first: u64,
}

impl<T: Time> Stress<T> {
    fn new(round: Round, time: T) -> Self {
        let tally = Tally::new(round.writers, &time);
        let first = time.numbers().0;
        Self { round, window: SlidingWindow::new(round.config()), time, tally, first }
    }

    fn with_histogram(round: Round, time: T, histogram: HistogramConfig) -> Self {
        let clock = MonotonicClock::new();
        let window = SlidingWindow::with_histogram(round.config(), histogram, clock);
        Self { window, ..Self::new(round, time) }
    }

    fn run(&self) {
        let (mut at_least, mut at_least_in_bins) = (0, 0);
        work(
            self.round.writers,
            |writer| one_after_the_other(LIVES, |life| self.write(self.tally.writer(writer), life)),
            vec![
                Box::new(|| {
                    self.read_sums();
                    self.read_extremes();
                }),
                Box::new(|| {
                    self.read_buckets();
                    at_least = self.read_ledger(at_least);
                    at_least_in_bins = self.read_histograms(at_least_in_bins);
                }),
            ],
        );
        self.check_counts();
    }

    /// Each thread of a writer has its share of the turns.
    fn write(&self, page: &WriterTally, life: u64) {
        for turn in (life..).step_by(usize::try_from(LIVES).expect("there are few lives")) {
            let Some(now) = self.time.tick(turn) else { return };
            let mark = self.mark(now);
            page.enter(number_of(now), 1, || {
                self.window.add_at(now, PASS, 1);
                self.window.record_success_at(now, Duration::from_nanos(mark));
                self.window.record_concurrency_at(now, mark);
            });
        }
    }

    /// Returns the response time and the concurrency that are recorded at that time: the number of
    /// the bucket, counted from the first one. No record is before the first bucket.
    fn mark(&self, time: Timestamp) -> u64 {
        number_of(time).saturating_sub(self.first)
    }

    fn newest(&self) -> u64 {
        number_of(self.time.now())
    }

    fn bounds(&self, now: Timestamp) -> Bounds<'_> {
        Bounds::new(&self.tally, number_of(now), self.round.samples)
    }

    fn read_sums(&self) {
        for event in [PASS, SUCCESS] {
            let now = self.time.now();
            let bounds = self.bounds(now);
            let sum = self.window.at(now).sum(event);
            bounds.check_sum(sum, self.newest());
        }
    }

    fn read_extremes(&self) {
        let now = self.time.now();
        let covered = self.bounds(now).covered().clone();
        let oldest = covered.start().saturating_sub(self.first);
        let marks = oldest..=covered.end() - self.first;
        let is_mark = |rt: Duration| marks.contains(&nanos(rt));
        assert!(self.window.at(now).totals().min_rt().is_none_or(is_mark));
        assert!(self.window.at(now).totals().max_rt().is_none_or(is_mark));
        assert!(self.window.at(now).totals().avg_rt().is_none_or(|rt| nanos(rt) <= *marks.end()));
        assert!(
            self.window.at(now).totals().max_concurrency().is_none_or(|mark| marks.contains(&mark))
        );
    }

    fn read_buckets(&self) {
        let now = self.time.now();
        let bounds = self.bounds(now);
        let found: Vec<_> = self.window.at(now).buckets().collect();
        let newest = self.newest();
        for bucket in &found {
            self.check_marks(bucket.start, &bucket.totals);
        }
        let units = |event: MetricEvent| {
            let units = found.iter().map(move |it| (number_of(it.start), it.totals.sum(event)));
            units.filter(|(_, units)| *units > 0)
        };
        bounds.check(units(PASS), newest);
        bounds.check(units(SUCCESS), newest);
    }

    /// Checks that the bucket with that start has its own records only.
    fn check_marks(&self, start: Timestamp, totals: &MetricTotals) {
        let is_mark = |rt| nanos(rt) == self.mark(start);
        assert!(totals.min_rt().is_none_or(is_mark), "{totals:?} at {start:?}");
        assert!(totals.max_rt().is_none_or(is_mark), "{totals:?} at {start:?}");
        let max = totals.max_concurrency();
        assert!(max.is_none_or(|mark| mark == self.mark(start)), "{totals:?} at {start:?}");
        // The sum is read before the count, so it may lack response times that the count has.
        let most = totals.rt_count() * self.mark(start);
        assert!(totals.sum(MetricEvent::Rt) <= most, "{totals:?} at {start:?}");
    }

    /// Checks the ledger against `at_least`, and the lifetime total against the ledger and the
    /// records that have begun. Returns the lifetime total.
    fn read_ledger(&self, at_least: u64) -> u64 {
        let at_least = at_least.max(self.tally.all_completed());
        let now = self.time.now();
        let recorded = self.window.at(now).ledger().recorded().sum(SUCCESS);
        let lifetime = self.window.lifetime().sum(SUCCESS);
        let range = recorded..=self.tally.all_begun();
        assert!(recorded >= at_least, "{recorded} units recorded, expected at least {at_least}");
        assert!(range.contains(&lifetime), "{lifetime} units recorded, expected {range:?}");
        lifetime
    }

    /// Checks the histograms of the window and of its lifetime, if it has them. The lifetime has at
    /// least `at_least` response times. Returns their number.
    fn read_histograms(&self, at_least: u64) -> u64 {
        let at_least = at_least.max(self.tally.all_completed());
        let now = self.time.now();
        let bounds = self.bounds(now);
        let Some(histogram) = self.window.at(now).histogram() else { return 0 };
        bounds.check_sum(histogram.count(), self.newest());
        let marks = bounds.covered().start().saturating_sub(self.first)
            ..=bounds.covered().end() - self.first;
        let is_mark = |rt: Duration| marks.contains(&nanos(rt));
        assert!(histogram.min().is_none_or(is_mark), "{histogram:?}");
        assert!(histogram.max().is_none_or(is_mark), "{histogram:?}");
        assert!(histogram.mean() <= histogram.max(), "{histogram:?}");
        let lifetime = self.window.lifetime_histogram().expect("there is one");
        let range = at_least..=self.tally.all_begun();
        assert!(range.contains(&lifetime.count()), "{range:?}: {lifetime:?}");
        assert!(lifetime.mean() <= lifetime.max(), "{lifetime:?}");
        lifetime.count()
    }

    /// Compares the bins exactly, once all threads have ended.
    fn check_histograms(&self) {
        let Some(config) = self.window.histogram_config() else { return };
        let now = self.time.now();
        let bounds = self.bounds(now);
        let of = |numbers: &dyn Fn(u64) -> bool| {
            let mut histogram = LatencyHistogram::new(config);
            for (number, units) in self.tally.buckets().filter(|(number, _)| numbers(*number)) {
                histogram.record_many(Duration::from_nanos(number - self.first), units);
            }
            Some(histogram)
        };
        assert_eq!(
            self.window.at(now).histogram(),
            of(&|number| bounds.covered().contains(&number))
        );
        assert_eq!(self.window.lifetime_histogram(), of(&|_| true));
    }

    /// Compares the totals exactly, once all threads have ended.
    fn check_counts(&self) {
        let now = self.time.now();
        let ledger = self.window.at(now).ledger();
        let marks = |(number, units)| (number - self.first) * units;
        let recorded = ledger.recorded();
        assert_eq!(recorded.sum(PASS), self.tally.all_completed());
        assert_eq!(recorded.sum(SUCCESS), self.tally.all_completed());
        assert_eq!(recorded.rt_count(), self.tally.all_completed());
        assert_eq!(recorded.sum(MetricEvent::Rt), self.tally.buckets().map(marks).sum::<u64>());
        assert_eq!(ledger.in_window.sum(SUCCESS), self.window.at(now).sum(SUCCESS));
        self.read_buckets();
        self.check_histograms();
    }

    fn report(&self) {
        let (rotations, units) = (self.tally.buckets().count(), self.tally.all_completed());
        println!("{:?}: {rotations} rotations, {units} turns of 3 records", self.round);
    }
}

fn nanos(rt: Duration) -> u64 {
    u64::try_from(rt.as_nanos()).expect("response times are short")
}

#[test]
fn time_that_is_given() {
    for round in rounds() {
        let stress = Stress::new(round, AdvancedTime::new(round));
        stress.run();
        stress.report();
    }
}

#[test]
fn time_as_it_is() {
    for round in rounds() {
        let stress = Stress::new(round, Real::new());
        stress.run();
        stress.report();
    }
}

/// The scales differ from round to round. At scale 0, few bins have large counts.
#[test]
fn histogram_of_time_that_is_given() {
    for (round, scale) in rounds().zip([0, 4, 8].into_iter().cycle()) {
        let histogram = HistogramConfig::with_scale(scale).expect("at most 8");
        Stress::with_histogram(round, AdvancedTime::new(round), histogram).run();
    }
}
