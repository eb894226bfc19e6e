//! Tables in Markdown.

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
