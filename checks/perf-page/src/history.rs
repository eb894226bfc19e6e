//! The table of how instructions have changed, from `checks/instructions/history.tsv`.

use crate::format;
use crate::instructions::OPERATIONS;

/// The number of characters of a plot.
const WIDTH: usize = 16;

/// A measurement of one operation of the core.
#[derive(Clone, Copy)]
struct Point<'a> {
    date: &'a str,
    instructions: f64,
}

/// Returns the table: a row for each operation of the table of instructions.
pub(crate) fn table(history: &str) -> Result<String, String> {
    let lines = history.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    let points = lines.map(|(line, number)| {
        parse(line).ok_or(format!("line {number} of the history has another form"))
    });
    let points: Vec<_> = points.collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for (what, name) in OPERATIONS {
        let of_operation = points.iter().filter(|(found, _)| found == name);
        let values: Vec<_> = of_operation.map(|(_, point)| *point).collect();
        rows.push(row(what, &values).ok_or(format!("no history of {name}"))?);
    }
    let head = ["operation at a given time", "changes", "first", "lowest", "on", "now", "÷ lowest"];
    Ok(format::table(2, &head, rows))
}

/// Returns the operation and the measurement of a line. No other bench has an operation of the same
/// name.
fn parse(line: &str) -> Option<(&str, Point<'_>)> {
    let [date, _, _, operation, instructions, _] = line.split('\t').collect::<Vec<_>>()[..] else {
        return None;
    };
    Some((operation, Point { date, instructions: instructions.parse().ok()? }))
}

fn row(what: &str, values: &[Point<'_>]) -> Option<Vec<String>> {
    let (first, now) = (values.first()?.instructions, values.last()?.instructions);
    let lowest = values.iter().min_by(|a, b| a.instructions.total_cmp(&b.instructions))?;
    Some(vec![
        what.to_owned(),
        plot(values),
        format::grouped(first),
        format::grouped(lowest.instructions),
        lowest.date.to_owned(),
        format::grouped(now),
        format!("{:.2}", now / lowest.instructions),
    ])
}

/// Plots the last values, from the first to the eighth of their range.
fn plot(values: &[Point<'_>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let last = &values[values.len().saturating_sub(WIDTH)..];
    let all = || last.iter().map(|point| point.instructions);
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
    let bar = |value: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        // Between two bars, the nearer one.
        BARS[(0..7).filter(|&at| share > (f64::from(at) + 0.5) / 7.0).count()]
    };
    all().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plot_spans_the_range() {
        let points = [10.0, 20.0, 15.0].map(|instructions| Point { date: "", instructions });
        assert_eq!(plot(&points), "▁█▄");
        assert_eq!(plot(&points[..1]), "▁");
    }

    #[test]
    fn line_of_another_form_is_an_error() {
        assert!(table("2026-01-01\tadd_at\t34").is_err());
    }
}
