//! The results: a cost for each case.

use std::collections::BTreeMap;

use crate::scenarios::crowd::Crowd;

/// The cost of one operation in nanoseconds, over the rounds.
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
}
