//! Tables in Markdown, and plots in plain text.

/// Returns a line of a table.
pub(crate) fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// Writes a share.
pub(crate) fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$} %", share * 100.0)
}

/// Writes a number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    match (number / 1_000, number % 1_000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{},{rest:03}", grouped(thousands)),
    }
}

/// The columns of a plot.
const WIDTH: usize = 60;

/// Draws a line from the least to the most of each row, with a point between them. A value beyond
/// the ends of the axis is at its edge. `names` is the width of the names.
pub(crate) fn plot(
    title: &str,
    [low, high]: [f64; 2],
    names: usize,
    rows: impl Iterator<Item = (String, [f64; 3])>,
) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in the range")]
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let column = |value: f64| {
        (((value - low) / (high - low)).clamp(0.0, 1.0) * (WIDTH - 1) as f64).round() as usize
    };
    let ends = format!("{low}{:>width$}", high, width = WIDTH - format!("{low}").len());
    let mut text = format!("{title}\n{:names$}{ends}\n", "");
    for (name, values) in rows {
        let [first, point, last] = values.map(column);
        let mark = |at: usize| match at {
            _ if at == point => '●',
            _ if (first..=last).contains(&at) => '─',
            _ => '·',
        };
        text += &name;
        text += &" ".repeat(names - name.chars().count());
        text.extend((0..WIDTH).map(mark));
        text.push('\n');
    }
    text
}

/// The bars of a chart, from nothing to the whole.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a bar for each value, as a part of `whole`, rounded up to an eighth, so that only nothing
/// is empty.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 8")]
pub(crate) fn bars(values: impl IntoIterator<Item = f64>, whole: f64) -> String {
    let bar = |value: f64| BARS[(value / whole * 8.0).ceil().clamp(0.0, 8.0) as usize];
    values.into_iter().map(bar).collect()
}

/// Draws lines of bars between fences, each with a name in front.
pub(crate) fn chart(lines: &[(String, String)]) -> String {
    let widest = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, bars): &(String, String)| format!("{name:widest$} │{bars}│\n");
    format!("```text\n{}```\n", lines.iter().map(line).collect::<String>())
}

/// Returns a name for a line of a chart: without its settings.
pub(crate) fn short(name: &str) -> String {
    let name = name.replace('`', "");
    let ends = [", ", " of "].iter().filter_map(|it| name.find(it)).min();
    name[..ends.unwrap_or(name.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_is_a_part_of_the_whole() {
        assert_eq!(bars([0.0, 0.1, 0.5, 0.99, 1.0, 7.0], 1.0), " ▁▄███");
        let lines = [("a", "▁"), ("bcd", "█")].map(|(name, bars)| (name.into(), bars.into()));
        assert_eq!(chart(&lines), "```text\na   │▁│\nbcd │█│\n```\n");
    }
}
