//! What each cost is held against, and how much of it it may be.

use crate::bytes::NodeBytes;
use crate::report::Measured;
use crate::results::{Cost, Results};
use crate::scenarios::crowd::{CROWDS, Crowd};
use crate::scenarios::decide::{
    BREAKER, BREAKER_FAILING, CONCURRENCY, FIXED, GOVERNOR, LEAKY, LIMITED_ENTRY, SLIDING, TOKEN,
    TOKEN_UNEVEN, WARM_UP,
};
use crate::scenarios::first::THREADS;
use crate::scenarios::read::{
    LOAD, LOAD_BESIDE, RATE, RATE_BESIDE, RATE_BESIDE_PRECISE, SNAPSHOT, SUM_MINUTE,
    SUM_MINUTE_BESIDE, WRITER, WRITER_ELSEWHERE, WRITER_PRECISE, WRITER_PRECISE_ELSEWHERE,
    with_crowd,
};
use crate::scenarios::record::{
    CACHED, ENTRY, FETCH_ADD, GIVEN, MANY, PRECISE, RAW, RAW_AGAIN, SAME_SET_512, SAME_SET_1024,
    SUCCESS, THREE_IN_SET,
};
use crate::scenarios::rotate::{MINUTE, SECOND, STORE, Stage};
use crate::scenarios::{crowds, thread_counts};

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) threads: usize,
    pub(crate) against: &'static str,
    pub(crate) against_threads: usize,
    pub(crate) at_most: Option<f64>,
}

impl Row {
    /// Held against something on as many threads.
    const fn new(
        what: &'static str,
        threads: usize,
        against: &'static str,
        at_most: Option<f64>,
    ) -> Self {
        Self { what, threads, against, against_threads: threads, at_most }
    }

    /// Its cost, and that of what it is held against.
    pub(crate) fn costs(&self, results: &Results) -> Option<(Cost, Cost)> {
        let cost = results.get(self.what, self.threads)?;
        Some((cost, results.get(self.against, self.against_threads)?))
    }
}

pub(crate) fn recording() -> Vec<Row> {
    let mut rows = Vec::new();
    for (threads, many, shared) in [(1, 1.1, 0.5), (2, 1.5, 0.15)] {
        rows.push(Row::new(RAW_AGAIN, threads, RAW, None));
        rows.push(Row::new(PRECISE, threads, RAW, Some(1.05)));
        rows.push(Row::new(SUCCESS, threads, RAW, Some(1.05)));
        rows.push(Row::new(ENTRY, threads, RAW, Some(2.10)));
        rows.push(Row::new(MANY, threads, RAW, Some(many)));
        rows.push(Row::new(SAME_SET_512, threads, RAW, Some(1.5)));
        rows.push(Row::new(SAME_SET_1024, threads, RAW, Some(1.5)));
        rows.push(Row::new(THREE_IN_SET, threads, RAW, None));
        rows.push(Row::new(CACHED, threads, FETCH_ADD, Some(shared)));
        rows.push(Row::new(GIVEN, threads, FETCH_ADD, Some(shared)));
    }
    rows
}

pub(crate) fn crowded(cores: usize) -> Vec<Row> {
    crowds(cores).map(|threads| Row::new(GIVEN, threads, FETCH_ADD, None)).into()
}

/// The same on more threads, held against itself on one.
pub(crate) fn flat(cores: usize) -> Vec<Row> {
    let counts = thread_counts(cores).into_iter().filter(|&threads| threads > 1);
    let rows = counts.flat_map(|threads| [PRECISE, CACHED, GIVEN].map(|what| (what, threads)));
    rows.map(|(what, threads)| Row {
        against_threads: 1,
        ..Row::new(what, threads, what, Some(1.1))
    })
    .collect()
}

/// The goals of reading are those of the processor: one for Zen 5, and one for Zen 4, which all others
/// are held to.
pub(crate) fn reading(is_zen_5: bool) -> Vec<Row> {
    let (rate, sum) = if is_zen_5 { (0.6, 5.0) } else { (1.2, 10.0) };
    vec![
        Row::new(RATE, 1, LOAD, Some(rate)),
        Row::new(RATE_BESIDE, 1, LOAD, None),
        Row::new(RATE_BESIDE_PRECISE, 1, LOAD, None),
        Row::new(LOAD_BESIDE, 1, LOAD, None),
        Row::new(WRITER, 1, WRITER_ELSEWHERE, None),
        Row::new(WRITER_PRECISE, 1, WRITER_PRECISE_ELSEWHERE, None),
        Row::new(SUM_MINUTE, 1, LOAD, Some(sum)),
        Row::new(SUM_MINUTE_BESIDE, 1, LOAD, None),
    ]
}

pub(crate) fn deciding() -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in [1, 2] {
        for pair in [FIXED, SLIDING, LEAKY, TOKEN, WARM_UP, CONCURRENCY, BREAKER_FAILING] {
            let held = pair.into_iter().zip(GOVERNOR);
            rows.extend(held.map(|(what, beside)| Row::new(what, threads, beside, Some(1.2))));
        }
        rows.push(Row::new(BREAKER, threads, GOVERNOR[0], Some(1.2)));
        rows.push(Row::new(TOKEN_UNEVEN, threads, GOVERNOR[0], None));
        rows.push(Row::new(LIMITED_ENTRY[0], threads, ENTRY, None));
        rows.push(Row::new(LIMITED_ENTRY[1], threads, SLIDING[1], None));
    }
    rows
}

