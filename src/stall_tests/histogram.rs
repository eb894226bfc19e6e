//! The subject of a window with a histogram. An add of a count is a response time of that number of
//! nanoseconds.

use std::time::Duration;

use super::Window;
use super::expected::{MARK, split};
use super::scene::Scene;
use super::stopped::Act;
use super::subject::{ELSEWHERE, OF_ARRAYS, Subject, config, time};
use super::world::{AFTER, BEFORE};
use crate::array::Ledger;
use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::metric::{MetricEvent, MetricTotals};
use crate::sync::stall::Point;
use crate::time::{ManualClock, Timestamp};

/// A window whose sums are read from its histogram.
pub(super) struct Histogram(Window);

/// Returns the sum of the response times in a histogram. All of them are [`BEFORE`], [`AFTER`] or
/// [`MARK`], which are in different bins.
fn sum_of(histogram: &LatencyHistogram) -> u64 {
    let at_or_below = |nanos| histogram.count_at_or_below(Duration::from_nanos(nanos));
    let [before, after] = [at_or_below(BEFORE), at_or_below(2 * AFTER)];
    before * BEFORE + (after - before) * AFTER + (histogram.count() - after) * MARK
}

fn response_times(totals: &MetricTotals) -> u64 {
    totals.rt_sum().as_nanos().try_into().unwrap()
}

impl Histogram {
    fn read(&self, second: u64) -> LatencyHistogram {
        let histogram = self.0.at(time(second)).histogram().unwrap();
        assert_covers_its_sum(&histogram);
        histogram
    }

    fn read_lifetime(&self) -> LatencyHistogram {
        let histogram = self.0.lifetime_histogram().unwrap();
        assert_covers_its_sum(&histogram);
        histogram
    }
}

/// Asserts that the bins and the extremes have each response time that is in the sum.
pub(super) fn assert_covers_its_sum(histogram: &LatencyHistogram) {
    let sum: u64 = histogram.sum().as_nanos().try_into().unwrap();
    assert!(sum_of(histogram) >= sum, "{histogram:?}");
    let [shortest, longest] = histogram.quantiles([0.0, 1.0]);
    assert!(histogram.min() <= shortest && longest <= histogram.max(), "{histogram:?}");
    assert!(histogram.mean() <= histogram.max(), "{histogram:?}");
}

impl Subject for Histogram {
    const SCENES: &'static [Scene] = Window::SCENES;

    // Few, since an add passes many points: a bucket is sealed, a cell is retired, a reader goes
    // back in time.
    const SCENES_STOPPED_TWICE: &'static [Scene] = &[Scene::Next, Scene::Orphan, Scene::Sum];

    const SCENES_OF_TWO: &'static [Scene] = &[Scene::Orphan, Scene::Sum];

    const ACTS_OF_TWO: &'static [Act] = &[Act::Add];

    const NOT_PASSED: &'static [&'static [Point]] = &[OF_ARRAYS, ELSEWHERE];

    const PLACED: Point = Window::PLACED;

    fn new(samples: u64) -> Self {
        let (clock, histogram) = (ManualClock::new(Timestamp::MIN), HistogramConfig::with_scale(0));
        Self(Window::with_histogram(config(samples), histogram.unwrap(), clock))
    }

    fn add(&self, second: u64, count: u64) {
        self.0.record_rt_at(time(second), Duration::from_nanos(count));
    }

    fn rotate(&self, second: u64) {
        self.0.add_at(time(second), MetricEvent::Pass, 0);
    }

    fn sum(&self, second: u64) -> u64 {
        sum_of(&self.read(second))
    }

    fn values(&self, second: u64) -> u64 {
        self.0.at(time(second)).buckets().map(|bucket| response_times(&bucket.totals)).sum()
    }

    fn ledger(&self, second: u64) -> Ledger<u64> {
        self.0.at(time(second)).ledger().map(response_times)
    }

    fn lifetime(&self) -> u64 {
        sum_of(&self.read_lifetime())
    }

    /// A thread that is stopped may have counted its response time in the bin, and not in the sum
    /// yet.
    fn assert_agrees(reading: u64, counted: u64) {
        let ([marks, others], [counted_marks, counted_others]) =
            (<[u64; 2]>::from(split(reading)), <[u64; 2]>::from(split(counted)));
        assert_eq!(others, counted_others);
        assert!(marks >= counted_marks, "{marks} in bins, {counted_marks} in the sum");
    }

    fn assert_at_rest(&self, second: u64) {
        let (histogram, totals) = (self.read(second), self.0.at(time(second)).ledger().in_window);
        assert_eq!(sum_of(&histogram), response_times(&totals), "{histogram:?}");
        assert_eq!(histogram.count(), totals.rt_count(), "{histogram:?}");
        let (histogram, totals) = (self.read_lifetime(), self.0.lifetime());
        assert_eq!(sum_of(&histogram), response_times(&totals), "{histogram:?}");
        assert_eq!(histogram.count(), totals.rt_count(), "{histogram:?}");
    }

    fn made(&self) -> u64 {
        Subject::made(&self.0)
    }

    fn assert_kept(&self, samples: u64) {
        // One row more for the retired cells, and one spare row more for each descriptor.
        let (_, descriptors, _) = self.0.array().blocks_made();
        self.0.assert_kept(samples + 1 + u64::from(descriptors));
    }
}
