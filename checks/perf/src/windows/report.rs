//! The report of the window over a fleet, for one processor. The text is in `report.md`.

use super::{Measured, Seen};
use crate::goals::Goal;
use crate::report::method::versions;
use crate::report::{Run, tables};
use crate::results::quantile;
use crate::scenarios::crowd::Crowd;

/// The crates whose versions the report lists.
const CRATES: &str = "leaparray leaparray-redis redis tokio";

/// A column of the tables: its name, its unit, the highest value if there is a goal, and the value.
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

pub(super) fn document(run: &Run, measured: &[Measured]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let case = &first.case;
    let table = |columns: &[Column]| {
        let head = columns.iter().map(|it| match it.unit {
            "" => it.name.to_owned(),
            unit => format!("{}, {unit}", it.name),
        });
        let head = format!("requests | {}", head.collect::<Vec<_>>().join(" | "));
        let rows = measured.iter().map(|it| {
            let cells = columns.iter().map(|column| tables::number(column.of(it)));
            format!("{} | {}", it.case.requests, cells.collect::<Vec<_>>().join(" | "))
        });
        tables::table(&head, rows)
    };
    format!(
        include_str!("report.md"),
        processor = run.processor,
        cores = run.cores,
        processes = tables::format_grouped(case.processes.into()),
        resources = tables::format_grouped(case.resources as u64),
        budget_of_process = case.budget.process >> 10,
        budget_of_fleet = case.budget.fleet >> 20,
        fill = case.times.fill,
        measure = case.times.measure,
        process = table(&PROCESS),
        server = table(&SERVER),
        reader = table(&READER),
        versions = versions(run, CRATES),
    )
}

/// Returns the goals: the budget of a thousand processes with a thousand resources each.
pub(super) fn goals(measured: &[Measured]) -> Vec<Goal> {
    let columns = [("server", &SERVER[..]), ("reader", &READER[..])];
    let mut goals = Vec::new();
    for it in measured {
        for (part, columns) in columns {
            for column in columns {
                let Some(at_most) = column.at_most else { continue };
                let case = format!("{part}, requests {}: {}", it.case.requests, column.name);
                let (measured, unit) = (column.of(it), column.unit.to_owned());
                goals.push(Goal { case, crowd: Crowd::of(1), measured, unit, at_most });
            }
        }
    }
    goals
}
