//! A reading as a JSON object, on one line.

use std::time::Duration;

use leaparray::Timestamp;
use leaparray::node::NodeSnapshot;
use leaparray::registry::WatchedLimiter;
use serde::Serialize;

use crate::reading::{Reading, Row};
use crate::state::Text;

/// The reading as a JSON object, with a line break at the end.
pub(crate) fn object(reading: &Reading) -> String {
    let total = reading.total();
    let object = Object {
        timestamp: reading.snapshot.timestamp,
        resources: reading.rows().map(Member::of).collect(),
        total: Member::of(Row::of_total(&total)),
        limiters: reading.limiters.iter().map(Limiter::of).collect(),
    };
    let mut line = serde_json::to_string(&object).expect("names and numbers can be serialized");
    line.push('\n');
    line
}

/// The JSON object of a reading. Times are strings of seconds with nine decimals, as in the
/// snapshots.
#[derive(Serialize)]
struct Object<'a> {
    timestamp: Timestamp,
    resources: Vec<Member<'a>>,
    total: Member<'a>,
    limiters: Vec<Limiter<'a>>,
}

/// The state of a limiter.
#[derive(Serialize)]
struct Limiter<'a> {
    name: &'a str,
    resource: &'a str,
    state: String,
}

impl<'a> Limiter<'a> {
    fn of(WatchedLimiter { name, resource, state, .. }: &'a WatchedLimiter) -> Self {
        Self { name, resource, state: Text(state).to_string() }
    }
}

/// A snapshot, and the rates and the mean that follow from it, so that a reader of the line need
/// not divide.
#[derive(Serialize)]
struct Member<'a> {
    name: &'a str,
    rates: Rates,
    avg_rt: Option<String>,
    snapshot: &'a NodeSnapshot,
}

/// Rates per second, over the last second.
#[derive(Serialize)]
struct Rates {
    pass: f64,
    block: f64,
    exception: f64,
    cancelled: f64,
    success: f64,
}

impl<'a> Member<'a> {
    fn of(Row { name, snapshot }: Row<'a>) -> Self {
        let rates = Rates {
            pass: snapshot.pass_qps(),
            block: snapshot.block_qps(),
            exception: snapshot.exception_qps(),
            cancelled: snapshot.cancelled_qps(),
            success: snapshot.success_qps(),
        };
        Self { name, rates, avg_rt: snapshot.avg_rt().map(seconds), snapshot }
    }
}

fn seconds(span: Duration) -> String {
    format!("{}.{:09}", span.as_secs(), span.subsec_nanos())
}
