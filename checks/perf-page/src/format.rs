//! Numbers and tables in Markdown.

/// Returns a table. Its first `names` columns are aligned to the left, the others to the right.
pub(crate) fn table(
    names: usize,
    head: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head_line = line(head.iter().map(ToString::to_string).collect());
    let alignment = "---|".repeat(names) + &"---:|".repeat(head.len() - names);
    format!("{head_line}|{alignment}\n") + &rows.into_iter().map(line).collect::<String>()
}

/// Breaks a paragraph into lines of at most 100 bytes, and indents all lines but the first.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.len();
        if width > 0 && width + 1 + length > 100 {
            lines += "\n";
            lines += indent;
            width = indent.len();
        } else if width > 0 {
            lines += " ";
            width += 1;
        }
        lines += word;
        width += length;
    }
    lines + "\n"
}

/// Writes a cost: with a decimal below 100, and otherwise as a whole number.
pub(crate) fn cost(cost: f64) -> String {
    if cost < 100.0 { format!("{cost:.1}") } else { grouped(cost) }
}

/// Writes a number as a whole one, with a comma between thousands.
#[must_use]
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_at_most_100_bytes_long() {
        let text = wrapped(&["×"; 120].join(" "), "  ");
        let lengths: Vec<_> = text.lines().map(str::len).collect();
        assert_eq!(lengths, [98, 100, 100, 64]);
        assert_eq!(text.split_whitespace().count(), 120);
    }
}
