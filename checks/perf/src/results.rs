//! The results: a cost for each case.

use std::collections::BTreeMap;

use crate::scenarios::crowd::Crowd;

/// The cost of one operation in nanoseconds, over the rounds: the median, or the 10th
/// percentile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) median: f64,
    /// The lower and the upper quartile.
    pub(crate) quartiles: (f64, f64),
    /// The number of rounds in which a thread panicked.
    pub(crate) lost: usize,
}

impl Cost {
    /// Computes the cost from the cost in each round, and the number of lost rounds.
    pub(crate) fn of(mut samples: Vec<f64>, lost: usize) -> Self {
        samples.sort_by(f64::total_cmp);
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(share, &samples));
        Self { median, quartiles: (low, high), lost }
    }

    /// Computes the cost as the 10th percentile of the samples: on many processors, few are
    /// undisturbed. The quartiles are those of the fastest fifth.
    ///
    /// A disturbance makes a sample longer if no thread waits for another one. If threads write the
    /// same line, it can make the sample shorter: while one of them has no processor, the others
    /// take less time. So the cost of such a case is a lower bound. Beside busy processes, two
    /// threads that added to one counter on two processors took 6.1 ns at the 10th percentile, as
    /// one thread does, and 41 ns at the median.
    pub(crate) fn of_quiet_tenth(mut samples: Vec<f64>, lost: usize) -> Self {
        samples.sort_by(f64::total_cmp);
        let [low, median, high] = [0.05, 0.1, 0.15].map(|share| quantile(share, &samples));
        Self { median, quartiles: (low, high), lost }
    }

    /// Returns the median cost: the median and the quartiles are those of the parts, each by
    /// itself.
    fn median_of(parts: &[Self]) -> Self {
        let median = |of: fn(&Self) -> f64| Self::of(parts.iter().map(of).collect(), 0).median;
        Self {
            median: median(|cost| cost.median),
            quartiles: (median(|cost| cost.quartiles.0), median(|cost| cost.quartiles.1)),
            lost: parts.iter().map(|cost| cost.lost).sum(),
        }
    }

    /// Returns the larger distance of a quartile from the median, as a share of the median.
    pub(crate) fn spread(&self) -> f64 {
        let (low, high) = self.quartiles;
        (self.median - low).max(high - self.median) / self.median
    }
}

/// Returns the quantile `share` of sorted numbers; NaN if there are none.
pub(crate) fn quantile(share: f64, sorted: &[f64]) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * share) as usize).copied().unwrap_or(f64::NAN)
}

/// The costs by the name of the case and its threads.
#[derive(Debug, Default)]
pub(crate) struct Results(pub(crate) BTreeMap<(String, Crowd), Cost>);

impl Results {
    /// Returns the median cost of each case over several runs.
    pub(crate) fn median_of(runs: impl IntoIterator<Item = Self>) -> Self {
        let mut parts: BTreeMap<_, Vec<Cost>> = BTreeMap::new();
        for (case, cost) in runs.into_iter().flat_map(|run| run.0) {
            parts.entry(case).or_default().push(cost);
        }
        Self(parts.into_iter().map(|(case, parts)| (case, Cost::median_of(&parts))).collect())
    }

    pub(crate) fn get(&self, case: &str, crowd: Crowd) -> Option<Cost> {
        self.0.get(&(case.to_owned(), crowd)).copied()
    }

    /// Returns the median cost of a case.
    pub(crate) fn median(&self, case: &str, crowd: Crowd) -> Option<f64> {
        self.get(case, crowd).map(|cost| cost.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_has_median_and_quartiles() {
        let cost = Cost::of(vec![5.0, 1.0, 4.0, 2.0, 3.0], 1);
        assert_eq!((cost.median, cost.quartiles, cost.lost), (3.0, (2.0, 4.0), 1));
        assert!((cost.spread() - 1.0 / 3.0).abs() < 1e-9);
        assert!(Cost::of(Vec::new(), 3).median.is_nan(), "no samples");
    }

    #[test]
    fn median_over_runs_is_that_of_each_case() {
        let run = |cost, lost| {
            let other = (("other".to_owned(), Crowd::of(1)), Cost::of(vec![1.0], 0));
            Results([(("case".to_owned(), Crowd::of(2)), Cost::of(vec![cost], lost)), other].into())
        };
        let runs = Results::median_of([run(3.0, 1), run(9.0, 0), run(4.0, 1)]);
        let cost = runs.get("case", Crowd::of(2)).expect("a case");
        assert_eq!((cost.median, cost.quartiles, cost.lost), (4.0, (4.0, 4.0), 2));
        assert_eq!(runs.median("other", Crowd::of(1)), Some(1.0));
    }
}
