//! What was measured: a cost for each case.

use std::collections::BTreeMap;

/// A case: what was measured, and on how many threads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) threads: usize,
}

impl Key {
    pub(crate) fn new(name: &str, threads: usize) -> Self {
        Self { name: name.to_owned(), threads }
    }
}

/// The cost of one operation in nanoseconds, over the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) median: f64,
    /// Half of the rounds lie between these two.
    pub(crate) quartiles: (f64, f64),
    /// In how many rounds a thread panicked.
    pub(crate) lost: usize,
}

impl Cost {
    /// From the cost in each of the rounds.
    pub(crate) fn of(samples: &[f64], lost: usize) -> Self {
        let mut costs = samples.to_vec();
        costs.sort_by(f64::total_cmp);
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| at(share, &costs));
        Self { median, quartiles: (low, high), lost }
    }

    /// How far the middle half of the rounds lies from the median, either way, as a share of it.
    pub(crate) fn spread(&self) -> f64 {
        let (low, high) = self.quartiles;
        (self.median - low).max(high - self.median) / self.median
    }
}

/// The number that this share of them is not above.
fn at(share: f64, sorted: &[f64]) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * share) as usize).copied().unwrap_or(f64::NAN)
}

/// The costs by case.
#[derive(Debug)]
pub(crate) struct Results(BTreeMap<Key, Cost>);

impl FromIterator<(Key, Cost)> for Results {
    fn from_iter<I: IntoIterator<Item = (Key, Cost)>>(costs: I) -> Self {
        Self(costs.into_iter().collect())
    }
}

impl Results {
    pub(crate) fn extend(&mut self, costs: impl IntoIterator<Item = (Key, Cost)>) {
        self.0.extend(costs);
    }

    /// The median of a case.
    pub(crate) fn median(&self, name: &str, threads: usize) -> Option<f64> {
        self.get(name, threads).map(|cost| cost.median)
    }

    pub(crate) fn get(&self, name: &str, threads: usize) -> Option<Cost> {
        self.0.get(&Key::new(name, threads)).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Cost)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_the_middle_half() {
        let cost = Cost::of(&[5.0, 1.0, 4.0, 2.0, 3.0], 1);
        assert_eq!((cost.median, cost.quartiles, cost.lost), (3.0, (2.0, 4.0), 1));
        assert!((cost.spread() - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn no_samples_have_no_median() {
        assert!(Cost::of(&[], 3).median.is_nan());
    }
}
