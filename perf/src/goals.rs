//! What each cost is held against, and how much of it it may be.

use crate::results::{Cost, Results};
use crate::scenarios::decide::{
    BREAKER, BREAKER_FAILING, CONCURRENCY, FIXED, GOVERNOR, LEAKY, LIMITED_ENTRY, SLIDING, TOKEN,
    TOKEN_UNEVEN, WARM_UP,
};
use crate::scenarios::read::{
    LOAD, LOAD_BESIDE, RATE, RATE_BESIDE, RATE_BESIDE_PRECISE, RATE_OF_FOUR, RATE_OF_TWO,
    SUM_MINUTE, SUM_MINUTE_BESIDE, WRITER, WRITER_ELSEWHERE, WRITER_PRECISE,
    WRITER_PRECISE_ELSEWHERE,
};
use crate::scenarios::record::{
    CACHED, ENTRY, FETCH_ADD, GIVEN, MANY, PRECISE, RAW, RAW_AGAIN, SUCCESS,
};
use crate::scenarios::rotate::{MINUTE, SECOND, STORE};
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
    for (threads, many, cached) in [(1, 1.1, 0.6), (2, 1.8, 0.2)] {
        rows.push(Row::new(RAW_AGAIN, threads, RAW, None));
        rows.push(Row::new(PRECISE, threads, RAW, Some(1.05)));
        rows.push(Row::new(SUCCESS, threads, RAW, Some(1.10)));
        rows.push(Row::new(ENTRY, threads, RAW, Some(2.20)));
        rows.push(Row::new(MANY, threads, RAW, Some(many)));
        rows.push(Row::new(CACHED, threads, FETCH_ADD, Some(cached)));
        rows.push(Row::new(GIVEN, threads, FETCH_ADD, None));
    }
    rows
}

pub(crate) fn crowded(cores: usize) -> Vec<Row> {
    crowds(cores).map(|threads| Row::new(GIVEN, threads, FETCH_ADD, Some(1.3))).into()
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

pub(crate) fn reading() -> Vec<Row> {
    vec![
        Row::new(RATE, 1, LOAD, Some(0.4)),
        Row::new(RATE_OF_TWO, 1, LOAD, None),
        Row::new(RATE_OF_FOUR, 1, LOAD, None),
        Row::new(RATE_BESIDE, 1, LOAD, Some(1.5)),
        Row::new(RATE_BESIDE_PRECISE, 1, LOAD, Some(1.5)),
        Row::new(LOAD_BESIDE, 1, LOAD, None),
        Row::new(WRITER, 1, WRITER_ELSEWHERE, Some(1.1)),
        Row::new(WRITER_PRECISE, 1, WRITER_PRECISE_ELSEWHERE, Some(1.1)),
        Row::new(SUM_MINUTE, 1, LOAD, Some(12.0)),
        Row::new(SUM_MINUTE_BESIDE, 1, LOAD, None),
    ]
}

pub(crate) fn rotating() -> Vec<Row> {
    vec![Row::new(SECOND, 1, STORE, None), Row::new(MINUTE, 1, STORE, None)]
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
pub(crate) const BYTES: [usize; 4] = [512, 1_400, 18_000, 36_000];
