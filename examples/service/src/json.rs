//! A reading as a JSON object, on one line.

use std::fmt::Display;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray::node::NodeSnapshot;
use serde::{Serialize, Serializer};

use crate::controller::State;
use crate::reading::{Reading, Row};

/// The reading as a JSON object, with a line break at the end.
pub(crate) fn object(reading: &Reading) -> String {
    let total = reading.total();
    let object = Object {
        timestamp: reading.snapshot.timestamp,
        resources: reading.rows().map(Member::of).collect(),
        total: Member::of(Row::of_total(&total)),
        controllers: reading
            .controllers
            .iter()
            .map(|(route, state)| Controlled { name: route.path(), state: *state })
            .collect(),
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
    controllers: Vec<Controlled>,
}

/// The state of the controller of a route.
#[derive(Serialize)]
struct Controlled {
    name: &'static str,
    #[serde(flatten)]
    state: State,
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

/// Serializes a value as its text.
pub(crate) fn display<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn seconds(span: Duration) -> String {
    format!("{}.{:09}", span.as_secs(), span.subsec_nanos())
}
