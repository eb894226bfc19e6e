//! Quantiles of a histogram.

use std::array;
use std::time::Duration;

use super::latency::LatencyHistogram;
use crate::time::saturating_nanos;

/// The response time of a rank, as far as a histogram knows it.
#[derive(Clone, Copy)]
enum Found {
    /// The exact response time, in nanoseconds.
    Exactly(u64),
    /// The index of its bin.
    InBin(i32),
}

impl LatencyHistogram {
    /// Returns an estimate of the quantile `q`, such as 0.99: of the response time that a share `q`
    /// of all response times do not exceed. `None` if there is no response time, or if `q` is below
    /// 0, above 1 or NaN.
    ///
    /// The true quantile is defined by the nearest rank: it is the response time with the rank ⌈q ·
    /// count⌉, at least 1, in ascending order. Rounding errors of `q` do not count: 0.07 of 100 is
    /// the seventh, although the `f64` next to 0.07 is above it. The lowest and the highest rank
    /// are exact; so 0 gives the minimum, and 1 the maximum. For another rank, the error is at most
    /// the true quantile times [`relative_error`](Self::relative_error), plus half a nanosecond,
    /// because the result is a whole number of nanoseconds. If the bin of the quantile contains one
    /// whole nanosecond, the result is exact, except that a response time of 0 ns counts as 1 ns.
    ///
    /// The estimate is the one with the smallest relative error, 2 · a · b / (a + b), where a and b
    /// are the shortest and the longest response time that the bin and the extremes allow: Masson,
    /// Rim and Lee, *`DDSketch`*, 2019.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// assert_eq!(histogram.quantile(0.5), None);
    /// for micros in [1_000, 2_000, 3_000] {
    ///     histogram.record(Duration::from_micros(micros));
    /// }
    /// let median = histogram.quantile(0.5).unwrap();
    /// assert!(median.abs_diff(Duration::from_millis(2)) < Duration::from_micros(44));
    /// assert_eq!(histogram.quantile(1.0), Some(Duration::from_millis(3)));
    /// assert_eq!(histogram.quantile(1.1), None);
    /// ```
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let [quantile] = self.quantiles([q]);
        quantile
    }

    /// Returns estimates of several quantiles, in any order, by one pass over the bins; see
    /// [`quantile`](Self::quantile).
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// histogram.record_many(Duration::from_millis(5), 10);
    /// let millis = Some(Duration::from_millis(5));
    /// assert_eq!(histogram.quantiles([0.99, 0.5, f64::NAN]), [millis, millis, None]);
    /// ```
    #[must_use]
    pub fn quantiles<const N: usize>(&self, quantiles: [f64; N]) -> [Option<Duration>; N] {
        self.find(quantiles).map(|found| found.map(|it| Duration::from_nanos(self.nanos_of(it))))
    }

    /// Returns an estimate of the quantile `q` in seconds, without rounding to whole nanoseconds;
    /// `None` in the same cases as [`quantile`](Self::quantile).
    ///
    /// The relative error is at most [`relative_error`](Self::relative_error), and the rounding
    /// error of an `f64`, for every response time from 1 ns to 2⁶² ns. The estimate is 2 · lower ·
    /// upper / (lower + upper), with the bounds of the bin, but at least the minimum and at most
    /// the maximum.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// for millis in [20, 50, 1_000] {
    ///     histogram.record(Duration::from_millis(millis));
    /// }
    /// let median = histogram.quantile_as_secs_f64(0.5).unwrap();
    /// assert!((median / 0.050 - 1.0).abs() <= histogram.relative_error());
    /// ```
    #[must_use]
    pub fn quantile_as_secs_f64(&self, q: f64) -> Option<f64> {
        let [found] = self.find([q]);
        found.map(|it| self.secs_of(it))
    }

    /// Returns a number of response times that are at most `limit`, for example to compare with an
    /// objective.
    ///
    /// It is a lower bound: the response times in the bin of `limit` are left out, unless `limit`
    /// is the upper bound of that bin. It is exact if `limit` is the upper bound of a bin, rounded
    /// down to the nanosecond; if it is at least the maximum, where it is [`count`](Self::count);
    /// and if it is below the minimum, where it is 0.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// for millis in [250, 500, 501, 900] {
    ///     histogram.record(Duration::from_millis(millis));
    /// }
    /// let [half, most, all] =
    ///     [500, 505, 900].map(|it| histogram.count_at_or_below(Duration::from_millis(it)));
    /// assert_eq!(half, 2, "0.5 s is a bound");
    /// assert_eq!(most, 2, "501 ms is in the bin of 505 ms");
    /// assert_eq!(all, 4);
    /// ```
    #[must_use]
    pub fn count_at_or_below(&self, limit: Duration) -> u64 {
        let limit = saturating_nanos(limit);
        if limit >= self.max {
            return self.count();
        }
        let below = self.counts.iter().take_while(|&(index, _)| self.bins.last(index) <= limit);
        below.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    fn find<const N: usize>(&self, quantiles: [f64; N]) -> [Option<Found>; N] {
        let total = self.count();
        let ranks = quantiles.map(|q| rank(q, total));
        let mut order: [usize; N] = array::from_fn(|it| it);
        // An insertion sort: quantiles are few, and a sort of the standard library is compiled for
        // each number of them.
        for len in 2..=N {
            let mut last = len - 1;
            while last > 0 && ranks[order[last - 1]] > ranks[order[last]] {
                order.swap(last - 1, last);
                last -= 1;
            }
        }
        let mut found = [None; N];
        let mut bins = self.counts.walk(total);
        for it in order {
            found[it] = ranks[it].map(|rank| match rank {
                1 => Found::Exactly(self.min),
                rank if rank == total => Found::Exactly(self.max),
                _ => Found::InBin(bins.advance(rank)),
            });
        }
        found
    }

    fn nanos_of(&self, found: Found) -> u64 {
        let index = match found {
            Found::Exactly(nanos) => return nanos,
            Found::InBin(index) => index,
        };
        let [a, b] = [self.bins.first(index).max(self.min), self.bins.last(index).min(self.max)];
        if b < 1 << 30 {
            // About a second: the products below fit a `u64`, whose division takes a third of the
            // time.
            return (4 * a * b + a + b) / (2 * (a + b));
        }
        let [product, sum] = [u128::from(a) * u128::from(b), u128::from(a) + u128::from(b)];
        // 2ab/(a+b), rounded to the nearest. Both are at most 2⁶², and the first is at least 1.
        let nearest = (4 * product + sum) / (2 * sum);
        nearest.try_into().unwrap_or(b)
    }

    fn secs_of(&self, found: Found) -> f64 {
        match found {
            Found::Exactly(nanos) => secs(nanos),
            Found::InBin(index) => {
                // With α = (upper − lower)/(upper + lower), that is 2 · lower · upper/(lower +
                // upper).
                let estimate = self.bins.lower(index) * (1.0 + self.relative_error());
                estimate.clamp(secs(self.min), secs(self.max))
            }
        }
    }
}

/// Returns the rank of a quantile among `total` response times, from 1; `None` if there is none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a rank above 2⁵³ is rounded"
)]
pub(crate) fn rank(q: f64, total: u64) -> Option<u64> {
    if total == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    if q >= 1.0 {
        return Some(total);
    }
    // The next lower number, because the one for k/total may be above k/total. The product is then
    // at most k, and the rank is k.
    let rank = (q.next_down() * total as f64).ceil();
    Some((rank as u64).clamp(1, total))
}

#[expect(clippy::cast_precision_loss, reason = "the nearest")]
fn secs(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
