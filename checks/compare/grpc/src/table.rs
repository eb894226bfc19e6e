//! The figures of a comparison.

use crate::audit::LIMIT;
use crate::fleet::Kind;
use crate::load::Load;

/// What was measured of a server.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    /// Of each round.
    per_second: Vec<f64>,
    per_core: Vec<f64>,
    p99: Vec<f64>,
    /// Commands of Redis for a decision.
    commands: Vec<f64>,
    /// The requests that were admitted in the fullest second.
    pub(crate) fullest: Option<usize>,
}

impl Row {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            per_second: Vec::new(),
            per_core: Vec::new(),
            p99: Vec::new(),
            commands: Vec::new(),
            fullest: None,
        }
    }

    /// Notes a full load, for which the server took `processor` seconds and Redis processed
    /// `commands`.
    #[expect(clippy::cast_precision_loss, reason = "numbers of some seconds")]
    pub(crate) fn note_full(&mut self, load: &Load, processor: f64, commands: Option<u64>) {
        self.per_second.push(load.requests as f64 / load.seconds);
        self.per_core.push(load.requests as f64 / processor);
        self.commands.extend(commands.map(|it| it as f64 / load.requests as f64));
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds")]
    pub(crate) fn note_steady(&mut self, load: &Load) {
        self.p99.push(load.p99 as f64);
    }
}

/// Returns the mean of the best tenth of the rounds.
fn quiet(rounds: &[f64], is_best: impl Fn(&f64, &f64) -> std::cmp::Ordering) -> f64 {
    let mut rounds = rounds.to_vec();
    rounds.sort_by(is_best);
    let best = &rounds[..rounds.len().div_ceil(10)];
    #[expect(clippy::cast_precision_loss, reason = "some rounds")]
    let count = best.len() as f64;
    best.iter().sum::<f64>() / count
}

fn highest(rounds: &[f64]) -> f64 {
    quiet(rounds, |one, other| other.total_cmp(one))
}

fn lowest(rounds: &[f64]) -> f64 {
    quiet(rounds, f64::total_cmp)
}

/// Prints the table in Markdown.
pub(crate) fn print(rows: &[Row]) {
    println!(
        "| | decisions per second | per core | p99, µs | commands of Redis | in the fullest \
         second, of {LIMIT} |\n|---|---:|---:|---:|---:|---:|"
    );
    for row in rows {
        let commands = match row.commands[..] {
            [] => "–".to_owned(),
            _ => format!("{:.4}", lowest(&row.commands)),
        };
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {commands} | {} |",
            row.kind.name(),
            highest(&row.per_second),
            highest(&row.per_core),
            lowest(&row.p99),
            row.fullest.map_or_else(|| "–".to_owned(), |it| it.to_string()),
        );
    }
}
