//! The rows of the tables: a cost, its unit, and its goal. Each scenario defines its own rows.

use std::fmt;

use leaparray_perf_page::{Crowd, Value};

use crate::results::{Cost, Results};

/// The unit of a measured value.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    Nanos,
    /// The ratio to the baseline, with the same threads.
    RatioTo(String),
    /// The ratio to the same case with one thread.
    RatioToOneThread,
    /// Nanoseconds for each additional thread that records, since each has its own cell.
    NanosPerCell,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nanos => write!(f, "ns"),
            Self::RatioTo(baseline) => write!(f, "× {baseline}"),
            Self::RatioToOneThread => write!(f, "× with one thread"),
            Self::NanosPerCell => write!(f, "ns for each additional cell"),
        }
    }
}

/// The highest ratio of two costs that counts as equal.
pub(crate) const UNCHANGED_LIMIT: f64 = 1.1;

/// A row of a table: a case, its unit, and the highest value, if there is a goal.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) crowd: Crowd,
    pub(crate) unit: Unit,
    at_most: Option<f64>,
}

impl Row {
    pub(crate) fn new(
        case: impl Into<String>,
        crowd: Crowd,
        unit: Unit,
        at_most: impl Into<Option<f64>>,
    ) -> Self {
        Self { case: case.into(), crowd, unit, at_most: at_most.into() }
    }

    /// Creates a row whose unit is the ratio to a baseline with the same number of threads.
    pub(crate) fn ratio(
        case: impl Into<String>,
        threads: usize,
        baseline: impl Into<String>,
        at_most: impl Into<Option<f64>>,
    ) -> Self {
        Self::new(case, Crowd::of(threads), Unit::RatioTo(baseline.into()), at_most)
    }

    /// Creates a row that shows the cost of a baseline.
    pub(crate) fn baseline(case: impl Into<String>, threads: usize) -> Self {
        Self::new(case, Crowd::of(threads), Unit::Nanos, None)
    }

    /// Returns the measured value in the unit of the row, with its goal.
    pub(crate) fn value(&self, results: &Results) -> Option<Value> {
        let cost = results.median(&self.case, self.crowd)?;
        let one_thread = || results.median(&self.case, Crowd::of(1));
        let measured = match &self.unit {
            Unit::Nanos => cost,
            Unit::RatioTo(baseline) => cost / results.median(baseline, self.crowd)?,
            Unit::RatioToOneThread => cost / one_thread()?,
            Unit::NanosPerCell => (cost - one_thread()?) / (self.crowd.record - 1) as f64,
        };
        let (case, unit) = (self.case.clone(), self.unit.to_string());
        let measured = hundredths(measured);
        Some(Value { case, crowd: self.crowd, measured, unit, at_most: self.at_most, spread: None })
    }
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Returns a value of one thread, without a spread.
pub(crate) fn value(
    case: impl Into<String>,
    measured: f64,
    unit: &str,
    at_most: Option<f64>,
) -> Value {
    let (case, unit) = (case.into(), unit.to_owned());
    Value { case, crowd: Crowd::of(1), measured, unit, at_most, spread: None }
}

/// Returns all costs in nanoseconds, and the values of the rows that have another unit. The order
/// is that of the rows; costs without a row are last.
pub(crate) fn values(results: &Results, rows: &[Row]) -> Vec<Value> {
    let mut costs = results.0.clone();
    let mut values = Vec::new();
    for row in rows {
        let is_cost = matches!(row.unit, Unit::Nanos);
        if let Some(cost) = costs.remove(&(row.case.clone(), row.crowd)) {
            let at_most = row.at_most.filter(|_| is_cost);
            values.push(Value { at_most, ..nanos(&row.case, row.crowd, cost) });
        }
        if !is_cost {
            values.extend(row.value(results));
        }
    }
    values.extend(costs.into_iter().map(|((case, crowd), cost)| nanos(&case, crowd, cost)));
    values
}

/// Returns a cost as a value.
fn nanos(case: &str, crowd: Crowd, cost: Cost) -> Value {
    let (case, unit) = (case.to_owned(), Unit::Nanos.to_string());
    let (measured, spread) = (hundredths(cost.median), (cost.spread() * 100.0).round());
    Value { case, crowd, measured, unit, at_most: None, spread: Some(spread) }
}

/// The highest number of bytes of a window of a minute, at each stage of its use.
pub(crate) const BYTES: [usize; 4] = [512, 960, 15_200, 16_000];

/// The highest number of bytes of a node after a minute in which `threads` threads recorded: each
/// thread that records has a cell.
pub(crate) const fn bytes_of_node(threads: usize) -> usize {
    24 * 1_024 + 160 * threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_costs_and_ratios_with_their_goals() {
        let cost = |case: &str, threads, nanos| {
            ((case.to_owned(), Crowd::of(threads)), Cost::of(vec![nanos], 0))
        };
        let costs =
            [cost("a", 1, 10.0), cost("b", 1, 5.0), cost("b", 2, 8.0), cost("peer", 1, 7.0)];
        let rows = [
            Row::baseline("a", 1),
            Row::ratio("b", 1, "a", 0.4),
            Row::baseline("a", 1),
            Row::new("b", Crowd::of(2), Unit::Nanos, 9.0),
            Row::ratio("not measured", 1, "a", 1.0),
        ];
        let values = values(&Results(costs.into()), &rows);
        let found: Vec<_> = values
            .iter()
            .map(|it| {
                (it.case.as_str(), it.crowd.record, it.measured, it.unit.as_str(), it.at_most)
            })
            .collect();
        let wanted = [
            ("a", 1, 10.0, "ns", None),
            ("b", 1, 5.0, "ns", None),
            ("b", 1, 0.5, "× a", Some(0.4)),
            ("b", 2, 8.0, "ns", Some(9.0)),
            ("peer", 1, 7.0, "ns", None),
        ];
        assert_eq!(found, wanted);
    }
}