/// The bytes that a window of a minute may take, at each stage of its use.
pub(crate) const BYTES: [usize; 4] = [512, 960, 15_200, 16_000];

/// A goal of the version, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) what: String,
    /// The threads that record, those that idle, and those that have ended.
    pub(crate) crowd: Crowd,
    pub(crate) measured: f64,
    pub(crate) unit: String,
    pub(crate) at_most: f64,
}

impl Goal {
    fn new(what: &str, crowd: Crowd, measured: f64, unit: &str, at_most: f64) -> Self {
        // As it is shown.
        let measured = (measured * 100.0).round() / 100.0;
        Self { what: what.to_owned(), crowd, measured, unit: unit.to_owned(), at_most }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.measured <= self.at_most
    }

    /// Whether the two are about the same thing.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.what == other.what && self.crowd == other.crowd
    }
}

/// What a cost that has not grown may differ by.
const NOT_MORE: f64 = 1.1;

/// All goals but that of instructions, which are the same on every processor.
pub(crate) fn all(measured: &Measured) -> Vec<Goal> {
    let rows = recording().into_iter().chain(reading(measured.processor.is_zen_5()));
    let mut goals: Vec<_> = rows.filter_map(|row| of_row(measured, &row)).collect();
    for crowd in CROWDS {
        goals.extend(of_crowd(measured, crowd));
    }
    goals.extend(of_nodes(measured));
    goals.extend(of_rotations(measured));
    for (threads, first) in THREADS.into_iter().zip(&measured.first.record) {
        if !first.is_empty() {
            let median = first.value_at_quantile(0.5) as f64;
            let what = "a thread's first record in a bucket, median";
            goals.push(Goal::new(what, Crowd::of(threads), median, "ns", 300.0));
        }
    }
    goals
}

fn of_row(measured: &Measured, row: &Row) -> Option<Goal> {
    let (cost, beside) = row.costs(&measured.results)?;
    let unit = format!("× {}", row.against);
    let ratio = cost.median / beside.median;
    Some(Goal::new(row.what, Crowd::of(row.threads), ratio, &unit, row.at_most?))
}

/// What reads cost with other threads, beside what they cost with one.
fn of_crowd(measured: &Measured, crowd: Crowd) -> Vec<Goal> {
    let costs = |what| {
        let cost = |crowd| measured.results.median(&with_crowd(what, crowd), 1);
        Some((cost(crowd)?, cost(Crowd::of(1))?))
    };
    let goal = |what| {
        let (cost, alone) = costs(what)?;
        match crowd.record {
            1 if crowd == Crowd::of(1) => None,
            1 => Some(Goal::new(what, crowd, cost / alone, "× one thread", NOT_MORE)),
            cells => {
                let more = (cost - alone) / (cells - 1) as f64;
                Some(Goal::new(what, crowd, more, "ns more for each further cell", 1.0))
            }
        }
    };
    let snapshot = costs(SNAPSHOT).map(|(cost, _)| {
        let at_most = 20.0f64.mul_add(crowd.record as f64, 1_000.0);
        Goal::new(SNAPSHOT, crowd, cost, "ns", at_most)
    });
    [goal(RATE), goal(SUM_MINUTE), snapshot].into_iter().flatten().collect()
}

fn of_nodes(measured: &Measured) -> Vec<Goal> {
    let nodes = measured.bytes.iter().flat_map(|counted| &counted.nodes);
    let goals = nodes.flat_map(|&NodeBytes { threads, recording, ended }| {
        let (most, what) = (24.0 * 1_024.0, "a node after a minute");
        let (bytes, cells) = recording;
        let at_most = 160.0f64.mul_add(cells as f64, most);
        [
            Goal::new(what, Crowd::of(threads), bytes as f64, "bytes", at_most),
            Goal::new(what, Crowd::beside(0, threads), ended.0 as f64, "bytes", most),
        ]
    });
    goals.collect()
}

fn of_rotations(measured: &Measured) -> Vec<Goal> {
    let median = |stage: Stage, what| measured.results.median(&stage.name(what), 1);
    let goals = [SECOND, MINUTE].into_iter().flat_map(|what| {
        Stage::ALL.into_iter().filter_map(move |stage| {
            let (beside, unit, at_most) = match stage {
                Stage::Fresh => (median(stage, STORE)?, "× a fresh bucket, stored", 1.0),
                Stage::Ended => (median(Stage::Fresh, what)?, "× in a fresh process", 1.2),
                Stage::Idle => (median(Stage::Fresh, what)?, "× in a fresh process", 2.0),
            };
            let (idle, ended) = stage.idle_and_ended();
            let crowd = Crowd::beside(idle, ended);
            Some(Goal::new(what, crowd, median(stage, what)? / beside, unit, at_most))
        })
    });
    goals.collect()
}

/// The operations whose instructions have a goal, by their names in the baseline.
pub(crate) const INSTRUCTIONS: [(&str, &str, f64); 6] = [
    ("add_at", "add", 35.0),
    ("record_success_at", "success + rt", 50.0),
    ("enter_and_succeed_at", "enter + success", 105.0),
    ("sum_at_2", "sum over 2 buckets", 80.0),
    ("sum_at_120", "sum over 120 buckets", 600.0),
    ("rollover", "rollover", 800.0),
];
