//! The response times of a histogram, each of them kept.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray::{HistogramConfig, LatencyHistogram};

const LONGEST: u64 = 1 << 62;

/// The relative error of rounding: some units of the last bit of an `f64`.
const ROUNDING: f64 = 1e-12;

/// Response times in nanoseconds, and the scale of their histogram.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    scale: i8,
    counts: BTreeMap<u64, u64>,
}

impl Oracle {
    pub(crate) fn new(scale: i8) -> Self {
        Self { scale, counts: BTreeMap::new() }
    }

    pub(crate) fn record(&mut self, nanos: u64, count: u64) {
        if count > 0 {
            *self.counts.entry(nanos.min(LONGEST)).or_default() += count;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.scale = self.scale.min(other.scale);
        other.counts.iter().for_each(|(&nanos, &count)| self.record(nanos, count));
    }

    pub(crate) fn downscale(&mut self, scale: i8) {
        self.scale = scale;
    }

    pub(crate) fn clear(&mut self) {
        self.counts.clear();
    }

    /// Records all response times in a new histogram of this scale.
    fn recorded(&self) -> LatencyHistogram {
        let config = HistogramConfig::with_scale(self.scale.max(0).unsigned_abs()).unwrap();
        let mut histogram = LatencyHistogram::new(config);
        for (&nanos, &count) in &self.counts {
            histogram.record_many(Duration::from_nanos(nanos), count);
        }
        histogram.downscaled(self.scale).unwrap()
    }

    /// Returns the response time of a rank, from 1.
    fn at(&self, rank: u64) -> u64 {
        let mut reached = 0;
        let mut nanos = self.counts.iter().find_map(|(&nanos, &count)| {
            reached += count;
            (reached >= rank).then_some(nanos)
        });
        nanos.take().unwrap()
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Asserts that the histogram is the one of these response times, however it was made.
    #[track_caller]
    pub(crate) fn check(&self, histogram: &LatencyHistogram) {
        assert_eq!(histogram, &self.recorded());
        let [min, max] = [self.counts.first_key_value(), self.counts.last_key_value()]
            .map(|it| it.map(|(&nanos, _)| Duration::from_nanos(nanos)));
        assert_eq!((histogram.min(), histogram.max()), (min, max));
        assert_eq!((histogram.scale(), histogram.count()), (self.scale, self.count()));
        assert_eq!(histogram.is_empty(), self.counts.is_empty());
        let nanos: u128 = self.counts.iter().map(|(&it, &n)| u128::from(it) * u128::from(n)).sum();
        assert_eq!(histogram.sum().as_nanos(), nanos.min(Duration::MAX.as_nanos()));
        let mean = nanos.checked_div(self.count().into());
        assert_eq!(histogram.mean().map(|it| it.as_nanos()), mean);
        self.check_buckets(histogram);
    }

    /// Asserts that each bucket has the response times between its bounds. At scale 0 and coarser,
    /// an `f64` has the bounds exactly. At a finer scale, a response time that is next to a bound
    /// may be on either side.
    #[track_caller]
    fn check_buckets(&self, histogram: &LatencyHistogram) {
        let between = |low: f64, high: f64| {
            // In units of 2⁻⁴⁰ ns, in which powers of 2 in seconds are whole.
            let [low, high] = [low, high].map(|secs| (secs * 1e9 * 2_f64.powi(40)) as u128);
            let is_between = |&(&nanos, _): &(&u64, &u64)| {
                let nanos = u128::from(nanos.max(1)) << 40;
                nanos > low && nanos <= high
            };
            self.counts.iter().filter(is_between).map(|(_, &count)| count).sum::<u64>()
        };
        let rounding = if self.scale > 0 { ROUNDING } else { 0.0 };
        for bucket in histogram.buckets() {
            let [narrow, wide] = [rounding, -rounding]
                .map(|it| between(bucket.lower * (1.0 + it), bucket.upper * (1.0 - it)));
            assert!(narrow <= bucket.count && bucket.count <= wide, "{bucket:?}");
        }
    }

    /// Asserts that the quantile of a share `numerator / denominator` is near the response time of
    /// its rank.
    #[track_caller]
    pub(crate) fn check_quantile(
        &self,
        histogram: &LatencyHistogram,
        numerator: u64,
        denominator: u64,
    ) {
        let q = numerator as f64 / denominator as f64;
        let (duration, secs) = (histogram.quantile(q), histogram.quantile_as_secs_f64(q));
        if self.counts.is_empty() {
            assert_eq!((duration, secs), (None, None));
            return;
        }
        let rank = (u128::from(numerator) * u128::from(self.count())).div_ceil(denominator.into());
        let expected = self.at(u64::try_from(rank).unwrap().max(1));
        // 0 ns counts as 1 ns.
        let zero = f64::from(u8::from(expected == 0));
        let error = histogram.relative_error() + ROUNDING;
        let allowed = expected.max(1) as f64 * error + zero;
        let (duration, secs) = (duration.unwrap(), secs.unwrap());
        let off = Duration::from_nanos(expected).abs_diff(duration).as_nanos() as f64;
        assert!(off <= allowed + 0.5, "{q}: {duration:?} instead of {expected} ns");
        let off = (secs - expected as f64 / 1e9).abs();
        assert!(off <= allowed / 1e9, "{q}: {secs} s instead of {expected} ns");
        let [min, max] = [histogram.min(), histogram.max()].map(Option::unwrap);
        assert!(min <= duration && duration <= max, "{q}: {duration:?}");
        let [min, max] = [min, max].map(|it| it.as_nanos() as f64 / 1e9);
        assert!(min <= secs && secs <= max, "{q}: {secs} s");
        if rank <= 1 || numerator == denominator {
            assert_eq!(duration.as_nanos(), expected.into(), "an extreme is exact");
        }
    }

    /// Asserts that a count of response times is at most the true one, and includes the response
    /// times that are certainly in a lower bin.
    #[track_caller]
    pub(crate) fn check_count_at_or_below(&self, histogram: &LatencyHistogram, limit: u64) {
        let at_or_below =
            |limit: u64| self.counts.range(..=limit).map(|(_, &count)| count).sum::<u64>();
        let count = histogram.count_at_or_below(Duration::from_nanos(limit));
        assert!(count <= at_or_below(limit), "{count} at or below {limit} ns");
        let error = histogram.relative_error();
        let in_a_lower_bin = limit.min(LONGEST) as f64 * (1.0 - error) / (1.0 + error);
        let least = (in_a_lower_bin * (1.0 - ROUNDING)) as u64;
        if least > 0 {
            assert!(count >= at_or_below(least), "{count} at or below {limit} ns");
        }
        let (Some(min), Some(max)) = (histogram.min(), histogram.max()) else {
            return;
        };
        if u128::from(limit) < min.as_nanos() || u128::from(limit) >= max.as_nanos() {
            assert_eq!(count, at_or_below(limit), "exact beyond the extremes");
        }
    }
}
