//! The rows of the tables: a cost, its unit, and its goal. Each scenario defines its own rows.

use std::fmt;

use crate::bytes::NodeBytes;
use crate::report::Measured;
use crate::results::Results;
use crate::scenarios::crowd::Crowd;
use crate::scenarios::{first, read, record, rollover};

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

    /// Returns the measured value in the unit of the row.
    pub(crate) fn value(&self, results: &Results) -> Option<f64> {
        let cost = results.median(&self.case, self.crowd)?;
        let one_thread = || results.median(&self.case, Crowd::of(1));
        let value = match &self.unit {
            Unit::Nanos => cost,
            Unit::RatioTo(baseline) => cost / results.median(baseline, self.crowd)?,
            Unit::RatioToOneThread => cost / one_thread()?,
            Unit::NanosPerCell => (cost - one_thread()?) / (self.crowd.record - 1) as f64,
        };
        // Rounded as in the report, so that the verdict matches the number there.
        Some((value * 100.0).round() / 100.0)
    }

    /// Returns the goal of the row and the measured value.
    pub(crate) fn goal(&self, results: &Results) -> Option<Goal> {
        let (case, unit) = (self.case.clone(), self.unit.to_string());
        let (measured, at_most) = (self.value(results)?, self.at_most?);
        Some(Goal { case, crowd: self.crowd, measured, unit, at_most })
    }
}

/// The highest number of bytes of a window of a minute, at each stage of its use.
pub(crate) const BYTES: [usize; 4] = [512, 960, 15_200, 16_000];

/// A goal, and the measured value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) case: String,
    pub(crate) crowd: Crowd,
    pub(crate) measured: f64,
    pub(crate) unit: String,
    pub(crate) at_most: f64,
}

impl Goal {
    /// Returns whether both are values of the same goal.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.case == other.case && self.crowd == other.crowd && self.unit == other.unit
    }
}

/// Returns the goals of recording, reading, nodes, rollovers and first records. The other goals are
/// only in the processor's report.
pub(crate) fn all(measured: &Measured) -> Vec<Goal> {
    let of = |rows| of(&measured.run.results, rows);
    of(record::rows())
        .into_iter()
        .chain(of(read::rows(measured.run.processor.is_zen_5())))
        .chain(nodes(&measured.bytes.nodes))
        .chain(of(rollover::rows()))
        .chain(of(first::rows()))
        .collect()
}

/// Returns the goals of the rows that were measured.
pub(crate) fn of(results: &Results, rows: Vec<Row>) -> Vec<Goal> {
    rows.into_iter().filter_map(|row| row.goal(results)).collect()
}

/// Returns the goals of the memory of nodes.
pub(crate) fn nodes(nodes: &[NodeBytes]) -> Vec<Goal> {
    let goal = |crowd, bytes: usize, at_most: usize| Goal {
        case: "memory of a node after a minute".to_owned(),
        crowd,
        measured: bytes as f64,
        unit: "bytes".to_owned(),
        at_most: at_most as f64,
    };
    let goals = nodes.iter().flat_map(|&NodeBytes { threads, recording, ended }| {
        let most = 24 * 1_024;
        [
            // Each thread that records has a cell.
            goal(Crowd::of(threads), recording, most + 160 * threads),
            goal(Crowd { ended: threads, ..Crowd::of(1) }, ended, most),
        ]
    });
    goals.collect()
}
