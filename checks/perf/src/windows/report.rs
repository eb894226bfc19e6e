//! The values of the window over a fleet. The goals are the budget of a thousand processes with a
//! thousand resources each.

use leaparray_perf_page::Value;

use super::{Measured, Seen};
use crate::goals;
use crate::results::quantile;

/// A property of a party: its name, its unit, the highest value if there is a goal, and the value.
struct Column {
    name: &'static str,
    unit: &'static str,
    at_most: Option<f64>,
    value: fn(&Measured) -> f64,
}

impl Column {
    /// Returns the value with three digits, or with the unit's.
    fn of(&self, measured: &Measured) -> f64 {
        let value = (self.value)(measured);
        let scale = match value {
            100.0.. => 1.0,
            10.0.. => 10.0,
            _ => 100.0,
        };
        (value * scale).round() / scale
    }
}

const MEGA: f64 = 1e6;

const PROCESS: [Column; 5] = [
    Column { name: "bytes", unit: "KB", at_most: None, value: |it| it.bytes / 1e3 },
    Column {
        name: "resources without a row",
        unit: "%",
        at_most: None,
        value: |it| {
            let all = f64::from(it.case.processes) * it.case.resources as f64;
            it.median(|seen| seen.left_out) / all * 100.0
        },
    },
    Column {
        name: "resources with quantiles",
        unit: "%",
        at_most: None,
        value: |it| {
            it.median(|seen| seen.with_quantiles) / it.median(|seen| seen.resources) * 100.0
        },
    },
    Column {
        name: "requests to them",
        unit: "%",
        at_most: None,
        value: |it| {
            it.median(|seen| seen.passes_with_quantiles) / it.median(|seen| seen.passes) * 100.0
        },
    },
    Column { name: "reading and encoding", unit: "ms", at_most: None, value: |it| it.collect },
];

const SERVER: [Column; 5] = [
    Column {
        name: "operations in a second",
        unit: "",
        at_most: Some(1_250.0),
        value: |it| it.server.operations,
    },
    Column {
        name: "received in a second",
        unit: "MB",
        at_most: Some(36.0),
        value: |it| it.server.bytes_in / MEGA,
    },
    Column {
        name: "sent in a second",
        unit: "MB",
        at_most: Some(36.0),
        value: |it| it.server.bytes_out / MEGA,
    },
    Column { name: "CPU", unit: "%", at_most: Some(50.0), value: |it| it.server.cpu * 100.0 },
    Column {
        name: "memory",
        unit: "MB",
        at_most: Some(4_000.0),
        value: |it| it.server.memory / MEGA,
    },
];

const READER: [Column; 6] = [
    Column {
        name: "seconds seen as the newest final one",
        unit: "%",
        at_most: None,
        value: |it| it.seen_share() * 100.0,
    },
    Column { name: "CPU", unit: "%", at_most: Some(100.0), value: |it| it.reader.cpu * 100.0 },
    Column {
        name: "memory",
        unit: "MB",
        at_most: Some(1_000.0),
        value: |it| it.reader.memory / MEGA,
    },
    Column { name: "`last_second`", unit: "ms", at_most: None, value: |it| it.reader.last_second },
    Column { name: "`last_minute`", unit: "ms", at_most: None, value: |it| it.reader.last_minute },
    Column {
        name: "from the end of a second until it is read as final",
        unit: "s",
        at_most: None,
        value: |it| it.median(|seen| seen.millis) / 1e3,
    },
];

impl Measured {
    fn median(&self, value: fn(&Seen) -> u64) -> f64 {
        let mut values: Vec<f64> = self.seen.iter().map(|it| value(it) as f64).collect();
        values.sort_by(f64::total_cmp);
        quantile(0.5, &values)
    }
}

/// Returns the values of all cases.
pub(super) fn values(measured: &[Measured]) -> Vec<Value> {
    let columns = [("process", &PROCESS[..]), ("server", &SERVER), ("reader", &READER)];
    let mut values = Vec::new();
    for it in measured {
        for (part, columns) in columns {
            for column in columns {
                let case = format!("{part}, requests {}: {}", it.case.requests, column.name);
                values.push(goals::value(case, column.of(it), column.unit, column.at_most));
            }
        }
    }
    values
}
