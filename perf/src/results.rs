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
    /// What it was in the best round.
    pub(crate) lowest: f64,
    /// Half of the rounds lie between these two.
    pub(crate) quartiles: (f64, f64),
    /// What share of its time a thread was on a core.
    pub(crate) on_core: f64,
    /// In how many rounds a thread panicked.
    pub(crate) lost: usize,
}

impl Cost {
    /// From what was measured in each of the rounds: the cost, and the share on a core.
    pub(crate) fn of(samples: &[(f64, f64)], lost: usize) -> Self {
        let costs = sorted(samples.iter().map(|sample| sample.0));
        let on_core = at_quarter(2, &sorted(samples.iter().map(|sample| sample.1)));
        let quartiles = (at_quarter(1, &costs), at_quarter(3, &costs));
        let [lowest, median] = [0, 2].map(|quarters| at_quarter(quarters, &costs));
        Self { median, lowest, quartiles, on_core, lost }
    }

    /// How far the middle half of the rounds lies from the median, either way, as a share of it.
    pub(crate) fn spread(&self) -> f64 {
        let (low, high) = self.quartiles;
        (self.median - low).max(high - self.median) / self.median
    }
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The number that so many quarters of them are not above.
fn at_quarter(quarters: usize, sorted: &[f64]) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * quarters / 4).copied().unwrap_or(f64::NAN)
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
    fn the_median_and_the_middle_half() {
        let samples = [5.0, 1.0, 4.0, 2.0, 3.0].map(|nanos| (nanos, 1.0));
        let cost = Cost::of(&samples, 1);
        assert_eq!((cost.lowest, cost.median), (1.0, 3.0));
        assert_eq!((cost.quartiles, cost.lost), ((2.0, 4.0), 1));
        assert!((cost.spread() - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn no_samples_have_no_median() {
        assert!(Cost::of(&[], 3).median.is_nan());
    }
}
